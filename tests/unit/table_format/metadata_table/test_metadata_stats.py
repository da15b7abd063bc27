"""Merging of several versions of a file's statistics, and Records."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest

from table_format.codecs.avro_schema_tree import parse_text
from table_format.hfile.reader import HFileReader
from table_format.metadata_table import column_stats
from table_format.metadata_table.keys import column_stats_key, shard_of_key
from table_format.metadata_table.records import SourceRecords, newest_versions
from table_writer.encoding import metadata_records as records
from table_writer.encoding.metadata_records import SCHEMA, SCHEMA_JSON
from table_writer.metadata.column_statistics import encode_bound
from tests.support.golden_metadata import statistics


def piece(*rows):
    hfile, _ = records.column_stats_records(statistics(*rows)).hfiles(1)[0]
    return SourceRecords("test", HFileReader(hfile, "test").entries(), parse_text(SCHEMA_JSON))


def deleted(*rows):
    keys = tuple(column_stats_key(column, partition, name) for partition, name, column in rows)
    return SourceRecords("deletes", piece(("p", "f", "x", 0, 0)).entries.take(slice(0, 0)), None, keys)


def typed(*pieces):
    rows = column_stats.merged([list(pieces)], "x", pa.int64()).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


@pytest.mark.parametrize(("name", "rows"), [("f", 3), (".f.log.1", 9)], ids=["base file", "log file, which grew"])
def test_versions_of_one_file_are_widened(name, rows):
    first, second, third = (piece(("p", name, "x", *values)) for values in ((1, 5), (3, 9), (-2, 4)))
    assert typed(first, second, third) == [(name, -2, 9, 0, rows)]


KINDS = {
    pa.bool_(): (False, True),
    pa.int32(): (-4, 7),
    pa.int64(): (-(2**40), 2**40),
    pa.float32(): (-0.5, 2.5),
    pa.float64(): (-0.25, 1e300),
    pa.string(): ("a", "b"),
    pa.binary(): (b"a", None),  # an upper bound of bytes may be in the order of signed ones
    pa.date32(): (dt.date(1999, 1, 1), dt.date(2026, 11, 29)),
    pa.timestamp("us", "UTC"): (dt.datetime(1999, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
    pa.decimal128(9, 2): (decimal.Decimal("-1.25"), decimal.Decimal("7.00")),
}


def stored(bound):
    """A value as bounds are encoded from it: dates and instants as numbers."""
    kind = pa.scalar(bound).type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pa.scalar(bound).cast(pa.int32() if pa.types.is_date(kind) else pa.int64()).as_py()
    return bound


def version(kind, low, high, values, nulls, size=60, name="f"):
    """A version of the statistics of one file; None for a bound that it lacks."""
    least, greatest = (None if bound is None else encode_bound(stored(bound), kind) for bound in (low, high))
    row = ("p", name, "x", str(kind), least, greatest, values, nulls, size, size)
    columns = [pa.array([value], field.type) for value, field in zip(row, records.STATISTICS_SCHEMA, strict=True)]
    table = pa.table(columns, schema=records.STATISTICS_SCHEMA)
    hfile, _ = records.column_stats_records(table).hfiles(1)[0]
    return SourceRecords("test", HFileReader(hfile, "test").entries(), parse_text(SCHEMA_JSON))


def merged(kind, *versions):
    [row] = column_stats.merged([list(versions)], "x", kind).to_pylist()
    return row["min"], row["max"], row["null_count"], row["value_count"]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_versions_are_widened_in_every_type(kind):
    low, high = KINDS[kind]
    below, above = version(kind, low, low, 3, 1), version(kind, high or b"b", high or b"b", 3, 1)
    for versions in ((below, above), (above, below)):
        assert merged(kind, *versions) == (low, high, 1, 3)


def test_counts_that_a_version_does_not_know_are_unknown_of_all():
    grown = ".f.log.1"
    first, second = (version(pa.int64(), 1, 5, 10, nulls, name=grown) for nulls in (-1, 1))
    assert merged(pa.int64(), first, second) == (1, 5, None, 20)
    neither = version(pa.int64(), None, None, -1, -1)
    assert merged(pa.int64(), neither, version(pa.int64(), 7, 9, 10, 0)) == (None, None, None, None)


def test_texts_too_long_for_statistics_are_no_nulls():
    long, short = version(pa.string(), None, None, 5, 5, size=9_000), version(pa.string(), "a", "b", 5, 0)
    for versions in ((long, short), (short, long)):
        assert merged(pa.string(), *versions)[:2] == (None, None)
    nulls = version(pa.string(), None, None, 5, 5)
    assert merged(pa.string(), nulls, short)[:2] == ("a", "b")


def test_other_files_keep_theirs():
    first = piece(("p", "a", "x", 1, 5), ("p", "b", "x", 1, 1), ("p", "c", "x", 7, 8))
    second = piece(("p", "b", "x", 2, 3), ("p", "d", "x", 0, 0))
    assert typed(first, second) == [("a", 1, 5, 0, 3), ("b", 1, 3, 0, 3), ("c", 7, 8, 0, 3), ("d", 0, 0, 0, 3)]


def test_a_version_of_nulls_takes_no_part_in_the_bounds():
    assert typed(piece(("p", "f", "x", 1, 5)), piece(("p", "f", "x", None, None))) == [("f", 1, 5, None, 3)]
    assert typed(piece(("p", "f", "x", None, None)), piece(("p", "f", "x", 1, 5))) == [("f", 1, 5, None, 3)]


def test_an_unknown_bound_makes_the_merged_one_unknown():
    table = statistics(("p", "f", "x", 1, 5)).set_column(4, "min", pa.nulls(1, pa.binary()))
    hfile, _ = records.column_stats_records(table).hfiles(1)[0]
    unknown = SourceRecords("test", HFileReader(hfile, "test").entries(), parse_text(SCHEMA_JSON))
    for pieces in ((unknown, piece(("p", "f", "x", 0, 9))), (piece(("p", "f", "x", 0, 9)), unknown)):
        assert typed(*pieces) == [("f", None, 9, 0, 3)]


def test_deletions_take_what_is_before_them():
    gone, kept = deleted(("p", "f", "x")), piece(("p", "f", "x", 1, 5))
    assert typed(kept, gone) == []
    assert typed(kept, gone, piece(("p", "f", "x", 7, 8))) == [("f", 7, 8, 0, 3)]
    files = pa.table({"partition": ["p"], "file_name": ["f"]})
    hfile, count = records.deleted_column_stats_records(files, ["x", "y"]).hfiles(1)[0]
    tombstones = SourceRecords("test", HFileReader(hfile, "test").entries(), parse_text(SCHEMA_JSON))
    assert count == 2
    assert typed(kept, tombstones) == []
    assert column_stats.raw([[kept, tombstones]]).num_rows == 0


def test_a_column_with_the_same_hash_is_another_column():
    assert column_stats.merged([[piece(("p", "f", "x", 1, 5))]], "other", pa.int64()).num_rows == 0


def test_what_contradicts_itself_is_left_out_of_a_compaction():
    first = piece(("p", "a", "x", 1, 5), ("p", "b", "x", 1, 1), ("p", "c", "x", 2, 2))
    second = piece(("p", "b", "x", 1, 3), ("p", "c", "x", 2, 2))
    newest = {row["file_name"]: row for row in column_stats.raw([[first, second]]).to_pylist()}
    assert newest["b"]["max"] == b"\x06\x06"
    unified = {row["file_name"]: row for row in column_stats.raw([[first, second]], unify=True).to_pylist()}
    assert (unified["b"]["min"], unified["b"]["max"]) == (b"\x06\x02", None)
    assert unified["a"] == newest["a"]
    assert unified["c"] == newest["c"]


def test_counts_that_contradict_each_other_are_left_out_of_a_compaction():
    grown = ".f.log.1"
    versions = [version(pa.int64(), 1, 9, 10, 5, name=grown), version(pa.int64(), None, None, 5, 5, name=grown)]
    [row] = column_stats.raw([versions], unify=True).to_pylist()
    assert (row["min"], row["max"], row["value_count"], row["null_count"]) == (None, None, None, 5)


def test_newest_versions():
    keys = pa.array(["a", "b", "a", "c", "b", "a"])
    newest = newest_versions(keys, np.array([False, False, True, True, False, False]))
    assert newest.live.tolist() == [1, 4, 5]
    assert not newest.unique
    assert newest_versions(keys[:2], np.array([False, False])).unique


# records


def test_every_shard_has_its_keys_in_order():
    made = records.column_stats_records(statistics(*(("p", f"f{n}", "x", n, n) for n in range(100))))
    hfiles = made.hfiles(3)
    keys = [(shard, key) for shard, (data, _) in hfiles.items() for key in _keys(data)]
    assert len(keys) == sum(count for _, count in hfiles.values()) == 100
    assert all(shard_of_key(key.decode(), 3) == shard for shard, key in keys)


def test_of_the_same_key_the_last_counts():
    made = records.column_stats_records(statistics(("p", "f", "x", 1, 1), ("p", "g", "x", 2, 2), ("p", "f", "x", 3, 3)))
    hfile, count = made.hfiles(1)[0]
    assert count == 2
    read = column_stats.raw([[SourceRecords("t", HFileReader(hfile, "t").entries(), parse_text(SCHEMA_JSON))]])
    assert sorted(read["min"].to_pylist()) == [b"\x06\x04", b"\x06\x06"]


def test_no_records_no_file():
    assert records.Records.empty().hfiles(2) == {}
    assert records.column_stats_records(records.STATISTICS_SCHEMA.empty_table()).hfiles(2) == {}


@pytest.mark.parametrize(
    ("stored", "kept"), [(b"\x18\x04", b"\x10\x04"), (b"\x1a\x02\x00", None), (b"\x16\x04", b"\x16\x04")]
)
def test_wrappers_of_later_releases_become_those_of_0_15(stored, kept):
    table = statistics(("p", "f", "x", 1, 1)).set_column(4, "min", pa.array([stored], pa.binary()))
    value = records.encode_statistics(table)
    hfile, _ = records.Records(pa.array([b"k"]), value).hfiles(1)[0]
    [row] = column_stats.raw(
        [[SourceRecords("t", HFileReader(hfile, "t").entries(), parse_text(SCHEMA_JSON))]]
    ).to_pylist()
    assert row["min"] == kept
    assert row["max"] == b"\x06\x02"


def test_the_schema_is_that_of_0_15():
    names = [field["name"] for field in SCHEMA["fields"]]
    assert names[:6] == [
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
        "key",
    ]
    assert names[-1] == "recordIndexMetadata"


def _keys(hfile):
    return HFileReader(hfile, "x").entries().keys().to_pylist()
