"""Properties that another tool removed from a table: they are restored from its commits, or the write is refused."""

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from table_format.actions.commit import CommitMetadata
from table_format.config.properties import format_properties, parse_properties
from table_format.config.table_config import CHECKSUM, TableConfig
from table_format.errors import CorruptFileError, OptionError, UnsupportedTableError
from table_writer.commit import transaction
from tests.support.archived_tables import SHORT
from tests.support.local_writes import LocalTable
from tests.support.reading import user_rows

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("part", pa.string()), ("ts", pa.int64())])
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id,n",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.bucket.index.num.buckets": "3",
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.table.timeline.timezone": "UTC",
}
INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    **{key: text for key, text in OPTIONS.items() if ".bucket." not in key},
}
#: What `CREATE TABLE … USING hudi LOCATION` of Apache 0.15.0 leaves out.
ERASED = (
    "hoodie.table.timeline.timezone",
    "hoodie.compaction.payload.class",
    "hoodie.index.type",
    "hoodie.bucket.index.num.buckets",
    "hoodie.bucket.index.hash.field",
)
COUNT = "hoodie.bucket.index.num.buckets"


def rows(numbers: Iterable[int], ts: int) -> pa.Table:
    values = [{"id": f"k{n}", "n": n % 7, "part": "ab"[n % 2], "ts": ts} for n in numbers]
    return pa.Table.from_pylist(values, SCHEMA)


def change(local: LocalTable, keys: Iterable[str] = ERASED, **values: str) -> None:
    path = Path(local.client.storage.uri, ".hoodie/hoodie.properties")
    kept = {key: text for key, text in parse_properties(path.read_bytes(), "p").items() if key not in keys}
    kept = {**kept, "hoodie.database.name": "default", **values}
    path.write_bytes(format_properties(kept | {CHECKSUM: str(TableConfig(kept).checksum)}))


def table(path: Path, options: dict[str, str]) -> LocalTable:
    local = LocalTable.create(str(path / "t"), SCHEMA, options)
    local.write("upsert", rows(range(40), 5))
    return LocalTable(local.client, {})


def stamps(local: LocalTable) -> dict[str, int]:
    rows = user_rows(local.client)
    assert len({row["id"] for row in rows}) == len(rows), "a record stands twice"
    return {row["id"]: row["ts"] for row in rows}


