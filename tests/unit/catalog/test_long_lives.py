"""Tables with long histories, made by Apache Hudi: what they hold now, and after each write."""

import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import Table
from hudi_catalog import create_table
from table_format.errors import CorruptFileError, OptionError
from table_format.timeline.archive import Archive
from tests.golden.histories.make import TABLES
from tests.support.long_life import differences

FOLDER = Path(__file__).parents[2] / "golden/histories"


@dataclass(frozen=True)
class Life:
    path: Path
    states: dict[str, dict[str, dict[str, Any]]]
    files: dict[str, list[str]]

    def open(self) -> Table:
        return Table.open(str(self.path))

    def is_whole(self, instant: str) -> bool:
        """Whether all files of a state are still there."""
        return all((self.path / file).exists() for file in self.files[instant])


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Life]:
    made: dict[str, Life] = {}

    def unpack(name: str) -> Life:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            with tarfile.open(FOLDER / f"{name}.tar.xz") as archive:
                archive.extractall(folder, filter="data")
            facts = json.loads((folder / "facts.json").read_text())
            made[name] = Life(folder / "table", facts["states"], facts["files"])
        return made[name]

    return unpack


@pytest.fixture
def copied(unpacked: Callable[[str], Life], tmp_path: Path) -> Callable[[str], Life]:
    def copy(name: str) -> Life:
        life = unpacked(name)
        shutil.copytree(life.path, tmp_path / name)
        return Life(tmp_path / name, life.states, life.files)

    return copy


def completions(table: Table, instants: list[str]) -> dict[str, str]:
    """When writes completed; in layout 1 a range is of instants."""
    timeline = table.snapshot().timeline
    archived = timeline.archive.writes
    return {time: timeline.completion_time(time) or archived.get(time, time) for time in instants}


@pytest.mark.parametrize("name", TABLES)
def test_the_newest_state(unpacked: Callable[[str], Life], name: str) -> None:
    life = unpacked(name)
    assert differences(life.open().scan().to_arrow(), life.states[max(life.states)]) == ""


def answer(**query: Any) -> pa.Table | OptionError:
    """The rows, or why there are none."""
    table = query.pop("table")
    try:
        return table.scan(**query).to_arrow()
    except OptionError as error:
        return error


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_each_instant_is_answered_or_refused_for_a_cause(unpacked: Callable[[str], Life], name: str) -> None:
    life = unpacked(name)
    table = life.open()
    answers = {instant: answer(table=table, as_of=instant) for instant in life.states}
    answered = {instant: rows for instant, rows in answers.items() if isinstance(rows, pa.Table)}
    assert answered
    assert {time: differences(rows, life.states[time]) for time, rows in answered.items()} == dict.fromkeys(
        answered, ""
    )
    refused = {instant: str(error) for instant, error in answers.items() if instant not in answered}
    for instant, reason in refused.items():
        assert "cleaned away" in reason
        assert instant not in life.files or not life.is_whole(instant)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.slow
def test_ranges(unpacked: Callable[[str], Life], name: str) -> None:
    life = unpacked(name)
    table = life.open()
    known = sorted(life.states)
    done = completions(table, known)
    for begin in ["earliest", *known]:
        since = "" if begin == "earliest" else begin
        for end in [None, *(time for time in known[-4:] if time > since)]:
            rows = answer(table=table, incremental=(done.get(begin, begin), end and done[end]))
            state = life.states[end or known[-1]]
            wanted = {key: row for key, row in state.items() if row["_hoodie_commit_time"] > since}
            assert isinstance(rows, OptionError) or differences(rows, wanted) == "", (begin, end)
            assert end is not None or isinstance(rows, pa.Table)


