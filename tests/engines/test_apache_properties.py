"""Real Apache releases before and after our writes: merge rules, erased properties, altered columns, bucket rules."""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_catalog
from catalog import Table
from table_format.errors import OptionError, UnsupportedTableError
from table_format.keys.java_hash import bucket_id_one
from table_format.table.client import TableClient
from table_writer.execution.local import LocalExecutor
from table_writer.plan.options import WriteOptions
from table_writer.resize import ResizeRequest, resize
from tests.support.apache_hudi_client import STAY_ON_SIX, ApacheHudi
from tests.support.faults import Faults, FaultyStorage, dying
from tests.support.local_writes import LocalTable

pytestmark = [pytest.mark.engine]
Release = Callable[[str], ApacheHudi]
MODEL = "org.apache.hudi.common.model."
PAYLOAD = "hoodie.datasource.write.payload.class"
DEFAULT = {PAYLOAD: f"{MODEL}DefaultHoodieRecordPayload"}
UPSERT = {"hoodie.datasource.write.operation": "upsert"}
BUCKETS = "hoodie.bucket.index.num.buckets"
JOB = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.index.type": "BUCKET",
    BUCKETS: "2",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.clean.automatic": "false",
}
ORDERED = {**JOB, "hoodie.datasource.write.precombine.field": "ts"}
#: A job of one count that writes a table of ours with counts by partition.
BY_PARTITION = {
    **ORDERED,
    **UPSERT,
    **STAY_ON_SIX,
    BUCKETS: "4",
    # tasks of one process that meet the rules first at once fail, since Apache keeps them in a plain map
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
}
BY_ID = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    **STAY_ON_SIX,
}
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("o", pa.int64()), ("v", pa.int64())])


def rows(ts: int, v: int, o: int) -> pa.Table:
    return pa.table({"id": ["a", "b"], "ts": [ts] * 2, "o": [o] * 2, "v": [v] * 2}, schema=SCHEMA)


def ours(path: Path, options: dict[str, str] | None = None) -> LocalTable:
    return LocalTable(TableClient.open(str(path)), options or {})


def values(table: pa.Table) -> list[tuple[Any, ...]]:
    """User columns in name order, rows by key."""
    names = sorted(name for name in table.column_names if not name.startswith("_hoodie_"))
    return [(names, *(row[name] for name in names)) for row in sorted(table.to_pylist(), key=lambda row: row["id"])]


def scanned(path: Path) -> pa.Table:
    return Table.open(str(path)).scan().to_arrow()


@contextmanager
def settings(apache: ApacheHudi, values: dict[str, str]) -> Iterator[None]:
    for key, value in values.items():
        apache.sql(f"SET {key}={value}")
    try:
        yield
    finally:
        for key in values:
            apache.sql(f"RESET {key}")


# The row that comes second is older by ts and newer by o.
JOBS = {
    "default": {**ORDERED, **DEFAULT, "hoodie.payload.ordering.field": "o"},
    "overwrite": {**ORDERED, PAYLOAD: f"{MODEL}OverwriteWithLatestAvroPayload"},
    "merger": {**ORDERED, "hoodie.datasource.write.record.merger.impls": "org.apache.hudi.HoodieSparkRecordMerger"},
    "field of the job": {**JOB, **DEFAULT, "hoodie.datasource.write.precombine.field": "o"},
    "field of the payload": {**JOB, **DEFAULT, "hoodie.payload.ordering.field": "ts"},
    "no order": JOB,
}


