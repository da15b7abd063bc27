"""SIGKILL to a writing process in the middle of an upsert: nothing committed is lost, nothing uncommitted shows."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Table
from tests.engines.jobs import start, write_by_spark, write_here
from tests.engines.kinds import Step, kinds
from tests.engines.model import comparable, expected
from tests.support.apache_hudi_client import ApacheHudi

pytestmark = [pytest.mark.engine, pytest.mark.spark]
KIND = kinds()["hive"]
FIRST, SECOND = KIND.steps[0], KIND.steps[1]

#: The file that the process dies before, its executor, and the release that reads what it leaves. A Spark driver is
#: stopped at its own changes only, those of a local executor at the tasks' as well.
DEATHS = {
    "requested": (r"^\.hoodie/\d+\.inflight$", "spark", "0.15.0"),
    "data written": (r"^\.hoodie/metadata/\.hoodie/", "spark", "1.2.0"),
    "inflight": (r"\.marker\.", "processes", "1.2.0"),
    "marker": (r"^part=.*\.parquet$", "threads", "0.15.0"),
    "metadata written": (r"^\.hoodie/\d+\.commit$", "threads", "1.2.0"),
}


def names(table: Path) -> set[str]:
    return {path.name for path in table.rglob("*")}


def content(table: Path) -> list[str]:
    rows = Table.open(str(table)).scan().to_arrow()
    return comparable(rows.to_pylist(), KIND.schema.names)


def wanted(*steps: Step) -> list[str]:
    return comparable(pa.Table.from_pylist(expected(KIND, list(steps)), KIND.schema).to_pylist(), KIND.schema.names)


def kill_once_stopped(process: subprocess.Popen[str], log: Path) -> None:
    assert process.stdout is not None
    try:
        stopped = any('"stopped"' in line for line in process.stdout)  # of several threads, perhaps in one line
        assert stopped, f"the writer ended first: {log.read_text()[-3000:]}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("moment", DEATHS)
def test_a_killed_writer(release: Callable[[str], ApacheHudi], spark: Any, tmp_path: Path, moment: str) -> None:
    change, executor, version = DEATHS[moment]
    apache, table = release(version), tmp_path / "table"
    write_here(KIND, table, FIRST)
    before = names(table)
    process = start(tmp_path / "job", table, KIND, [SECOND], executor=executor, stop_before=change)
    kill_once_stopped(process, tmp_path / "job/stderr.log")
    timeline = {path.name for path in (table / ".hoodie").iterdir()} - before
    assert any(name.endswith(".commit.requested") for name in timeline)
    assert any(name.endswith(".inflight") for name in timeline) == (moment != "requested")
    assert not any(name.endswith(".commit") for name in timeline)

    assert content(table) == wanted(FIRST)
    assert comparable(apache.read(table).to_pylist(), KIND.schema.names) == wanted(FIRST)

    # the other kind of executor clears up
    if executor == "spark":
        write_here(KIND, table, SECOND)
    else:
        write_by_spark(spark, KIND, table, SECOND)
    assert content(table) == wanted(FIRST, SECOND)
    assert comparable(apache.read(table).to_pylist(), KIND.schema.names) == wanted(FIRST, SECOND)
    assert len([*(table / ".hoodie").glob("*.rollback")]) == 1
    listed = {name for files in apache.files(table).values() for name in files}
    assert listed == {path.name for path in table.rglob("part=*/*.parquet")}, "stray files"
