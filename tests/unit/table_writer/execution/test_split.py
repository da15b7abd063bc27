from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_writer.blocks import SPLIT_SCHEMA, placements, split_batches
from spark_writer.received import slot_rows
from table_format.errors import RecordError
from table_format.keys.bucket_index import BucketHashRule
from table_format.keys.java_hash import bucket_id_one
from table_format.keys.key_generator import KeySpec
from table_writer.execution.exchange import SlotStore
from table_writer.execution.executor import SplitRows
from table_writer.execution.spill_folder import SpillFolder
from table_writer.plan.plan import BUCKET_COLUMN, KeyPlan, SplitPlan, TaskIdentity
from table_writer.slots.split import split_rows

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("n", pa.int32())])


def plan(
    slots: int = 4, flush: int = 1 << 30, partitioned: bool = False, payload: tuple[str, ...] | None = None
) -> Any:
    spec = KeySpec(("id",), ("part",)) if partitioned else KeySpec(("id",), generator="NON_PARTITION")
    keys = KeyPlan(spec, BucketHashRule.SPLIT, (), 4)
    return SplitPlan(keys, SCHEMA, tuple(SCHEMA.names) if payload is None else payload, slots, flush)


def batch(start: int, count: int) -> pa.RecordBatch:
    rows = range(start, start + count)
    columns = [[f"k{n}é" for n in rows], [f"p{n % 3}" for n in rows], list(rows)]
    return pa.record_batch([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)


def split(how: Any, *batches: pa.RecordBatch) -> list[SplitRows]:
    return list(split_rows(how, iter(batches), TaskIdentity(3, "3-0-0")))


def by_sparks_shuffle(parts: list[SplitRows], slots: int, most: int = 1 << 30) -> Iterator[pa.Table]:
    """What a task of each slot gets, with the blocks in another order than they came."""
    blocks = list(split_batches(parts, slots))
    assert all(block.schema == SPLIT_SCHEMA for block in blocks)
    for number in placements(slots).tolist():
        sent = [block.filter(pa.compute.equal(block["slot"], number)) for block in reversed(blocks)]
        for slot in slot_rows(sent, waiting=most):
            yield slot.whole("in one slot", "")[0]


def by_a_task_of_all_slots(parts: list[SplitRows], slots: int, most: int = 1 << 30) -> Iterator[pa.Table]:
    """What one task gets that has all slots; they come in the order of the numbers that stand for them."""
    blocks = list(split_batches(parts, slots, 1))
    tables = [slot.whole("in one slot", "")[0] for slot in slot_rows(reversed(blocks), waiting=most)]
    for place in np.argsort(np.argsort(placements(slots, 1))):
        yield tables[place]


def by_a_task_that_spills(parts: list[SplitRows], slots: int) -> Iterator[pa.Table]:
    yield from by_a_task_of_all_slots(parts, slots, 0)


def in_files(parts: list[SplitRows], slots: int, limit: int = 0) -> Iterator[pa.Table]:
    with SpillFolder(None) as folder:
        store = SlotStore(slots, limit, folder)
        for part in parts:
            store.add(part.rows, part.slots)
        for slot in store.finished(None):
            rows, positions = slot.whole("in one slot", "")
            yield rows if positions is None else rows.take(pa.array(positions))


def in_memory(parts: list[SplitRows], slots: int) -> Iterator[pa.Table]:
    yield from in_files(parts, slots, 1 << 30)


@pytest.mark.parametrize(
    "exchange",
    [by_sparks_shuffle, by_a_task_of_all_slots, by_a_task_that_spills, in_files, in_memory],
)
def test_each_row_goes_to_the_slot_of_its_bucket_in_order(exchange: Callable[..., Iterator[pa.Table]]) -> None:
    parts = split(plan(flush=1), batch(0, 50), batch(50, 50))
    seen: list[int] = []
    for bucket, rows in enumerate(exchange(parts, 4)):
        assert rows[BUCKET_COLUMN].to_pylist() == [bucket] * len(rows)
        assert [bucket_id_one([key], 4) for key in rows["id"].to_pylist()] == [bucket] * len(rows)
        assert rows["_hoodie_record_key"].to_pylist() == rows["id"].to_pylist()
        assert rows["n"].to_pylist() == sorted(rows["n"].to_pylist())
        seen += rows["n"].to_pylist()
    assert sorted(seen) == list(range(100))


def test_memory_is_bounded_by_flushes_which_keep_their_order() -> None:
    parts = split(plan(flush=1), batch(0, 40), batch(40, 40))
    assert [part.place for part in parts] == [(3, 0), (3, 1)]
    assert [part.rows.num_rows for part in parts] == [40, 40]


def test_partitions_spread_over_more_slots_than_buckets() -> None:
    (part,) = split(plan(slots=32, partitioned=True), batch(0, 400))
    assert len(set(part.slots.tolist())) > 8
    assert part.rows["_hoodie_partition_path"].to_pylist() == part.rows["part"].to_pylist()


def test_deletes_send_keys_only() -> None:
    (part,) = split(plan(payload=()), batch(0, 10))
    assert part.rows.column_names == ["_hoodie_record_key", BUCKET_COLUMN]


def test_no_rows_give_no_blocks() -> None:
    assert split(plan()) == []
    assert split(plan(), batch(0, 0)) == []


def test_a_row_without_key_is_refused() -> None:
    bad = pa.record_batch([pa.array([None], pa.string()), pa.array(["p"]), pa.array([1], pa.int32())], schema=SCHEMA)
    with pytest.raises(RecordError, match="id must not be null or empty"):
        split(plan(), bad)
