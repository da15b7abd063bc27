"""Apache Hudi reads, validates, upserts and compacts what we wrote; then we read, prune and upsert again."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from catalog import Table
from table_format.config.table_config import update_table_config
from table_format.storage import Storage
from tests.engines.jobs import write_by_spark, write_here
from tests.engines.kinds import Kind, Step, kinds
from tests.engines.model import comparable, expected, user_rows
from tests.support.apache_hudi_client import ApacheError, ApacheHudi

pytestmark = [pytest.mark.engine, pytest.mark.spark]
KINDS = kinds()
META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]


@pytest.fixture(scope="session")
def written(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every kind of table, by our writer, once: in turns by Spark and without it."""
    folder = tmp_path_factory.mktemp("written")
    for number, kind in enumerate(KINDS.values()):
        for turn, step in enumerate(kind.steps, number):
            if turn % 2:
                write_by_spark(spark, kind, folder / kind.name, step)
            else:
                write_here(kind, folder / kind.name, step)
    return {name: folder / name for name in KINDS}


def copy(written: dict[str, Path], name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written[name], tmp_path / name))


def ours(path: Path, where: str | None = None) -> pa.Table:
    return Table.open(str(path)).scan(where).to_arrow()


def same(left: pa.Table, right: pa.Table, names: list[str]) -> None:
    assert comparable(left.to_pylist(), names) == comparable(right.to_pylist(), names)


def readable(kind: Kind, table: pa.Table) -> list[str]:
    """Columns that Apache's Spark reader gives as they were written, which is all but a timestamp key generator's."""
    return [name for name in table.column_names if name != kind.path_column]


def same_answers(apache: ApacheHudi, kind: Kind, path: Path, filters: list[str]) -> None:
    """Apache and we read the same rows by each filter."""
    for where, answer in zip(filters, apache.read_each(path, filters), strict=True):
        rows = ours(path, where)
        same(rows, answer, readable(kind, rows))


def shared_filters(kind: Kind) -> list[str]:
    """Filters that mean the same to Apache's reader."""
    return [where for where in kind.filters if kind.path_column is None or kind.path_column not in where]


def listing(path: Path) -> dict[str, dict[str, int]]:
    """Data files by partition, from the file system."""
    files: dict[str, dict[str, int]] = {}
    for file in path.rglob("*.parquet"):
        folder = str(file.parent.relative_to(path)).removeprefix(".")
        if not folder.startswith((".hoodie", "/", "hoodie")):
            files.setdefault(folder, {})[file.name] = file.stat().st_size
    return files


@pytest.mark.parametrize("name", KINDS)
def test_we_hold_what_was_written(written: dict[str, Path], name: str) -> None:
    kind = KINDS[name]
    table = ours(written[name])
    schema = pa.schema([field for field in table.schema if not field.name.startswith("_hoodie_")])
    wanted = pa.Table.from_pylist(expected(kind, kind.steps), schema)
    same(table, wanted, schema.names)


@pytest.mark.parametrize("name", KINDS)
def test_apache_reads_exactly_our_content(apache: ApacheHudi, written: dict[str, Path], name: str) -> None:
    rows, theirs = ours(written[name]), apache.read(written[name])
    # Spark puts partition columns last
    assert sorted(rows.column_names) == sorted(theirs.column_names)
    same(rows, theirs, readable(KINDS[name], rows))
    by_listing = apache.read(written[name], options={"hoodie.metadata.enable": "false"})
    same(rows, by_listing, readable(KINDS[name], rows))


@pytest.mark.parametrize("name", KINDS)
def test_apache_filters_with_data_skipping_as_we_do(apache: ApacheHudi, written: dict[str, Path], name: str) -> None:
    same_answers(apache, KINDS[name], written[name], shared_filters(KINDS[name]))


@pytest.mark.parametrize("name", KINDS)
def test_apache_validates_our_metadata_table(apache: ApacheHudi, written: dict[str, Path], name: str) -> None:
    rows = apache.validate_files(written[name])
    assert rows
    for row in rows:
        assert row["is_present_in_fs"], row
        assert row["is_present_in_metadata"], row
        assert row["fs_size"] == row["metadata_size"], row
    assert {k: v for k, v in apache.files(written[name]).items() if v} == listing(written[name])


