"""SIGKILL to a Spark driver in the middle of an upsert: nothing committed is lost, nothing uncommitted shows."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Table
from spark_writer import write_hudi
from tests.engines.jobs import start
from tests.engines.kinds import Step, kinds
from tests.engines.model import comparable, expected
from tests.support.apache_hudi_client import ApacheHudi

pytestmark = [pytest.mark.engine, pytest.mark.spark]
KIND = kinds()["hive"]
FIRST, SECOND = KIND.steps[0], KIND.steps[1]


def has_instant(suffix: str) -> Callable[[Path, set[str]], bool]:
    return lambda table, before: any(
        path.name.endswith(suffix) and path.name not in before for path in (table / ".hoodie").iterdir()
    )


def has_marker(table: Path, before: set[str]) -> bool:
    del before
    return any((table / ".hoodie/.temp").rglob("*.marker.*"))


def has_new_data(table: Path, before: set[str]) -> bool:
    return any(path.name not in before for path in table.rglob("part=*/*.parquet"))


#: How a moment shows, and the release that reads and clears up after it.
MOMENTS = {
    "requested": (has_instant(".commit.requested"), "0.15.0"),
    "inflight": (has_instant(".inflight"), "1.2.0"),
    "marker": (has_marker, "0.15.0"),
    "data": (has_new_data, "1.2.0"),
}


def names(table: Path) -> set[str]:
    return {path.name for path in table.rglob("*")}


def content(table: Path) -> list[str]:
    rows = Table.open(str(table)).scan().to_arrow()
    return comparable(rows.to_pylist(), KIND.schema.names)


def wanted(*steps: Step) -> list[str]:
    return comparable(pa.Table.from_pylist(expected(KIND, list(steps)), KIND.schema).to_pylist(), KIND.schema.names)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_driver(release: Callable[[str], ApacheHudi], spark: Any, tmp_path: Path, moment: str) -> None:
    came, version = MOMENTS[moment]
    apache, table = release(version), tmp_path / "table"
    options = KIND.all_options() | {"hoodie.datasource.write.operation": "upsert"}
    write_hudi(spark.createDataFrame(FIRST.table(KIND.schema)), str(table), options, mode="append")
    before = names(table)

    process = start(tmp_path / "job", table, KIND, [SECOND])
    try:
        deadline = time.monotonic() + 120
        while not came(table, before):
            assert process.poll() is None, (
                f"the writer ended first: {(tmp_path / 'job/stderr.log').read_text()[-3000:]}"
            )
            assert time.monotonic() < deadline
            time.sleep(0.001)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    timeline = {path.name for path in (table / ".hoodie").iterdir()}
    completed = any(name.endswith(".commit") for name in timeline - before)
    assert not completed, "the writer was too quick to be killed in time"

    assert content(table) == wanted(FIRST)
    assert comparable(apache.read(table).to_pylist(), KIND.schema.names) == wanted(FIRST)

    write_hudi(spark.createDataFrame(SECOND.table(KIND.schema)), str(table), options, mode="append")
    assert content(table) == wanted(FIRST, SECOND)
    assert comparable(apache.read(table).to_pylist(), KIND.schema.names) == wanted(FIRST, SECOND)
    rolled_back = [name for name in names(table) if name.endswith(".rollback")]
    assert len(rolled_back) == 1
    listed = {name for files in apache.files(table).values() for name in files}
    assert listed == {path.name for path in table.rglob("part=*/*.parquet")}, "stray files"
