import pytest

from table_format.errors import CorruptFileError
from table_format.instant import Instant, State
from table_format.timeline.archive_log import archive_files, read_states
from table_writer.archive.entries import encode_entry
from table_writer.archive.files import _PLAN, join_small_files, newest_states, write_archive_file
from table_writer.timeline.options import ArchiveOptions
from tests.support.faults import FaultyStorage, dying

FOLDER = ".hoodie/archived"
OPTIONS = ArchiveOptions(merge_files=3)


def entry(number):
    return encode_entry(Instant(f"{number:017d}", "commit", State.COMPLETED), b"{}", 0, "UTC", "x")


def write(storage, count, start=0):
    for number in range(start, start + count):
        write_archive_file(storage, FOLDER, [entry(number)])


def states(storage):
    return sorted(
        int(time) for file in archive_files(storage, FOLDER) for time, _, _ in read_states(storage, file.path)
    )


def names(storage):
    return sorted(file.name for file in archive_files(storage, FOLDER))


def test_each_file_has_the_next_number(storage):
    write(storage, 11)
    assert names(storage) == sorted(f".commits_.archive.{number}_1-0-1" for number in range(1, 12))
    active = {(f"{10:017d}", "commit")}
    assert newest_states(storage, FOLDER, active) == {(f"{10:017d}", "commit", "COMPLETED")}
    assert newest_states(storage, FOLDER, {(f"{11:017d}", "commit")}) == set()


def test_small_files_are_joined(storage):
    write(storage, 5)
    assert join_small_files(storage, FOLDER, OPTIONS) == 6  # three of five, and then the three that there are
    assert states(storage) == [0, 1, 2, 3, 4]
    assert len(names(storage)) == 1


def test_the_number_of_files_is_bounded(storage):
    most = 0
    for number in range(60):
        write(storage, 1, number)
        join_small_files(storage, FOLDER, OPTIONS)
        most = max(most, len(names(storage)))
    assert states(storage) == [*range(60)]
    assert most <= 6


def test_large_files_stay(storage):
    write(storage, 6)
    assert join_small_files(storage, FOLDER, ArchiveOptions(merge_files=3, merge_bytes=100)) == 0
    assert join_small_files(storage, FOLDER, ArchiveOptions(merge=False, merge_files=3)) == 0


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 7))
def test_joining_that_breaks_off_is_finished(storage, at, when):
    write(storage, 3)
    with dying(at, when):
        join_small_files(FaultyStorage(storage.uri), FOLDER, OPTIONS)
    assert set(states(storage)) == {0, 1, 2}
    join_small_files(storage, FOLDER, OPTIONS)
    assert states(storage) == [0, 1, 2]
    assert len(names(storage)) == 1
    assert not storage.exists(f"{FOLDER}/{_PLAN}")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 7))
def test_the_next_file_does_not_take_the_name_of_one_whose_joining_broke_off(storage, at, when):
    write(storage, 3)
    with dying(at, when):
        join_small_files(FaultyStorage(storage.uri), FOLDER, OPTIONS)
    write(storage, 1, 3)
    assert set(states(storage)) == {0, 1, 2, 3}
    join_small_files(storage, FOLDER, OPTIONS)
    assert states(storage) == [0, 1, 2, 3]
    assert not storage.exists(f"{FOLDER}/{_PLAN}")


def test_a_file_that_holds_more_than_was_to_be_joined_stays(storage):
    """As an archiver leaves it that takes the name for its next file."""
    write(storage, 3)
    with dying(1, "after"):
        join_small_files(FaultyStorage(storage.uri), FOLDER, OPTIONS)
    other = write_archive_file(storage, FOLDER, [entry(3)])
    storage.move(other, f"{FOLDER}/.commits_.archive.4_1-0-1")
    join_small_files(storage, FOLDER, OPTIONS)
    assert states(storage) == [0, 1, 2, 3]


def test_a_joined_file_that_was_not_finished_is_made_again(storage):
    write(storage, 3)
    with dying(3, "after"):
        join_small_files(FaultyStorage(storage.uri), FOLDER, OPTIONS)
    [joined] = [name for name in names(storage) if ".4_" in name]
    storage.overwrite(f"{FOLDER}/{joined}", storage.read(f"{FOLDER}/{joined}")[:-3])
    with pytest.raises(CorruptFileError):
        states(storage)
    if len(names(storage)) == 4:
        join_small_files(storage, FOLDER, OPTIONS)
        assert states(storage) == [0, 1, 2]


def test_a_damaged_joined_file_is_not_taken_for_its_parts(storage):
    write(storage, 3)
    with dying(4, "before"):
        join_small_files(FaultyStorage(storage.uri), FOLDER, OPTIONS)
    [joined] = [name for name in names(storage) if ".4_" in name]
    storage.overwrite(f"{FOLDER}/{joined}", storage.read(f"{FOLDER}/{joined}")[:-3])
    storage.delete(f"{FOLDER}/.commits_.archive.1_1-0-1")
    with pytest.raises(CorruptFileError, match="restore"):
        join_small_files(storage, FOLDER, OPTIONS)
    assert len(names(storage)) == 3