@pytest.mark.parametrize("name", KINDS)
def test_apache_sees_the_column_statistics_of_our_files(
    apache: ApacheHudi, written: dict[str, Path], name: str
) -> None:
    table = ours(written[name])
    columns = ["_hoodie_record_key", "id", "ts", "i", "s", "d", "b", "all_null"]
    files = pc.unique(table["_hoodie_file_name"]).to_pylist()
    partitions = {row["_hoodie_file_name"]: row["_hoodie_partition_path"] for row in table.select(META).to_pylist()}
    stats = apache.column_stats(written[name], columns, [(partitions[file], file) for file in files])
    for column in columns:
        for file in files:
            values = table.filter(pc.equal(table["_hoodie_file_name"], file))[column]
            record = stats[column][file]
            assert not record["deleted"]
            assert record["value_count"] == len(values)
            assert record["null_count"] == values.null_count
            extremes = pc.min_max(values)
            low, high = extremes["min"].as_py(), extremes["max"].as_py()
            assert (record["min"], record["max"]) == (low, high), (column, file)


def changed(kind: Kind, table: pa.Table, ts: int) -> pa.Table:
    """A few rows that are there, with a new `ts`, and one that is not; without meta columns."""
    rows = user_rows(table)
    rows = [row | {"ts": ts} for row in rows[:: max(1, len(rows) // 5)]] + [rows[0] | {"id": f"new{ts}", "ts": ts}]
    return pa.Table.from_pylist(rows, pa.schema([f for f in table.schema if not f.name.startswith("_hoodie_")]))


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.several_groups])
def test_apache_writes_on_and_so_do_we(
    apache: ApacheHudi, spark: Any, written: dict[str, Path], name: str, tmp_path: Path
) -> None:
    kind, path = KINDS[name], copy(written, name, tmp_path)
    options = kind.all_options() | {"hoodie.datasource.write.operation": "upsert"}
    groups = {file.split("_")[0] for files in listing(path).values() for file in files}
    before = ours(path)
    batch = changed(kind, before, 50)

    apache.write(path, batch, options | {"hoodie.metadata.compact.max.delta.commits": "1"})
    compacted = [p.name for p in (path / ".hoodie/metadata/.hoodie").glob("*.commit")]
    assert compacted, "Apache did not compact the metadata table"
    middle = ours(path)
    assert middle.num_rows == before.num_rows + 1
    names = readable(kind, middle)
    same(middle, apache.read(path), names)
    same_answers(apache, kind, path, [*shared_filters(kind), "ts = 50"])
    assert pc.sum(pc.equal(middle["ts"], 50)).as_py() == batch.num_rows

    batch = changed(kind, middle, 60)
    write_by_spark(spark, kind, path, Step("upsert", user_rows(batch), batch.schema))
    after = ours(path)
    assert after.num_rows == middle.num_rows + 1
    assert pc.sum(pc.equal(after["ts"], 60)).as_py() == batch.num_rows
    same(after, apache.read(path), names)
    same_answers(apache, kind, path, [*shared_filters(kind), "ts = 60"])
    later = {file.split("_")[0] for files in listing(path).values() for file in files}
    fresh = {(group[:8], group) for group in later - groups}
    assert len(fresh) <= 2, "an upsert of known keys made new file groups"


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.several_groups])
def test_apache_writes_no_table_whose_buckets_have_several_file_groups(
    apache: ApacheHudi, name: str, tmp_path: Path
) -> None:
    kind, path = KINDS[name], tmp_path / name
    for step in kind.steps:
        write_here(kind, path, step)
    groups = {file.split("_")[0] for files in listing(path).values() for file in files}
    assert len(groups) > len({group[:8] for group in groups}) * len(listing(path))
    before = ours(path)
    batch = changed(kind, before, 50)
    shared = {key: text for key, text in kind.all_options().items() if not key.startswith("hoodie.catalog.")}
    plain = {key: text for key, text in shared.items() if "index" not in key}
    for options, error in (
        (shared, "Config conflict"),
        ({**plain, "hoodie.index.type": "BLOOM"}, "Config conflict"),
        (plain, "Index type unspecified"),
    ):
        for operation in ("upsert", "insert", "bulk_insert"):
            with pytest.raises(ApacheError, match=error):
                apache.write(path, batch, {**options, "hoodie.datasource.write.operation": operation})
    # Apache's SQL drops properties that it does not know when it registers a table; its bucket index is left
    update_table_config(Storage(str(path)), {"hoodie.index.type": None})
    with pytest.raises(ApacheError, match="Find multiple files at partition path"):
        apache.write(path, batch, {**shared, "hoodie.datasource.write.operation": "upsert"})
    same(before, apache.read(path), readable(kind, before))
    same(before, ours(path), before.column_names)


@pytest.mark.parametrize("name", KINDS)
def test_hudi_rs_reads_exactly_our_content(written: dict[str, Path], name: str) -> None:
    hudi = pytest.importorskip("hudi")
    table = pa.Table.from_batches(hudi.HudiTableBuilder.from_base_uri(str(written[name])).build().read())
    rows = ours(written[name])
    same(rows, table, rows.column_names)