@pytest.mark.parametrize("options", [OPTIONS, INDEX], ids=["buckets", "record index"])
def test_they_come_back_and_nothing_is_written_twice(
    tmp_path: Path, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    local = table(tmp_path, options)
    before = dict(local.client.config.raw)
    change(local)
    with caplog.at_level(logging.WARNING):
        local.write("upsert", rows(range(30, 50), 3))
    lost = [key for key in ERASED if key in before]
    assert {key: local.client.config.raw[key] for key in lost} == {key: before[key] for key in lost}
    assert local.client.config.database == "default"
    assert all(f"{key}={before[key]}" in caplog.text for key in lost)
    # the older version loses, as the payload class that came back says
    assert stamps(local) == {f"k{n}": 5 if n < 40 else 3 for n in range(50)}


def test_they_come_back_after_writes_that_do_not_tell(tmp_path: Path) -> None:
    """Apache's commits do not carry them on."""
    local = table(tmp_path, OPTIONS)
    local.write("upsert", rows(range(3), 6))
    newest = local.client.timeline().writes[-1]
    path = Path(local.client.storage.uri, ".hoodie", newest.file_name)
    commit = json.loads(path.read_text())
    del commit["extraMetadata"]["hoodie.catalog.table.properties"]
    path.write_text(json.dumps(commit))
    change(local)
    local.write("upsert", rows(range(3), 4))
    assert local.client.config.bucket_count == 3
    assert [stamps(local)[f"k{n}"] for n in range(4)] == [6, 6, 6, 5]


def archived_table(path: Path, options: dict[str, str]) -> LocalTable:
    """A table whose commits with a record are all archived; the active ones have none, like Apache's."""
    local = table(path, options)
    for number in range(5):
        local.write("upsert", rows(range(3), 6 + number), SHORT)
    timeline = local.client.timeline()
    assert timeline.archive.writes
    for write in timeline.writes:
        file = Path(local.client.storage.uri, ".hoodie", write.file_name)
        commit = json.loads(file.read_text())
        del commit["extraMetadata"]["hoodie.catalog.table.properties"]
        file.write_text(json.dumps(commit))
    return local


@pytest.mark.slow
@pytest.mark.parametrize("options", [OPTIONS, INDEX], ids=["buckets", "record index"])
def test_they_come_back_from_the_archive(tmp_path: Path, options: dict[str, str]) -> None:
    local = archived_table(tmp_path, options)
    before = dict(local.client.reload().raw)
    change(local)
    local.write("upsert", rows(range(3), 4))
    assert {key: local.client.reload().raw.get(key) for key in ERASED} == {key: before.get(key) for key in ERASED}
    assert [stamps(local)[f"k{n}"] for n in range(4)] == [10, 10, 10, 5]


@pytest.mark.slow
def test_another_layout_than_that_of_archived_files_is_refused(tmp_path: Path) -> None:
    local = archived_table(tmp_path, OPTIONS)
    change(local, **{COUNT: "4"})
    with pytest.raises(UnsupportedTableError, match=r"by \.hoodie/archived, the archived commit \d+ the table's files"):
        local.write("upsert", rows(range(3), 4))


def test_a_table_that_nobody_wrote_to_must_be_told(tmp_path: Path) -> None:
    local = LocalTable.create(str(tmp_path / "t"), SCHEMA, OPTIONS)
    change(local)
    again = LocalTable(local.client, {})
    with pytest.raises(OptionError, match=r"payload\.class is missing"):
        again.write("upsert", rows(range(3), 1))
    payload = {"hoodie.datasource.write.payload.class": "DefaultHoodieRecordPayload"}
    with pytest.raises(OptionError, match="does not record its bucket count"):
        again.write("upsert", rows(range(3), 1), payload)
    local.write("upsert", rows(range(3), 1), payload)
    assert len(stamps(local)) == 3


def test_lost_while_a_write_is_under_way(tmp_path: Path) -> None:
    """What the write began with goes into its commit, from which the next one puts it back."""
    local = LocalTable.create(str(tmp_path / "t"), SCHEMA, OPTIONS)

    finalize = transaction.WriteTransaction._finalize

    def erase(write: transaction.WriteTransaction, metadata: CommitMetadata) -> None:
        finalize(write, metadata)
        change(local)
        local.client.reload()

    with mock.patch.object(transaction.WriteTransaction, "_finalize", erase):
        local.write("upsert", rows(range(20), 5))
    LocalTable(local.client, {}).write("upsert", rows(range(20), 3))
    assert local.client.config.bucket_count == 3
    assert set(stamps(local).values()) == {5}


@pytest.mark.parametrize(
    ("key", "value"),
    [(COUNT, "8"), ("hoodie.bucket.index.hash.field", "n"), ("hoodie.table.recordkey.fields", "id")],
)
def test_another_layout_than_that_of_the_files_is_refused(tmp_path: Path, key: str, value: str) -> None:
    local = table(tmp_path, OPTIONS)
    before = local.client.config.raw[key]
    change(local, (), **{key: value})
    with pytest.raises(
        UnsupportedTableError, match=f"{key}='{value}', but by .*commit .* by '{before}'; put that back"
    ):
        local.write("upsert", rows(range(3), 6))
    assert not local.client.timeline().pending


def test_options_are_compared_with_what_came_back(tmp_path: Path) -> None:
    local = table(tmp_path, OPTIONS)
    change(local)
    with pytest.raises(OptionError, match=f"{COUNT}='8', but the table has '3'"):
        local.write("upsert", rows(range(3), 6), {COUNT: "8"})


def test_other_names_of_the_same_are_no_loss(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    local = table(tmp_path, OPTIONS)
    named = {"hoodie.table.ordering.fields": "ts", "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    change(local, ("hoodie.table.precombine.field", "hoodie.compaction.payload.class"), **named)
    with caplog.at_level(logging.WARNING):
        local.write("upsert", rows(range(3), 6))
    assert "put back" not in caplog.text
    assert "hoodie.table.precombine.field" not in local.client.config.raw


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}'])
def test_damaged_texts(tmp_path: Path, text: str) -> None:
    local = table(tmp_path, OPTIONS)
    path = next(Path(local.client.storage.uri, ".hoodie").glob("*.commit"))
    commit = json.loads(path.read_text())
    commit["extraMetadata"]["hoodie.catalog.table.properties"] = text
    path.write_text(json.dumps(commit))
    with pytest.raises(CorruptFileError, match=path.name):
        local.write("upsert", rows(range(3), 6))
