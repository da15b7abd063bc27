"""Files that surgery made equal those that were rewritten as a whole, through random histories."""

import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from hypothesis import event, given
from hypothesis import strategies as st

from table_format.meta_columns import IS_DELETED
from table_format.metadata_table.record_index_layout import IndexLayout
from table_writer.files.file_change import WrittenFile
from table_writer.metadata.index_deltas import read_deltas
from table_writer.plan.operations import Duplicates
from table_writer.plan.plan import GONE_COLUMN
from table_writer.surgery import locate
from tests.property.profile import examples
from tests.support.surgery_files import ALWAYS, NEVER, Slot, differences, rows_per_group

NAN = float("nan")
ENTRIES = pa.list_(pa.field("element", pa.struct([("a", pa.int64()), ("b", pa.string())])))
FIELDS: list[tuple[str, pa.DataType]] = [
    ("id", pa.string()),
    ("v", pa.int32()),
    ("f", pa.float64()),
    ("d", pa.decimal128(10, 2)),
    ("s", pa.string()),
    ("n", ENTRIES),
    ("x", pa.struct([("y", pa.float32())])),
    ("m", pa.map_(pa.string(), pa.int32())),
    ("t", pa.timestamp("us", "UTC")),
    ("ts", pa.float64()),
]
SCHEMA = pa.schema(FIELDS)
LAYOUT = IndexLayout((("record-index-", 2),), "global")
KEYS = [*(f"k{number:02d}" for number in range(40)), "é", "日本", "𝄞", "\uffff", "", "a" * 70]
FLOATS = [None, 0.0, -0.0, 1.5, NAN, float("inf")]
NESTED = [None, [], [{"a": 1, "b": None}], [None, {"a": None, "b": "é"}], [{"a": 1, "b": None}, {"a": 2, "b": "q"}]]
ROW = st.fixed_dictionaries(
    {
        "id": st.sampled_from(KEYS),
        "v": st.sampled_from([None, 0, 1]),
        "f": st.sampled_from(FLOATS),
        "d": st.sampled_from([None, 1, -2]),
        "s": st.sampled_from([None, "", "p", "q", "日本"]),
        "n": st.sampled_from(NESTED),
        "x": st.sampled_from([None, {"y": None}, {"y": -0.0}, {"y": 0.0}]),
        "m": st.sampled_from([None, [], [("a", 1)], [("a", None), ("b", 2)]]),
        "t": st.sampled_from([None, 0, -1]),
        "ts": st.sampled_from([None, -0.0, 0.0, 1.0, NAN]),
    }
)
STEP = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["upsert", "upsert", "same", "partial", "delete", "flags", "gone", "add", "drop"]),
        "rows": st.lists(ROW, min_size=1, max_size=12),
        "flags": st.lists(st.sampled_from([True, False, None]), min_size=12, max_size=12),
        "columns": st.lists(st.sampled_from(SCHEMA.names[1:-1]), max_size=3, unique=True),
    }
)


def if_it_pays(touched: int) -> dict[str, str]:
    """Files are refused, before or after some of their columns were compared, by the bytes that would be encoded."""
    bounds = {"min.file.size": 1, "max.cost.percent": 100_000, "max.touched.percent": touched}
    return {f"hoodie.catalog.write.surgery.{name}": str(bound) for name, bound in bounds.items()}


POLICIES = [ALWAYS, ALWAYS, if_it_pays(20), if_it_pays(60)]


def batch(step: dict[str, Any]) -> pa.Table:
    rows = pa.Table.from_pylist(step["rows"], SCHEMA)
    flags = pa.array(step["flags"][: len(rows)], pa.bool_())
    if step["kind"] == "same":  # so that columns stay as they were
        constant = pa.Table.from_pylist([{"id": row["id"], "ts": 1.0} for row in step["rows"]], SCHEMA)
        return constant.set_column(1, SCHEMA.field("v"), rows["v"])
    if step["kind"] == "partial":
        return rows.select(["id", *step["columns"], "ts"])
    if step["kind"] == "flags":
        return rows.append_column(IS_DELETED, flags)
    return rows.append_column(GONE_COLUMN, flags) if step["kind"] == "gone" else rows


def plan_of(step: dict[str, Any]) -> dict[str, Any]:
    return {
        "delete": step["kind"] == "delete",
        "partial": step["kind"] == "partial",
        "duplicates": {"add": Duplicates.ADD, "drop": Duplicates.DROP}.get(step["kind"], Duplicates.MERGE),
        "unique": step["kind"] != "add",
    }


def index_changes(slot: Slot, made: WrittenFile) -> list[str]:
    """What a write tells the record index."""
    files = made.index_deltas
    return sorted(str(row) for group in range(2) for row in read_deltas(slot.storage, files, group).to_pylist())


@examples(80)
@given(
    st.lists(ROW, min_size=1, max_size=40),
    st.lists(STEP, min_size=1, max_size=4),
    st.booleans(),
    st.integers(2, 9),
    st.sampled_from([0, 1]),
    st.sampled_from(POLICIES),
)
def test_surgery_equals_a_whole_rewrite(
    first: list[dict[str, Any]],
    steps: list[dict[str, Any]],
    event_time: bool,
    group: int,
    cost: int,
    policy: dict[str, str],
) -> None:
    rules = {"ordering": ("ts",), "event_time": event_time, "index": LAYOUT, "index_folder": ".hoodie/deltas"}
    # with 0 the bloom filter and the pages are probed whatever the number of keys
    probes = mock.patch.multiple(locate, _ROWS_PER_BLOOM_PROBE=10 * cost, _ROWS_PER_PAGE_PROBE=1000 * cost)
    with tempfile.TemporaryDirectory() as folder, rows_per_group(group), probes:
        whole = Slot(Path(folder) / "whole", SCHEMA, **rules)
        whole.write(pa.Table.from_pylist(first, SCHEMA), NEVER)
        spliced = whole.copy(Path(folder) / "spliced")
        for step in steps:
            rows, plan = batch(step), plan_of(step)
            made, expected = spliced.write(rows, policy, **plan), whole.write(rows, NEVER, **plan)
            assert (made is None) == (expected is None)
            if made is None or expected is None:
                continue
            event("spliced" if made.work.spliced else "rewritten")
            assert differences((spliced, made), (whole, expected)) == []
            assert index_changes(spliced, made) == index_changes(whole, expected)
            sizes = [len(pages) for pages in spliced.chunks().values()]
            assert made.work.bytes_copied + made.work.bytes_encoded == sum(sizes)
            assert bool(sizes) <= made.work.chunks_encoded <= len(sizes)
