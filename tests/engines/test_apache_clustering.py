"""Clustering in turns with Apache Hudi: each reads and writes on after the other, and runs the other's plans."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog.table import Table, create_table, open_table
from table_format.errors import OptionError
from table_writer.commit.clustering import pending_clusterings
from tests.engines.apache_tables import record_index
from tests.support.apache_hudi_client import ALL_VERSIONS, STAY_ON_SIX, ApacheError, ApacheHudi
from tests.support.faults import FaultyStorage, dying

pytestmark = [pytest.mark.engine, pytest.mark.spark]
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64()), ("w", pa.float64())])
JOB = {
    "hoodie.table.name": "it",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.parquet.small.file.limit": "0",
    **record_index(2),
}
OURS = {**record_index(2), "hoodie.parquet.small.file.limit": "0"}


def batch(number: int, count: int = 40) -> pa.Table:
    ids = [f"k{number}_{n}" for n in range(count)]
    columns = [ids, ["ab"[n % 2] for n in range(count)], [n * 7 % 41 for n in range(count)]]
    return pa.table([*columns, [n * 11 % 37 / 3 for n in range(count)]], schema=SCHEMA)


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[name] for name in SCHEMA.names) for row in table.to_pylist())


def check(path: Path, apache: ApacheHudi, wanted: dict[str, tuple[Any, ...]]) -> Table:
    table = open_table(path, options=OURS)
    rows = sorted(wanted.values())
    assert tuples(table.scan(columns=SCHEMA.names).to_arrow()) == rows
    assert tuples(apache.read(path)) == rows
    [filtered] = apache.read_each(path, ["v = 7"])
    assert tuples(filtered) == [row for row in rows if row[2] == 7]
    if "record_index" in table.config.metadata_partitions:
        assert table.verify_index().is_right
    return table


def made(path: Path) -> tuple[Table, dict[str, tuple[Any, ...]], Callable[[pa.Table], pa.Table]]:
    """A table of three files, the rows that it holds by key, and a function that notes rows which it gets."""
    table = create_table(
        path, SCHEMA, record_key="id", partition_by="p", ordering="v", name="it", index="RECORD_INDEX", options=OURS
    )
    wanted: dict[str, tuple[Any, ...]] = {}

    def put(rows: pa.Table) -> pa.Table:
        wanted.update({row["id"]: tuple(row.values()) for row in rows.to_pylist()})
        return rows

    for number in range(3):
        table.insert(put(batch(number)))
    return table, wanted, put


def test_apache_and_we_cluster_in_turns(release: Any, tmp_path: Path) -> None:
    path = tmp_path / "it"
    table, wanted, put = made(path)
    assert table.cluster(["v", "w"], "hilbert").rows == 120
    for version in ALL_VERSIONS:
        check(path, release(version), wanted)
    for version in ("0.15.0", "1.2.0"):
        apache = release(version)
        for key, value in STAY_ON_SIX.items():
            apache.sql(f"SET {key}={value}")
        # its index look-up finds rows where we have put them
        changed = batch(1, 3).set_column(2, "v", pa.array([90, 91, 92]))
        apache.write(path, put(changed), JOB)
        table = check(path, apache, wanted)
        # it runs our plan, which is older than indexes that were built beside it
        planned = table.cluster(["w"], plan_only=True)
        assert planned.instant is not None
        table.insert(put(batch(int(version[0]) + 10, 4)))
        table.bootstrap_index()
        table.build_index("column_stats")
        apache.sql(f"CALL run_clustering(path => '{path}', op => 'execute')")
        table = check(path, apache, wanted)
        assert not pending_clusterings(table.client.timeline())
        if version == "0.15.0":  # the procedure of 1.2.0 plans nothing at this point
            # we run its plan
            apache.sql(
                f"CALL run_clustering(path => '{path}', op => 'schedule', order => 'v,w', order_strategy => 'z-order')"
            )
            assert len(pending_clusterings(table.client.timeline())) == 1
            [report] = open_table(path, options={**OURS, "hoodie.layout.optimize.strategy": "z-order"}).run_clustering()
            assert (report.columns, report.layout) == (("v", "w"), "z-order")
            table = check(path, apache, wanted)
        if "record_index" not in table.config.metadata_partitions:
            table.bootstrap_index()  # 0.15's procedures leave it out of use
        table.upsert(put(batch(int(version[0]) + 5, 4)))
        check(path, apache, wanted)


@pytest.mark.parametrize("version", ["0.15.0", "1.2.0"])
def test_a_clustering_that_died(release: Any, tmp_path: Path, version: str) -> None:
    """Apache takes it for a plan, which it reads and writes beside, and may run; our next write rolls it back."""
    path, apache = tmp_path / "it", release(version)
    table, wanted, put = made(path)
    for key, value in STAY_ON_SIX.items():
        apache.sql(f"SET {key}={value}")
    with dying(25):
        Table.open(FaultyStorage(str(path)), options=OURS).cluster(["v"])
    check(path, apache, wanted)
    apache.write(path, put(batch(8, 3)), JOB)
    assert len(pending_clusterings(table.client.timeline())) == 1
    table.upsert(put(batch(1, 3).set_column(2, "v", pa.array([90, 91, 92]))))
    assert not table.client.timeline().pending
    check(path, apache, wanted)
    with dying(25):
        Table.open(FaultyStorage(str(path)), options=OURS).cluster(["w"])
    assert len(pending_clusterings(table.client.timeline())) == 1
    apache.sql(f"CALL run_clustering(path => '{path}', op => 'execute')")
    assert not pending_clusterings(table.client.timeline())
    assert "CLUSTER" in [one.operation for one in check(path, apache, wanted).history()]


def test_apache_reads_and_writes_on_after_a_resize(release: Any, tmp_path: Path) -> None:
    """Its jobs give the number of buckets themselves: with the new one they find our rows."""
    path = tmp_path / "b"
    table = create_table(path, SCHEMA, record_key="id", partition_by="p", ordering="v", name="it", buckets=4)
    wanted: dict[str, tuple[Any, ...]] = {}

    def put(rows: pa.Table) -> pa.Table:
        wanted.update({row["id"]: tuple(row.values()) for row in rows.to_pylist()})
        return rows

    table.upsert(put(batch(0)))
    job = {key: value for key, value in JOB.items() if "index" not in key} | {"hoodie.index.type": "BUCKET"}
    count = "hoodie.bucket.index.num.buckets"
    apache = release("0.15.0")
    for buckets, number in ((8, 1), (2, 2), (3, 3)):
        assert open_table(path).resize(buckets, acknowledge_fixed_writers=number > 1).rows == len(wanted)
        check(path, apache, wanted)
        changed = batch(0, 3).set_column(2, "v", pa.array([90 + number] * 3))
        apache.write(path, put(pa.concat_tables([changed, batch(number, 5)])), {**job, count: str(buckets)})
        table = check(path, apache, wanted)
        [verdict] = [one for one in table.scan("id = 'k0_0'").plan().results if one.name == "bucket"]
        assert verdict.pruned, verdict
    with pytest.raises(OptionError, match="acknowledge-fixed-writers"):
        open_table(path).resize(6)
    check(path, release("1.2.0"), wanted)
    # a DataFrame's job that is left at the old number compares its option with the table's property
    open_table(path).resize(6, acknowledge_fixed_writers=True)
    with pytest.raises(ApacheError, match=r"Config conflict[\s\S]*num.buckets:\s*3\s*6"):
        apache.write(path, batch(0), {**job, count: "3"})