@pytest.mark.parametrize("name", TABLES)
def test_plain_queries_leave_the_archive_alone(
    unpacked: Callable[[str], Life], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = unpacked(name)
    table = life.open()
    read: list[str] = []
    monkeypatch.setattr(Archive, "entries", lambda self: read.append(self) or [])
    table.scan("id = 'k001'").plan()
    table.refresh().scan(as_of=max(life.states)).plan()
    assert bool(read) == (name in ("saved_v6", "beyond_v6")), "only where a savepoint keeps what was replaced"


def test_replaced_groups_stay_out_when_their_replacecommit_is_archived(unpacked: Callable[[str], Life]) -> None:
    life = unpacked("beyond_v6")
    snapshot = life.open().snapshot()
    there = {name.rpartition("/")[2].partition("_")[0] for name in os.listdir(life.path / "p0")}
    gone = {file_id for _, file_id, _ in snapshot.timeline.archived_replaced}
    assert there & gone, "the savepoint keeps files of replaced groups"
    assert not gone & set(snapshot.files["file_id"].to_pylist())


def test_a_replaced_group_counts_again_once_it_was_written_to(copied: Callable[[str], Life]) -> None:
    # as Apache's writers do, which do not know of it any more
    life = copied("beyond_v6")
    before = life.open()
    last = max(life.states)
    file_id = next(of for partition, of, _ in before.snapshot().timeline.archived_replaced if partition == "p0")
    old = next(path for path in (life.path / "p0").iterdir() if path.name.startswith(file_id))
    shutil.copy(old, old.with_name(f"{file_id}_9-9-9_{last}.parquet"))
    shutil.rmtree(life.path / ".hoodie/metadata")
    properties = life.path / ".hoodie/hoodie.properties"
    text = properties.read_text()
    properties.write_text(re.sub(r"hoodie.table.metadata.partitions=.*", "hoodie.table.metadata.partitions=", text))
    rows = life.open().scan().to_arrow()
    assert rows.num_rows == len(life.states[last]) + pq.read_metadata(old).num_rows


def archived_files(life: Life) -> list[Path]:
    return [path for path in life.path.glob(".hoodie/archived/.commits_*") if path.suffix != ".crc"]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda data: data[:-9],
    "another length": lambda data: data.replace(
        b"\x00\x00\x00\x03\x00\x00\x00\x03", b"\x00\x00\x00\x03\x00\x00\x00\x04"
    ),
    "another schema": lambda data: data.replace(b'"name":"actionState"', b'"name":"actionStat2"'),
    "no log": lambda data: b"no log" + data,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["saved_v6", "beyond_v6"])
def test_a_damaged_archive_is_an_error(copied: Callable[[str], Life], name: str, damage: str) -> None:
    life = copied(name)
    for path in archived_files(life):
        path.write_bytes(DAMAGES[damage](path.read_bytes()))
    if name == "beyond_v6":
        with pytest.raises(CorruptFileError, match=r"archived/\.commits_"):
            life.open().scan()
    else:
        second = life.open().client.timeline().writes[1].time
        with pytest.raises(CorruptFileError, match=r"archived/\.commits_"):
            life.open().scan(as_of=second)


def test_an_archiving_run_that_broke_off(copied: Callable[[str], Life]) -> None:
    life = copied("beyond_v6")
    path = max(archived_files(life))
    whole = path.stat().st_size
    with path.open("ab") as stream:
        stream.write(path.read_bytes()[:100])
    with pytest.raises(CorruptFileError, match=f"shorten it to {whole} bytes"):
        life.open().scan()
    os.truncate(path, whole)
    assert differences(life.open().scan().to_arrow(), life.states[max(life.states)]) == ""


def test_a_table_without_savepoints_needs_no_archive(copied: Callable[[str], Life]) -> None:
    life = copied("clustered_v6")
    for path in archived_files(life):
        path.write_bytes(b"no log")
    assert differences(life.open().scan().to_arrow(), life.states[max(life.states)]) == ""


def test_a_time_that_cannot_be(unpacked: Callable[[str], Life]) -> None:
    table = unpacked("renamed_v8").open()
    assert table.scan(as_of="99991231235959999").to_arrow().num_rows == table.scan().to_arrow().num_rows
    for text in ("99999999999999999", "20993101000000", "99990101006000"):
        with pytest.raises(OptionError, match="no such time"):
            table.scan(as_of=text)


def test_cleans_before_a_restore_count_when_they_are_archived(tmp_path: Path) -> None:
    policy = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    short = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    table = create_table(
        tmp_path / "t", "id bigint, p string, v int", record_key="id", partition_by="p", buckets=1, options=policy
    )

    def upsert(value: int) -> str:
        rows = [{"id": 1, "p": "x", "v": value}, {"id": 2, "p": "y", "v": value}]
        return str(table.upsert(rows if value % 3 == 0 else rows[:1]).instant)

    instants = [upsert(value) for value in range(4)]
    assert table.clean(commits=1).files
    table.restore(instants[2])
    later = [upsert(value) for value in range(3, 7)]
    assert table.archive(options=short).instants
    for instant in instants[:2]:
        with pytest.raises(OptionError, match="were cleaned away"):
            table.scan(as_of=instant).to_arrow()
    for value, instant in enumerate([instants[2], *later], 2):
        rows = table.scan(as_of=instant).to_arrow()
        assert dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)) == {1: value, 2: value // 3 * 3}
