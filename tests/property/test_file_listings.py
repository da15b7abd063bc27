"""Histories of the records of one partition's listing, whole deletions among them, merge as a model says."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from table_format.codecs.avro_schema_tree import parse
from table_format.hfile.entries import HFileEntries
from table_format.hfile.reader import HFileReader
from table_format.metadata_table.keys import ALL_PARTITIONS_KEY
from table_format.metadata_table.reader import read_listing
from table_format.metadata_table.records import SourceRecords
from table_writer.encoding.metadata_records import NO_FILES, SCHEMA, files_records

FILES = st.tuples(st.sampled_from("pqr"), st.sampled_from("abc"))
# files added with their size, files deleted, or partitions whose record a delete block removes
STEPS = st.one_of(
    st.tuples(st.just("add"), st.dictionaries(FILES, st.integers(1, 9), min_size=1)),
    st.tuples(st.just("delete"), st.sets(FILES, min_size=1)),
    st.tuples(st.just("remove"), st.sets(st.sampled_from("pqr"), min_size=1)),
)


def records(added: dict[tuple[str, str], int], deleted: set[tuple[str, str]]) -> SourceRecords:
    def table(rows: list[tuple[str, str]]) -> pa.Table:
        columns = {"partition": [p for p, _ in rows], "file_name": [name for _, name in rows]}
        return pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})

    new = table(list(added)).append_column("size", pa.array(np.array(list(added.values()), np.int64)))
    made = files_records(new if added else NO_FILES, table(sorted(deleted)), [])
    data, _ = made.without(ALL_PARTITIONS_KEY.encode()).hfiles(1)[0]
    return SourceRecords("piece", HFileReader(data, "piece").entries(), parse(SCHEMA))


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=7))
def test_a_listing_is_what_its_versions_leave(steps: list[tuple[str, object]]) -> None:
    pieces: list[SourceRecords] = []
    expected: dict[tuple[str, str], int] = {}
    for kind, what in steps:
        if kind == "add":
            assert isinstance(what, dict)
            pieces.append(records(what, set()))
            expected |= {file: max(size, expected.get(file, 0)) for file, size in what.items()}
        elif kind == "delete":
            assert isinstance(what, set)
            pieces.append(records({}, what))
            expected = {file: size for file, size in expected.items() if file not in what}
        else:
            assert isinstance(what, set)
            gone = tuple(sorted(name.encode() for name in what))
            pieces.append(SourceRecords("block", HFileEntries.empty(), None, gone))
            expected = {file: size for file, size in expected.items() if file[0] not in what}
    listed = read_listing([pieces]).to_pylist()
    assert {(row["partition"], row["file_name"]): row["size"] for row in listed} == expected
    assert len(listed) == len(expected)
