"""Buckets of several file groups: sizes, look-ups, plans, services, and how a table comes to have them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_catalog.joins import join
from hudi_catalog.table import Table, create_table, open_table
from table_format.codecs.avro_schema import schema_text
from table_format.errors import OptionError, UnsupportedTableError
from table_format.keys.bucket_index import bucket_ids_of_keys
from table_format.keys.partition_buckets import EXPRESSIONS
from table_format.meta_columns import RECORD_KEY
from table_format.storage import Storage
from table_writer.encoding.base_file import write_base_file
from table_writer.encoding.meta_columns import add_meta_columns
from table_writer.plan.plan import HOME_COLUMN
from table_writer.tagging.bucket_keys import BucketKeys
from table_writer.tagging.tagging import NEW, place_of
from tests.support.bucketed_tables import COUNT, MOST_BYTES, QUIET

SCHEMA = pa.schema([("c", pa.string()), ("id", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
SIZE = 40_000
_TEXTS = [f"{text:.16f}" for text in np.random.default_rng(1).random(1 << 14)]


def rows(numbers: Any, value: int = 0, customer: str = "one") -> pa.Table:
    """Calls of one customer; those of others are in the table, too."""
    texts = [_TEXTS[n % len(_TEXTS)] for n in numbers]
    return pa.table([[customer] * len(texts), list(numbers), [value] * len(texts), texts], schema=SCHEMA)


def skewed(path: Path, **options: str) -> Table:
    chosen = {"hoodie.bucket.index.hash.field": "c", **QUIET, MOST_BYTES: str(SIZE), **options}
    return create_table(path / "t", SCHEMA, record_key=["c", "id"], buckets=2, options=chosen)


def reopened(table: Table) -> Table:
    return open_table(table.client.storage.uri)


def files(table: Table) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = table.files().to_pylist()
    return listed


def values(table: Table, **question: Any) -> Counter[tuple[Any, ...]]:
    listed = table.scan(columns=["c", "id", "v"], **question).to_arrow()
    return Counter(tuple(row.values()) for row in listed.to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of which one bucket has four file groups, and another one."""
    made = skewed(tmp_path)
    made.upsert(rows(range(10_000)))
    made.upsert(rows(range(10), customer="a"))
    return made


def buckets_of(table: Table) -> Counter[str]:
    return Counter(file["file_id"][:8] for file in files(table))


def test_a_bucket_that_grows_gets_file_groups_of_about_the_size(table: Table) -> None:
    for number in range(1, 4):
        table.upsert(rows(range(number * 10_000, number * 10_000 + 10_000), number))
    [(largest, count), _] = buckets_of(table).most_common()
    assert count > 8
    assert buckets_of(table).total() - count == 1
    assert all(file["bytes"] <= 1.5 * SIZE for file in files(table))
    full = [file for file in files(table) if file["bytes"] > SIZE / 2]
    assert len(full) >= len(files(table)) - 3, "files are filled before others are made"
    assert table.scan().count() == 40_010
    assert len(largest) == 8


def test_an_update_writes_the_files_of_its_keys_only(table: Table) -> None:
    before = {file["file_id"]: file["path"] for file in files(table)}
    assert len(before) > 3
    summary = table.upsert(rows([500, 501], 1))
    after = {file["file_id"]: file["path"] for file in files(table)}
    assert summary.files_written == 1
    assert before.keys() == after.keys()
    assert sum(before[name] != after[name] for name in before) == 1
    assert values(table, filter="v = 1") == Counter({("one", n, 1): 1 for n in (500, 501)})
    assert table.scan().count() == 10_010


def test_plans_prune_by_bucket(table: Table) -> None:
    plan = table.scan("c = 'a' and id = 3").plan()
    assert len(plan) == 1
    [verdict] = [one for one in plan.results if one.name == "bucket"]
    assert verdict.reason == "1 of 2 buckets can hold the keys named by c"
    assert values(table, filter="c = 'one' and id = 9999") == Counter({("one", 9999, 0): 1})
    assert table.scan("c = 'one'", sample="1/2").count() in (0, 10_000)


