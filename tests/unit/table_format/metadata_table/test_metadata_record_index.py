"""The record index: both forms of file ids, several versions of an entry, partitioned indexes."""

import uuid

import numpy as np
import pyarrow as pa
import pytest

from table_format.codecs.avro_schema_tree import parse_text
from table_format.errors import CorruptFileError
from table_format.hfile.reader import HFileReader
from table_format.metadata_table import layout
from table_format.metadata_table.keys import shard_of_key
from table_format.metadata_table.record_index_entries import uuid_texts
from table_format.metadata_table.record_index_shard import newest
from table_format.metadata_table.records import SourceRecords
from table_format.storage import Storage
from table_writer.encoding.hfile import write_hfile
from table_writer.encoding.metadata_records import SCHEMA, SCHEMA_JSON
from tests.support.avro_rows import encoded

TYPE = 5


def entry(partition, *, high=-1, low=-1, index=-1, text="", encoding=0):
    location = {
        "partitionName": partition,
        "fileIdHighBits": high,
        "fileIdLowBits": low,
        "fileIndex": index,
        "fileId": text,
        "instantTime": 0,
        "fileIdEncoding": encoding,
    }
    return {"key": "", "type": TYPE, "recordIndexMetadata": location}


def halves(text):
    number = uuid.UUID(text).int
    return [(half ^ (1 << 63)) - (1 << 63) for half in (number >> 64, number & (1 << 64) - 1)]


def piece(**entries):
    keys = sorted(entries)
    values = encoded(SCHEMA, [entries[key] for key in keys])
    hfile = write_hfile(pa.array([k.encode() for k in keys]), pa.array(values), schema_json=SCHEMA_JSON, codec="GZ")
    return SourceRecords("test", HFileReader(hfile, "test").entries(), parse_text(SCHEMA_JSON))


def deletes(*keys):
    return SourceRecords("deletes", piece(x=entry("p", text="f", encoding=1)).entries.take(slice(0, 0)), None, keys)


def entries_of(*pieces):
    return sorted(tuple(row.values()) for row in newest(pieces).select(["key", "partition", "file_id"]).to_pylist())


FIRST = "ffffffff-0000-4000-8000-00000000000a"
SECOND = "00000007-dead-beef-7fff-ffffffffffff"


def test_both_forms_of_file_ids():
    high, low = halves(FIRST)
    mixed = piece(
        a=entry("p", high=high, low=low, index=12),
        b=entry("", high=high, low=low),
        c=entry("q/ü", text="not-a-uuid-at-all", encoding=1),
    )
    assert entries_of(mixed) == [("a", "p", f"{FIRST}-12"), ("b", "", FIRST), ("c", "q/ü", "not-a-uuid-at-all")]


def test_the_newest_entry_counts_and_deletes_take_what_is_before_them():
    one, two = (entry("p", high=halves(text)[0], low=halves(text)[1], index=0) for text in (FIRST, SECOND))
    first, second = piece(a=one, b=one, c=one), piece(a=two, d=two)
    assert [file_id[:8] for _, _, file_id in entries_of(first, second)] == [
        "00000007",
        "ffffffff",
        "ffffffff",
        "00000007",
    ]
    assert [key for key, _, _ in entries_of(first, second, deletes(b"a", b"b"))] == ["c", "d"]
    assert [key for key, _, _ in entries_of(first, deletes(b"a", b"b"), second)] == ["a", "c", "d"]


@pytest.mark.parametrize(
    "broken",
    [
        entry(None, text="f", encoding=1),
        entry("p", text=None, encoding=1),
        entry("p", high=None, low=1),
        entry("p", text="f", encoding=2),
        {"key": "", "type": TYPE, "recordIndexMetadata": None},
    ],
)
def test_an_entry_that_names_no_place_is_an_error(broken):
    with pytest.raises(CorruptFileError, match="rebuild the index"):
        entries_of(piece(a=broken))


def test_uuids_are_those_of_java():
    texts = [str(uuid.UUID(int=number)) for number in (0, 1, 2**128 - 1, 2**127, 2**64 - 1, 2**63)]
    texts += [str(uuid.uuid5(uuid.NAMESPACE_DNS, str(number))) for number in range(50)]
    bits = np.array([halves(text) for text in texts])
    assert uuid_texts(bits[:, 0], bits[:, 1]).to_pylist() == texts


def test_shards_of_a_partitioned_index_are_counted_by_data_partition(tmp_path):
    folder = tmp_path / layout.FOLDER / "record_index"
    folder.mkdir(parents=True)
    names = [f"record-index-{family}{shard:04d}-0" for family in ("a%2Db-", "2024%2F01-") for shard in (10, 2, 0)]
    for name in names:
        (folder / f".{name}_20260101000000000.log.1_0-0-0").write_bytes(b"")
        (folder / f"{name}_0-1-2_20260101000000001.hfile").write_bytes(b"")
    groups = layout.list_file_groups(Storage(str(tmp_path)), "record_index")
    assert [group.file_id.removeprefix("record-index-") for group in groups] == [
        f"{family}{shard:04d}-0" for family in ("2024%2F01-", "a%2Db-") for shard in (0, 2, 10)
    ]
    assert {group.family for group in groups} == {"record-index-2024%2F01-", "record-index-a%2Db-"}
    assert all(len(group.base_files) == len(group.log_files) == 1 for group in groups)


def test_shards_beyond_the_four_digits_stand_in_the_order_of_their_numbers(tmp_path):
    folder = tmp_path / layout.FOLDER / "record_index"
    folder.mkdir(parents=True)
    for shard in (10_000, 999, 9_999):
        (folder / f".record-index-{shard:04d}-0_20260101000000000.log.1_0-0-0").write_bytes(b"")
    groups = layout.list_file_groups(Storage(str(tmp_path)), "record_index")
    assert [group.file_id for group in groups] == [f"record-index-{n:04d}-0" for n in (999, 9_999, 10_000)]
    assert shard_of_key("a", 3) in range(3)
