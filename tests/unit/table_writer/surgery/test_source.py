"""The file that surgery writes: room reserved at once, copies made beside other work, nothing left of a failed one."""

import errno
import os
import threading

import pytest

from table_format.errors import NoSpaceError
from table_format.storage import Storage
from table_writer.surgery import source
from table_writer.surgery.source import LocalSource, open_source, open_target

SIZE = 1 << 20
DATA = bytes(range(256)) * (SIZE >> 8)


@pytest.fixture
def storage(tmp_path):
    (tmp_path / "old").write_bytes(DATA)
    return Storage(str(tmp_path))


def write(storage, *, background, expected=SIZE):
    with open_source(storage, "old") as old, open_target(storage, "new", background=background) as target:
        target.expect(expected)
        target.write(b"head")
        target.copy(old, 100, 50_000)
        target.copy(old, 50_100, 1000)
        target.write(b"between")
        target.copy(old, 7, 200_000)
        return target.position, target.copied


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("expected", [0, 1000, 100 << 20])
def test_a_file_has_the_bytes_that_were_written_whatever_was_expected(storage, tmp_path, background, expected):
    position, copied = write(storage, background=background, expected=expected)
    new = (tmp_path / "new").read_bytes()
    assert new == b"head" + DATA[100:51_100] + b"between" + DATA[7:200_007]
    assert (position, copied) == (len(new), 251_000)
    assert os.stat(tmp_path / "new").st_blocks * 512 < len(new) + (1 << 20)


def test_room_is_reserved_once_for_all_of_the_file(storage, monkeypatch):
    reserved = []
    monkeypatch.setattr(source, "_fallocate", lambda: lambda *call: reserved.append(call[1:]) or 0)
    write(storage, background=False)
    assert reserved == [(0, 0, len(DATA))]


@pytest.mark.parametrize("allocate", [None, lambda *_: -1])
def test_a_system_that_cannot_reserve_gets_the_same_file(storage, tmp_path, monkeypatch, allocate):
    monkeypatch.setattr(source, "_fallocate", lambda: allocate)
    write(storage, background=False)
    assert (tmp_path / "new").read_bytes() == b"head" + DATA[100:51_100] + b"between" + DATA[7:200_007]


@pytest.mark.parametrize("background", [False, True])
def test_a_full_disk_is_reported_and_nothing_stays(storage, tmp_path, monkeypatch, background):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(source.Target, "_put", full)
    with pytest.raises(NoSpaceError):
        write(storage, background=background)
    assert not (tmp_path / "new").exists()


def test_the_caller_goes_on_while_a_copy_is_made(storage, monkeypatch):
    may_copy = threading.Event()
    read = LocalSource.read

    def late(self, offset, size):
        assert may_copy.wait(60)
        return read(self, offset, size)

    monkeypatch.setattr(source, "_copied_by_kernel", lambda *_: 0)
    with open_source(storage, "old") as old, open_target(storage, "new", background=True) as target:
        monkeypatch.setattr(LocalSource, "read", late)
        target.copy(old, 0, 1000)
        target.write(b"tail")
        assert target.position == 1004
        may_copy.set()
    assert storage.read("new") == DATA[:1000] + b"tail"


def test_few_bytes_wait_for_a_slow_disk(storage, monkeypatch):
    monkeypatch.setattr(source, "_MOST_QUEUED", 10_000)
    held = []
    with open_target(storage, "new", background=True) as target:
        for _ in range(50):
            target.write(b"x" * 4000)
            held.append(target._queued)
    assert max(held) <= 10_000
    assert len(storage.read("new")) == 200_000
