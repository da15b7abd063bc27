"""Updates and deletes by a condition where keys have several rows: exactly those of the condition, or nothing."""

import tempfile
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from hudi_catalog import Table, create_table, open_table
from table_format.errors import RecordError
from tests.property.profile import examples
from tests.support.bucketed_tables import MOST_BYTES

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int64())])
INDEXES = {
    "buckets": {"hoodie.bucket.index.num.buckets": "2", "hoodie.catalog.write.surgery": "always"},
    "buckets, written whole": {"hoodie.bucket.index.num.buckets": "1", "hoodie.catalog.write.surgery": "never"},
    "buckets of several file groups": {"hoodie.bucket.index.num.buckets": "2", MOST_BYTES: "1"},
    "record index": {"hoodie.index.type": "RECORD_INDEX"},
    "record index by partition": {"hoodie.index.type": "RECORD_LEVEL_INDEX"},
}
Row = tuple[int, str, int]
BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.integers(0, 6)), min_size=1, max_size=6),
    min_size=1,
    max_size=3,
)
INSERTS = {"hoodie.merge.allow.duplicate.on.inserts": "true"}


def filled(table: Table, batches: list[list[Row]], *, into_files: bool) -> Counter[Row]:
    """Rows of one key stay beside each other, by inserts also in files that are there."""
    for number, batch in enumerate(batches):
        rows = pa.table([list(column) for column in zip(*batch, strict=True)], schema=SCHEMA)
        if into_files and number:
            table.insert(rows, INSERTS)
        else:
            table.bulk_insert(rows)
    return Counter(row for batch in batches for row in batch)


def content(table: Table) -> Counter[Row]:
    rows = open_table(table.client.storage.uri).scan(columns=SCHEMA.names).to_arrow().to_pylist()
    return Counter((row["id"], row["p"], row["v"]) for row in rows)


def is_exact(rows: Counter[Row], least: int, *, delete: bool) -> bool:
    """Whether buckets carry out a change of the rows from `least` on: by key, all rows of each or, updated, one."""
    matching = Counter((key, day) for key, day, value in rows.elements() if value >= least)
    every = Counter((key, day) for key, day, _ in rows.elements())
    return all(every[place] == (count if delete else 1) for place, count in matching.items())


def refused(table: Table, change: str, least: int) -> bool:
    """Make a change of the rows from `least` on; whether it is refused because of keys with several rows."""
    try:
        if change == "delete":
            table.delete(f"v >= {least}")
        else:
            table.update({"v": "v + 10"} if change == "update" else {"p": "'c'"}, f"v >= {least}")
    except RecordError as error:
        if "several rows" not in str(error):
            raise
        return True
    return False


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("index", INDEXES)
@settings(examples(20), deadline=None)
@given(
    batches=BATCHES, least=st.integers(0, 6), change=st.sampled_from(["update", "delete", "move"]), files=st.booleans()
)
def test_changes(index: str, batches: list[list[Row]], least: int, change: str, files: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = create_table(f"{folder}/t", SCHEMA, record_key="id", partition_by="p", options=INDEXES[index])
        before = filled(table, batches, into_files=files)
        assert content(table) == before
        left = Counter({row: count for row, count in before.items() if row[2] < least})
        to = {"update": lambda row: (*row[:2], row[2] + 10), "move": lambda row: (row[0], "c", row[2])}
        after = left.copy()
        for row, count in before.items():
            if row[2] >= least and change != "delete":
                after[to[change](row)] += count
        by_partition = "buckets" in index or "partition" in index
        unique = len({(row[0], by_partition and row[1]) for row in before}) == before.total()
        if refused(table, change, least):
            event("refused")
            assert content(table) == before
            if change != "move":
                assert not unique
                assert "buckets" not in index or not is_exact(before, least, delete=change == "delete")
        else:
            event("made")
            assert content(table) == after
