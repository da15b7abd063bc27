"""Record keys that no record index can hold."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from table_format.errors import RecordError
from table_format.metadata_table.record_index import RecordIndex
from table_writer.encoding.hfile import LONGEST_KEY, write_hfile
from table_writer.encoding.record_index_entries import refuse_long_keys
from table_writer.record_index.verify import verify_index
from table_writer.slots import slot as slot_writer
from tests.support.local_writes import LocalTable
from tests.support.reading import current_rows

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
OPTIONS = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
BUCKETS = {"hoodie.bucket.index.num.buckets": "2"}
INDEXED = {
    "record index": {"hoodie.index.type": "RECORD_INDEX"},
    "buckets and record index": BUCKETS | {"hoodie.metadata.record.index.enable": "true"},
}
LONG = "key-" + "é" * 20_000


def table(folder: Path, options: dict[str, str]) -> LocalTable:
    return LocalTable.create(str(folder / "t"), SCHEMA, OPTIONS | options)


def rows(*keys: str) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "v": number} for number, key in enumerate(keys)], schema=SCHEMA)


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert", "insert_overwrite_table"])
@pytest.mark.parametrize("kind", INDEXED)
def test_a_key_that_is_too_long_is_refused_before_files_are_written(
    tmp_path: Path, kind: str, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = table(tmp_path, INDEXED[kind])
    local.write("upsert", rows("a"))
    touched: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(slot_writer, "GroupWriter", lambda *arguments, **_: touched.append(arguments))
        with pytest.raises(
            RecordError, match=r"^1 row.* takes 32767 bytes; the first has 40004 and begins with 'key-éé"
        ):
            local.write(operation, rows("a", "b", LONG))
    assert not touched
    assert local.client.timeline().pending == ()
    assert current_rows(local.client).num_rows == 1
    assert verify_index(local.client).is_right


@pytest.mark.parametrize("kind", INDEXED)
def test_the_longest_key_and_deletes_of_longer_ones(tmp_path: Path, kind: str) -> None:
    local = table(tmp_path, INDEXED[kind])
    longest = "k" * LONGEST_KEY
    local.write("upsert", rows("a", longest))
    assert RecordIndex.open(local.client).get_record_locations(pa.array([longest])).num_rows == 1
    assert local.write("delete", rows(longest, longest + "k")).rows_deleted == 1
    assert verify_index(local.client).is_right


def test_tables_without_record_index_take_keys_of_any_length(tmp_path: Path) -> None:
    local = table(tmp_path, BUCKETS)
    local.write("upsert", rows("a", LONG))
    assert local.write("upsert", rows("b", LONG)).rows_updated == 1


def test_the_limit_is_that_of_hfiles() -> None:
    refuse_long_keys(pa.array([None, "k" * LONGEST_KEY, ""]))
    refuse_long_keys(pa.array([], pa.string()))
    assert write_hfile([b"k" * LONGEST_KEY], [b""], schema_json="")
    with pytest.raises(RecordError, match="too long for an HFile"):
        write_hfile([b"k" * (LONGEST_KEY + 1)], [b""], schema_json="")