@pytest.mark.filterwarnings("ignore:hoodie.payload.ordering.field='o' is ignored")
@pytest.mark.parametrize("name", JOBS)
def test_the_same_options_do_the_same(release: Release, tmp_path: Path, name: str) -> None:
    """A table of 0.15.0 records no payload class, so that the options of each job decide; ours are then kept."""
    apache, job, path = release("0.15.0"), JOBS[name], tmp_path / "t"
    apache.write(path, rows(5, 1, 5), JOB if name.startswith("field") else job, "overwrite")
    assert TableClient.open(str(path)).config.recorded_merge_mode is None
    theirs = Path(shutil.copytree(path, tmp_path / "theirs"))
    apache.write(theirs, rows(3, 2, 9), {**job, **UPSERT})
    ours(path).write("upsert", rows(3, 2, 9), job)
    assert values(scanned(path)) == values(scanned(theirs))
    if name == "default":
        assert values(scanned(path)) == values(apache.read(path)) == values(rows(5, 1, 5))
        # the class that the table keeps holds for Apache's jobs that give none
        apache.write(path, rows(4, 3, 8), {**ORDERED, **UPSERT})
        ours(path, {BUCKETS: "2"}).write("upsert", rows(4, 4, 8))
        assert values(scanned(path)) == values(rows(5, 1, 5))


def test_without_a_class_releases_differ_and_we_ask(release: Release, tmp_path: Path) -> None:
    path = tmp_path / "t"
    release("0.15.0").write(path, rows(5, 1, 5), ORDERED, "overwrite")
    rules = {}
    for version in ("0.15.0", "1.2.0"):
        copy = Path(shutil.copytree(path, tmp_path / version))
        release(version).write(copy, rows(3, 2, 9), {**ORDERED, **UPSERT})
        rules[version] = {row["v"] for row in release(version).read(copy).to_pylist()}
    assert rules["0.15.0"] == {2}
    with pytest.raises(OptionError, match=r"payload\.class is missing"):
        ours(path).write("upsert", rows(3, 2, 9), ORDERED)
    assert values(scanned(path)) == values(rows(5, 1, 5))
    assert rules["1.2.0"] == {1}