@pytest.mark.slow
def test_a_write_larger_than_memory_is_divided_like_others(tmp_path: Path) -> None:
    limits = {"hoodie.catalog.executor.memory": str(16 << 20), "hoodie.catalog.record.index.driver.rows": "1000"}
    bounded = skewed(tmp_path, **limits, **{MOST_BYTES: str(1 << 20)})
    count, chance = 40_000, np.random.default_rng(1)
    for number in range(3):
        ids = np.arange(number * count // 2, number * count // 2 + count)
        texts = pa.array([chance.bytes(400).hex() for _ in ids])
        bounded.upsert(pa.table([["one"] * count, ids, np.full(count, number), texts], schema=SCHEMA))
    stored = bounded.scan(columns=["id", "v"]).to_arrow().sort_by("id")
    assert stored["id"].to_pylist() == list(range(2 * count))
    assert stored["v"].to_pylist() == [min(2, n // (count // 2)) for n in range(2 * count)]
    assert all(file["bytes"] <= 1.5 * (1 << 20) for file in files(bounded))


def test_each_operation(table: Table) -> None:
    table.insert(rows([1, 1], 5))  # as they are, as in tables with one file group a bucket
    assert values(table, filter="id = 1 and c = 'one'") == Counter({("one", 1, 0): 1, ("one", 1, 5): 2})
    table.upsert(rows([1], 6))  # wherever the key is
    assert values(table, filter="id = 1 and c = 'one'") == Counter({("one", 1, 6): 3})
    table.insert(rows([1, 2, 70_000, 70_000], 7), {"hoodie.datasource.insert.dup.policy": "drop"})
    assert values(table, filter="v = 7") == Counter({("one", 70_000, 7): 2})
    table.delete(rows([1, 2, 70_000]).select(["c", "id"]))
    assert table.scan("id in (1, 2, 70000)").count() == 2, "those of the other customer"
    table.bulk_insert(rows(range(80_000, 80_100), 8))
    assert table.scan("v = 8").count() == 100
    table.update({"v": "v + 1"}, "id >= 80000")
    assert table.scan("v = 9").count() == 100
    table.insert_overwrite_table(rows(range(40), 3, customer="new"))
    assert values(table) == Counter({("new", n, 3): 1 for n in range(40)})


def test_one_key_of_the_batch_where_it_is_asked_for(table: Table) -> None:
    table.insert(rows([80_000, 80_000], 5), {"hoodie.combine.before.insert": "true"})
    assert table.scan("id = 80000").count() == 1


def test_a_record_index_beside_follows(tmp_path: Path) -> None:
    table = skewed(tmp_path, **{"hoodie.metadata.record.index.enable": "true"})
    table.upsert(rows(range(10_000)))
    table.upsert(rows(range(5000, 15_000), 1))
    table.delete(rows(range(100)).select(["c", "id"]))
    table.resize(4)
    report = table.verify_index()
    assert report.is_right, report
    assert table.scan().count() == 14_900


@pytest.mark.slow
def test_services_keep_the_file_groups_of_a_bucket(table: Table) -> None:
    before, kept = buckets_of(table), values(table)
    table.cluster(["s"])
    assert buckets_of(table) == before, "each file is sorted by itself"
    for count in (4, 3, 1, 2):
        report = table.resize(count)
        assert report.rows == 10_010
        assert values(table) == kept
        assert bucket_verdict_of(table, count)
        table.upsert(rows([17], 100 + count))
        kept = Counter([row for row in kept if row[:2] != ("one", 17)]) + Counter([("one", 17, 100 + count)])
        assert values(table) == kept
    assert table.stats().skew is not None
    assert table.stats().skew.advised is None, "no number of buckets is advised where files have a size"
    table.clean({"hoodie.clean.commits.retained": "1"})
    assert values(reopened(table)) == kept


def bucket_verdict_of(table: Table, count: int) -> bool:
    [verdict] = [one for one in table.scan("c = 'one' and id = 17").plan().results if one.name == "bucket"]
    return f"1 of {count} buckets" in verdict.reason


def test_partitions_may_have_counts_of_their_own(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
    options = {EXPRESSIONS: "^b$,6", MOST_BYTES: "1", **QUIET}
    made = create_table(tmp_path / "t", schema, record_key="id", partition_by="p", buckets=2, options=options)
    kept = {}
    for value in range(3):
        numbers = range(value * 7, value * 7 + 20)
        made.upsert([{"id": f"k{n}", "p": "ab"[n % 2], "v": value} for n in numbers])
        kept |= dict.fromkeys((f"k{n}" for n in numbers), value)
    stored = made.scan(columns=["id", "v"]).to_arrow().to_pylist()
    assert {row["id"]: row["v"] for row in stored} == kept
    assert len(stored) == len(kept) == len(files(made)), "one record a file"
    numbers_of: dict[str, set[int]] = {file["partition"]: set() for file in files(made)}
    for file in files(made):
        numbers_of[file["partition"]].add(int(file["file_id"][:8]))
    assert max(numbers_of["a"]) == 1
    assert max(numbers_of["b"]) > 1
    for key, value in kept.items():
        assert made.scan(f"id = '{key}'", columns=["v"]).to_arrow()["v"].to_pylist() == [value]


def test_joins_by_bucket_find_every_file(table: Table, tmp_path: Path) -> None:
    other = create_table(
        tmp_path / "o", pa.schema([("c", pa.string()), ("n", pa.int64())]), record_key="c", buckets=4, options=QUIET
    )
    other.insert([{"c": "one", "n": 1}, {"c": "a", "n": 2}])
    joined = join(table, other, "c")
    assert "by buckets, in 2 steps" in joined.explain()
    assert joined.to_arrow().num_rows == 10_010


def test_a_table_with_one_file_group_a_bucket_may_come_to_have_several(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", SCHEMA, record_key=["c", "id"], buckets=2, options=QUIET)
    table.insert(rows(range(10_000)))
    assert len(files(table)) == 2
    table.upsert(rows(range(8000, 20_000), 1), {MOST_BYTES: str(SIZE)})
    assert reopened(table).config.bucket_file_size == SIZE
    assert len(files(table)) > 4
    assert values(table) == Counter({("one", n, int(n >= 8000)): 1 for n in range(20_000)})
    table.upsert(rows(range(5), 2))  # the table's own now
    table.upsert(rows(range(5), 2), {"hoodie.index.type": "BUCKET", MOST_BYTES: str(2 * SIZE)})
    assert reopened(table).config.bucket_file_size == 2 * SIZE
    assert values(table, filter="v = 2").total() == 5


def test_it_needs_buckets_of_ours(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"bucket\.max\.file\.size='5'.*RECORD_INDEX has no buckets"):
        create_table(tmp_path / "a", SCHEMA, record_key="id", index="RECORD_INDEX", options={MOST_BYTES: "5"})
    indexed = create_table(tmp_path / "b", SCHEMA, record_key="id", index="RECORD_INDEX", options=QUIET)
    with pytest.raises(OptionError, match=r"bucket\.max\.file\.size=5: the table has no buckets"):
        indexed.insert(rows([1]), {MOST_BYTES: "5"})
    with pytest.raises(OptionError, match="whole number"):
        create_table(tmp_path / "c", SCHEMA, record_key="id", buckets=1, options={MOST_BYTES: "0"})


def test_a_table_of_another_tool_is_not_shut_against_it(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", SCHEMA, record_key="id", buckets=1, options=QUIET)
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(line for line in lines if "hoodie.index.type" not in line and COUNT not in line))
    with pytest.raises(OptionError, match="another tool made this table"):
        reopened(table).insert(rows([1]), {MOST_BYTES: "5", COUNT: "1"})


def test_two_file_groups_of_a_bucket_are_refused_with_the_way_out(table: Table) -> None:
    properties = Path(table.client.storage.uri) / ".hoodie/hoodie.properties"
    text = properties.read_text().replace("=FLINK_STATE", "=BUCKET").replace(f"{MOST_BYTES}={SIZE}\n", "")
    properties.write_text(text)
    with pytest.raises(
        UnsupportedTableError, match=r"file groups.*let buckets have several by hoodie\.catalog\.bucket"
    ):
        reopened(table).upsert(rows([1]))


KEYS = st.lists(st.text("abc", min_size=1, max_size=3), max_size=12)


@settings(max_examples=40)
@given(st.lists(KEYS, max_size=4), KEYS, st.integers(1, 3), st.integers(1, 5))
def test_look_ups_find_each_file_with_a_key(
    tmp_path_factory: pytest.TempPathFactory, stored: list[list[str]], asked: list[str], count: int, group: int
) -> None:
    """Files of any keys of their bucket, also of equal ones, ordered or not."""
    path = tmp_path_factory.mktemp("keys")
    storage, schema = Storage(str(path / "t")), pa.schema([("id", pa.string())])
    entries, expected = [], set()
    for number, keys in enumerate(filter(None, stored)):
        bucket = int(bucket_ids_of_keys(pa.array(keys[:1]), ["id"], count)[0])
        inside = [key for key in keys if bucket_ids_of_keys(pa.array([key]), ["id"], count)[0] == bucket]
        name = f"{bucket:08d}-{number}-0_0-0-0_1.parquet"
        arguments: dict[str, Any] = {"instant": "1", "task": 0, "partition": "", "file_name": name, "first_row": 0}
        written = add_meta_columns(pa.table([inside], schema=schema), keys=pa.array(inside), **arguments)
        write_base_file(
            storage,
            name,
            written,
            schema_text(schema, "t", meta_fields=True),
            {"hoodie.parquet.block.size": str(group)},
        )
        entries.append({"partition": "", "path": name, "file_id": name.split("_", maxsplit=1)[0], "bucket": bucket})
        expected |= {(key, name.split("_", maxsplit=1)[0]) for key in inside}

    class Listed:
        def of(self, partitions: Any = None) -> pa.Table:
            names = ["partition", "path", "file_id"]
            columns = [pa.array([entry[name] for entry in entries], pa.string()) for name in names]
            return pa.table(columns, names=names)

    keys: Any = pa.array(asked, pa.string())
    slim = pa.table([keys, bucket_ids_of_keys(keys, ["id"], count)], names=[RECORD_KEY, HOME_COLUMN])
    for delete in (False, True):
        tags = BucketKeys(storage, Listed(), count).tags(slim, delete=delete)  # type: ignore[arg-type]
        names = [place_of(name)[1] for name in tags.groups.to_pylist()]
        tagged = [
            (row, None if number == NEW else names[number])
            for row, number in zip(tags.rows.tolist(), tags.numbers.tolist(), strict=True)
        ]
        wanted = {(row, name) for row, key in enumerate(asked) for stored_key, name in expected if stored_key == key}
        if not delete:
            located = {row for row, _ in wanted}
            wanted |= {(row, None) for row in range(len(asked)) if row not in located}
        assert len(set(tagged)) == len(tagged)
        assert set(tagged) == wanted
