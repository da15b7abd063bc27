from typing import Any

import pyarrow as pa
import pytest

from spark_writer.placement import placements
from table_format.errors import RecordError
from table_format.keys.bucket_index import BucketHashRule
from table_format.keys.java_hash import bucket_id_one
from table_format.keys.key_generator import KeySpec
from table_writer.execution.blocks import BLOCK_SCHEMA, split_batches
from table_writer.plan.plan import BUCKET_COLUMN, KeyPlan, SplitPlan

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


def opened(blocks: list[pa.RecordBatch]) -> list[tuple[int, int, pa.Table]]:
    rows = [row for block in blocks for row in block.to_pylist()]
    return [(row["slot"], row["block"], pa.ipc.open_stream(row["payload"]).read_all()) for row in rows]


def test_each_row_goes_to_the_slot_of_its_bucket_in_order() -> None:
    numbers = placements(4)
    blocks = list(split_batches(plan(), numbers, [batch(0, 50), batch(50, 50)], 3))
    seen: list[int] = []
    for block in blocks:
        assert block.schema == BLOCK_SCHEMA
        assert block.column("task").to_pylist() == [3] * block.num_rows
    for slot, _, rows in opened(blocks):
        bucket = numbers.tolist().index(slot)
        assert rows[BUCKET_COLUMN].to_pylist() == [bucket] * len(rows)
        assert [bucket_id_one([key], 4) for key in rows["id"].to_pylist()] == [bucket] * len(rows)
        assert rows["_hoodie_record_key"].to_pylist() == rows["id"].to_pylist()
        assert rows["n"].to_pylist() == sorted(rows["n"].to_pylist())
        seen += rows["n"].to_pylist()
    assert sorted(seen) == list(range(100))


def test_memory_is_bounded_by_flushes_and_blocks_keep_their_order() -> None:
    blocks = opened(list(split_batches(plan(flush=1), placements(4), [batch(0, 40), batch(40, 40)], 0)))
    assert [number for _, number, _ in blocks] == list(range(len(blocks)))
    assert 4 < len(blocks) <= 8
    firsts = [number for _, number, rows in blocks if max(rows["n"].to_pylist()) < 40]
    assert firsts == list(range(len(firsts)))


def test_partitions_spread_over_more_slots_than_buckets() -> None:
    blocks = opened(list(split_batches(plan(slots=32, partitioned=True), placements(32), [batch(0, 400)], 0)))
    assert len(blocks) > 8
    for _, _, rows in blocks:
        assert rows["_hoodie_partition_path"].to_pylist() == rows["part"].to_pylist()


def test_deletes_send_keys_only() -> None:
    blocks = opened(list(split_batches(plan(payload=()), placements(4), [batch(0, 10)], 0)))
    assert all(rows.column_names == ["_hoodie_record_key", BUCKET_COLUMN] for _, _, rows in blocks)


def test_no_rows_give_no_blocks() -> None:
    assert list(split_batches(plan(), placements(4), [], 0)) == []
    assert list(split_batches(plan(), placements(4), [batch(0, 0)], 0)) == []


def test_a_row_without_key_is_refused() -> None:
    bad = pa.record_batch([pa.array([None], pa.string()), pa.array(["p"]), pa.array([1], pa.int32())], schema=SCHEMA)
    with pytest.raises(RecordError, match="id must not be null or empty"):
        list(split_batches(plan(), placements(4), [bad], 0))