@pytest.mark.in_turns(2)
def test_properties_that_a_second_name_erases(apache: ApacheHudi, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {**ORDERED, BUCKETS: "4", "hoodie.table.timeline.timezone": "UTC", **DEFAULT}
    local = LocalTable.create(str(path), SCHEMA, options)
    many = pa.table({"id": [f"k{n}" for n in range(30)], "ts": [5] * 30, "o": [0] * 30, "v": [1] * 30}, schema=SCHEMA)
    local.write("upsert", many)
    before = dict(local.client.config.raw)
    apache.sql(f"CREATE TABLE second USING hudi LOCATION '{path}'")
    try:
        after = local.client.reload()
        lost = {key for key in before if key not in after.raw}
        if apache.version == "0.15.0":
            assert lost >= {BUCKETS, "hoodie.bucket.index.hash.field", "hoodie.index.type"}
            assert lost >= {"hoodie.compaction.payload.class", "hoodie.table.timeline.timezone"}
        else:
            assert not lost
        older = many.set_column(1, "ts", pa.array([3] * 30)).set_column(3, "v", pa.array([2] * 30))
        newer = many.set_column(1, "ts", pa.array([6] * 30)).set_column(3, "v", pa.array([3] * 30)).slice(0, 10)
        ours(path).write("upsert", older)
        ours(path).write("upsert", newer)
        assert before.items() - local.client.reload().raw.items() <= {
            (key, before[key]) for key in ("hoodie.table.create.schema", "hoodie.table.checksum")
        }
        wanted = values(pa.concat_tables([newer, many.slice(10)]))
        assert values(scanned(path)) == values(apache.read(path)) == wanted
        assert {row["v"] for row in apache.sql("SELECT v FROM second")} == {1, 3}
    finally:
        apache.sql("DROP TABLE second")


ALTERED = ["RENAME COLUMN s TO label", "ADD COLUMNS (s string)", "DROP COLUMN gone", "ALTER COLUMN n TYPE bigint"]


def altered_rows(ids: Sequence[str], ts: int, text: str, more: Sequence[str] = ()) -> pa.Table:
    columns: dict[str, Any] = {"ts": pa.int64(), "label": pa.string(), "n": pa.int64(), "s": pa.string()}
    schema = pa.schema({"id": pa.string(), **columns, **dict.fromkeys(more, pa.string())})
    known = {"ts": ts, "label": f"{text} label", "n": 1 << 40, "s": f"{text} s", **dict.fromkeys(more, text)}
    return pa.Table.from_pylist([{"id": key, **known} for key in ids], schema)


@pytest.mark.in_turns(2)
def test_columns_altered_between_writes_of_both(apache: ApacheHudi, tmp_path: Path) -> None:
    """Renamed, dropped, widened columns and new ones under old names keep their values, whoever rewrites a file."""
    path, table = tmp_path / "t", "altered"
    # each of the keys in a separate file, so that writes meet older files
    buckets = {BUCKETS: "8"}
    job = {**ORDERED, **DEFAULT, **BY_ID, **buckets}
    # columns after the dropped one have other ids than their places, by which 0.15.0 would read older files
    start = pa.schema({"id": pa.string(), "ts": pa.int64(), "gone": pa.float64(), "s": pa.string(), "n": pa.int32()})
    first = [{"id": key, "ts": 1, "gone": 0.5, "s": "old", "n": 1} for key in "abcdefgh"]
    wanted = {row["id"]: {"id": row["id"], "ts": 1, "label": "old", "n": 1, "s": None} for row in first}

    def same(more: Sequence[str] = ()) -> None:
        expected = [{**dict.fromkeys(more), **row} for row in wanted.values()]
        rows_of_all = pa.Table.from_pylist(expected)
        assert values(scanned(path)) == values(rows_of_all)
        assert values(apache.read(path, options=BY_ID)) == values(rows_of_all)

    def write(data: pa.Table, *, by_us: bool) -> None:
        if by_us:
            ours(path).write("upsert", data, {**ORDERED, **DEFAULT, **buckets})
        else:
            apache.write(path, data, {**job, **UPSERT})
        wanted.update({row["id"]: row for row in data.to_pylist()})

    apache.write(
        path, pa.Table.from_pylist(first, start), {**job, "hoodie.datasource.write.operation": "insert"}, "overwrite"
    )
    with settings(apache, BY_ID):
        apache.sql(f"CREATE TABLE {table} USING hudi LOCATION '{path}'")
        try:
            for text in ALTERED:
                apache.sql(f"ALTER TABLE {table} {text}")
            same()
            write(altered_rows(["a", "i"], 2, "ours"), by_us=True)
            same()
            write(altered_rows(["b", "j"], 3, "theirs"), by_us=False)
            same()
            write(altered_rows(["c"], 4, "ours", ["fresh"]), by_us=True)
            same(["fresh"])
            apache.sql(f"ALTER TABLE {table} RENAME COLUMN s TO t")
            apache.sql(f"ALTER TABLE {table} ADD COLUMNS (more string)")
            for row in wanted.values():
                row["t"] = row.pop("s")
            same(["fresh", "more"])
            data = altered_rows(["d"], 5, "theirs", ["fresh", "more"])
            write(data.rename_columns([{"s": "t"}.get(name, name) for name in data.column_names]), by_us=False)
            same(["fresh", "more"])
            data = altered_rows(["e", "k"], 6, "ours", ["fresh", "more"])
            write(data.rename_columns([{"s": "t"}.get(name, name) for name in data.column_names]), by_us=True)
            same(["fresh", "more"])
            write(data.rename_columns([{"s": "t"}.get(name, name) for name in data.column_names]), by_us=False)
            same(["fresh", "more"])
        finally:
            apache.sql(f"DROP TABLE {table}")


def test_bucket_counts_by_partition(release: Release, tmp_path: Path) -> None:
    """A rescale of 1.2.0 leaves partitions as they are that its rules do not name, whatever default they state."""
    apache, path = release("1.2.0"), tmp_path / "t"
    schema = pa.schema({"id": pa.string(), "ts": pa.int64(), "part": pa.string()})
    data = [{"id": f"k{n * 7919}", "ts": n, "part": ("eu", "us")[n % 2]} for n in range(60)]
    job = {
        **ORDERED,
        **STAY_ON_SIX,
        BUCKETS: "4",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    }
    apache.write(path, pa.Table.from_pylist(data, schema), job, "overwrite")
    with settings(apache, {**STAY_ON_SIX, "hoodie.index.type": "BUCKET", BUCKETS: "4"}):
        apache.sql(f"CREATE TABLE rescaled USING hudi LOCATION '{path}'")
        try:
            done = apache.sql(
                "CALL partition_bucket_index_manager("
                "table => 'rescaled', overwrite => 'eu,5', bucket_number => 8, dry_run => false)"
            )
        finally:
            apache.sql("DROP TABLE rescaled")
    assert done[0]["result"] == "SUCCESS"
    assert {int(file.name[:8]) for file in (path / "us").glob("*.parquet")} == {0, 1, 2, 3}
    table = Table.open(str(path))
    for row in data:
        plan = table.scan(f"id = '{row['id']}'", options={BUCKETS: "8"})
        assert plan.count() == 1, row
    with pytest.raises(UnsupportedTableError, match=r"partition_bucket_index_meta/configs/\d+\.hashing_config"):
        ours(path).write("upsert", pa.Table.from_pylist(data, schema), {BUCKETS: "8"})


def resized(path: Path) -> None:
    """Partition b+c gets 8 buckets."""
    client, options = (
        TableClient.open(FaultyStorage(str(path))),
        WriteOptions.of({"hoodie.catalog.write.progress": "false"}),
    )
    resize(client, options, LocalExecutor(1), ResizeRequest(8, ("b+c",)))


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("dies", [False, True])
def test_a_resize_of_a_partition_binds_apache(release: Release, tmp_path: Path, dies: bool) -> None:
    """A job of 1.2.0 writes by the new rules; by the old ones where the resize died, whose rules go with it."""
    apache, path = release("1.2.0"), tmp_path / "t"
    schema = pa.schema({"id": pa.string(), "ts": pa.int64(), "part": pa.string()})

    def data(keys: range, ts: int) -> pa.Table:
        rows = [{"id": f"k{n}", "ts": ts, "part": ["a=1/x", "b+c"][n % 2]} for n in keys]
        return pa.Table.from_pylist(rows, schema)

    table = hudi_catalog.create_table(
        path, schema, record_key="id", partition_by="part", ordering="ts", buckets=4,
        options={"hoodie.bucket.index.partition.expressions": "^a,2"},
    )  # fmt: skip
    table.upsert(data(range(60), 1))
    publication = 0
    if dies:
        copy = Path(shutil.copytree(path, tmp_path / "copy"))
        FaultyStorage.faults = Faults()
        resized(copy)
        steps = FaultyStorage.faults.log
        publication = next(at for at, one in enumerate(steps, 1) if re.match(r"create \S+\d\.replacecommit$", one))
    with dying(publication):
        resized(path)
    assert bool([*path.glob(".hoodie/*.replacecommit")]) is not dies
    rules = path / ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
    assert len([*rules.iterdir()]) == 2
    apache.write(path, data(range(30, 120), 2), BY_PARTITION, "append")  # rolls a dead resize back
    assert len([*rules.iterdir()]) == 2 - dies
    hudi_catalog.open_table(path).upsert(data(range(90, 150), 3))
    expected = {f"k{n}": 1 + (n >= 30) + (n >= 90) for n in range(150)}
    read = scanned(path)
    for rows_read in (read, apache.read(path), release("0.15.0").read(path)):
        assert len(rows_read) == 150
        assert dict(zip(rows_read["id"].to_pylist(), rows_read["ts"].to_pylist(), strict=True)) == expected
    counts = {"a=1/x": 2, "b+c": 4 if dies else 8}
    for key, part, file in zip(*(read[name].to_pylist() for name in ("id", "part", "_hoodie_file_name")), strict=True):
        assert int(file[:8]) == bucket_id_one([key], counts[part])
    for key in expected:
        plan = Table.open(str(path)).scan(f"id = '{key}'")
        assert plan.count() == 1
        assert next(one for one in plan.plan().stages if one.name == "bucket").reason.startswith("1 of 2, 1 of ")


def test_our_counts_by_partition_bind_apache(release: Release, tmp_path: Path) -> None:
    """A job of 1.2.0 that knows one count writes by the rules of our table, and so do we after it."""
    apache, path = release("1.2.0"), tmp_path / "t"
    schema = pa.schema({"id": pa.string(), "ts": pa.int64(), "part": pa.string()})
    counts = {"eu": 5, "us1": 2, "jp": 4}

    def data(keys: range, ts: int) -> pa.Table:
        return pa.Table.from_pylist([{"id": f"k{n}", "ts": ts, "part": [*counts][n % 3]} for n in keys], schema)

    table = hudi_catalog.create_table(
        path, schema, record_key="id", partition_by="part", ordering="ts", buckets=4,
        options={"hoodie.bucket.index.partition.expressions": "^e.$,5;us[0-9]+,2"},
    )  # fmt: skip
    table.upsert(data(range(60), 1))
    apache.write(path, data(range(30, 120), 2), BY_PARTITION, "append")
    table.refresh().upsert(data(range(90, 150), 3))
    expected = {f"k{n}": 1 + (n >= 30) + (n >= 90) for n in range(150)}
    read = scanned(path)
    for rows_read in (read, apache.read(path)):
        assert len(rows_read) == 150
        assert dict(zip(rows_read["id"].to_pylist(), rows_read["ts"].to_pylist(), strict=True)) == expected
    for key, part, file in zip(*(read[name].to_pylist() for name in ("id", "part", "_hoodie_file_name")), strict=True):
        assert int(file[:8]) == bucket_id_one([key], counts[part])
    for key in expected:
        plan = Table.open(str(path)).scan(f"id = '{key}'")
        assert plan.count() == 1
        assert "1 of 2, 1 of 4, 1 of 5 buckets" in next(
            one.reason for one in plan.plan().stages if one.name == "bucket"
        )


def test_counts_by_partition_that_only_jobs_have(release: Release, tmp_path: Path) -> None:
    """1.2.0's data source obeys rules among its options, of which it keeps no file; so do we, in turns with it."""
    apache, path = release("1.2.0"), tmp_path / "t"
    schema = pa.schema({"id": pa.string(), "ts": pa.int64(), "part": pa.string()})
    counts = {"eu": 4, "us1": 2, "jp": 1}
    rules = {"hoodie.bucket.index.partition.expressions": "^e.*,4;us[0-9],2", BUCKETS: "1"}

    def data(keys: range, ts: int) -> pa.Table:
        return pa.Table.from_pylist([{"id": f"k{n}", "ts": ts, "part": [*counts][n % 3]} for n in keys], schema)

    apache.write(path, data(range(60), 1), {**BY_PARTITION, **rules}, "overwrite")
    assert not (path / ".hoodie/.bucket_index").exists()
    table = hudi_catalog.open_table(path)
    for other in ({BUCKETS: "1"}, {BUCKETS: "4"}, {**rules, BUCKETS: "2"}):
        with pytest.raises(OptionError, match=r"another bucket|has bucket \d"):
            table.upsert(data(range(3), 2), {"hoodie.index.type": "BUCKET", **other})
    table.upsert(data(range(30, 90), 2), {**BY_PARTITION, **rules})
    apache.write(path, data(range(60, 120), 3), {**BY_PARTITION, **rules}, "append")
    table.refresh().upsert(data(range(110, 130), 4), {**BY_PARTITION, **rules})
    expected = {f"k{n}": 1 + (n >= 30) + (n >= 60) + (n >= 110) for n in range(130)}
    read = scanned(path)
    for rows_read in (read, apache.read(path)):
        assert len(rows_read) == 130
        assert dict(zip(rows_read["id"].to_pylist(), rows_read["ts"].to_pylist(), strict=True)) == expected
    for key, part, file in zip(*(read[name].to_pylist() for name in ("id", "part", "_hoodie_file_name")), strict=True):
        assert int(file[:8]) == bucket_id_one([key], counts[part])
