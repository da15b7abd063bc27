"""How a bulk insert lays rows out, by `hoodie.bulkinsert.sort.mode`."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from table_format.base_file.reader import read_base_file
from table_format.errors import OptionError, TransactionError
from table_format.table.client import TableClient
from table_writer.plan.options import WriteOptions
from table_writer.record_index.verify import verify_index
from table_writer.tagging import passes
from tests.support.local_writes import EXECUTORS, LocalTable
from tests.support.reading import current_paths, current_rows

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.copyonwrite.insert.auto.split": "false",
    "hoodie.copyonwrite.insert.split.size": "100",
    # many blocks a task
    "hoodie.catalog.write.split.bytes": "1",
}
PARTITIONED = OPTIONS | {"hoodie.datasource.write.partitionpath.field": "p"}
MODE = "hoodie.bulkinsert.sort.mode"


def table(folder: Path, options: dict[str, str]) -> LocalTable:
    # rows in two partitions of a DataFrame
    return LocalTable.create(str(folder / "t"), SCHEMA, options, "spark's workers")


def rows(keys: list[int], p: str | None = None) -> pa.Table:
    records = [{"id": f"k{n:04}", "p": p or "ab"[n % 2], "v": n} for n in keys]
    return pa.Table.from_pylist(records, schema=SCHEMA)


def shuffled(count: int) -> list[int]:
    return np.random.default_rng(3).permutation(count).tolist()


def files(client: TableClient) -> list[list[int]]:
    """The values of each file in its order, by partition and first value."""
    contents = [(path, read_base_file(client.storage, path, ["v"])["v"].to_pylist()) for path in current_paths(client)]
    return [values for _, values in sorted(contents, key=lambda entry: (entry[0].rpartition("/")[0], entry[1]))]


@pytest.mark.parametrize("options", [{}, {MODE: "global_sort"}])
def test_files_follow_each_other_by_key(tmp_path: Path, options: dict[str, str]) -> None:
    local = table(tmp_path, OPTIONS)
    local.write("bulk_insert", rows(shuffled(500)), options)
    assert files(local.client) == [list(range(start, start + 100)) for start in range(0, 500, 100)]


def test_without_sorting_rows_stay_where_they_are(tmp_path: Path) -> None:
    keys = shuffled(500)
    local = table(tmp_path, OPTIONS)
    summary = local.write("bulk_insert", rows(keys), {MODE: "none"})
    # two tasks with 250 rows each
    expected = [keys[a:b] for a, b in ((0, 100), (100, 200), (200, 250), (250, 350), (350, 450), (450, 500))]
    assert files(local.client) == sorted(expected)
    assert (summary.rows_inserted, summary.files_written) == (500, 6)
    assert len(set(current_rows(local.client)["_hoodie_commit_seqno"].to_pylist())) == 500
    assert verify_index(local.client).is_right


def test_partitions_of_spark_are_sorted_on_their_own(tmp_path: Path) -> None:
    keys = shuffled(500)
    local = table(tmp_path, OPTIONS)
    local.write("bulk_insert", rows(keys), {MODE: "PARTITION_SORT"})
    contents = files(local.client)
    assert sorted(map(len, contents)) == [83, 83, 83, 83, 84, 84]
    halves = [sorted(keys[:250]), sorted(keys[250:])]
    for half in halves:
        of_half = [values for values in contents if values[0] in half]
        assert [value for values in of_half for value in values] == half
    assert verify_index(local.client).is_right


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["NONE", "PARTITION_SORT"])
@pytest.mark.parametrize("kind", ["RECORD_INDEX", "RECORD_LEVEL_INDEX"])
def test_partitioned_tables_go_on(tmp_path: Path, mode: str, kind: str) -> None:
    keys = shuffled(500)
    local = table(tmp_path, PARTITIONED | {"hoodie.index.type": kind})
    local.write("bulk_insert", rows(keys), {MODE: mode})
    for values in files(local.client):
        half = keys[:250] if values[0] in keys[:250] else keys[250:]
        assert len({value % 2 for value in values}) == 1, "one partition"
        order = values if mode == "NONE" else sorted(values, key=half.index)
        assert [value for value in half if value in values] == order
        assert mode == "NONE" or values == sorted(values)
    # what comes later merges into files that are in no order
    for surgery in ("always", "auto"):
        summary = local.write("upsert", rows(list(range(490, 510))), {"hoodie.catalog.write.surgery": surgery})
        assert summary.rows_updated >= 10
    local.write("delete", rows([1, 2, 3]))
    assert sorted(current_rows(local.client)["v"].to_pylist()) == [0, *range(4, 510)]
    assert verify_index(local.client).is_right


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("most", ["0", "99999"])
@pytest.mark.parametrize("mode", ["NONE", "PARTITION_SORT"])
@pytest.mark.slow
def test_one_row_a_key_where_that_is_asked_for(tmp_path: Path, mode: str, most: str, executor: str) -> None:
    local = LocalTable.create(str(tmp_path / "t"), SCHEMA, PARTITIONED, executor)
    options = {MODE: mode, "hoodie.combine.before.insert": "true", "hoodie.catalog.record.index.driver.rows": most}
    local.write("bulk_insert", rows([*range(300), *range(100, 200)]), options)
    assert sorted(current_rows(local.client)["v"].to_pylist()) == list(range(300))
    assert verify_index(local.client).is_right


def test_no_rows_are_no_files(tmp_path: Path) -> None:
    local = table(tmp_path, PARTITIONED)
    assert local.write("bulk_insert", rows([]), {MODE: "NONE"}).files_written == 0


def test_tables_with_buckets_keep_to_them(tmp_path: Path) -> None:
    options = {key: text for key, text in OPTIONS.items() if key != "hoodie.index.type"}
    local = table(tmp_path, options | {"hoodie.bucket.index.num.buckets": "2"})
    local.write("bulk_insert", rows(shuffled(50)), {MODE: "NONE"})
    assert len(files(local.client)) == 2
    assert all(values == sorted(values) for values in files(local.client))


def test_rows_that_come_out_differently_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = table(tmp_path, PARTITIONED)
    whole: Any = passes.StayPlan
    monkeypatch.setattr(
        passes,
        "StayPlan",
        lambda files, per_file, sort, checks, assigned: whole(
            files, per_file, sort, {place: check + 1 for place, check in checks.items()}, assigned
        ),
    )
    with pytest.raises(TransactionError, match="second time"):
        local.write("bulk_insert", rows(shuffled(50)), {MODE: "NONE"})
    assert current_paths(local.client) == []


@pytest.mark.parametrize("mode", ["PARTITION_PATH_REPARTITION", "PARTITION_PATH_REPARTITION_AND_SORT", "sorted"])
def test_other_modes_are_refused_by_name(mode: str) -> None:
    with pytest.raises(OptionError, match=rf"{MODE}='{mode}'.* NONE or GLOBAL_SORT or PARTITION_SORT"):
        WriteOptions.of({MODE: mode})
