"""The oldest PySpark that is supported writes the same tables as the newest."""

import json
import os
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from catalog import Table
from tests.conftest import skip_or_fail
from tests.engines.jobs import start
from tests.engines.kinds import kinds
from tests.engines.model import comparable, expected
from tests.property.spark_rows import write_table
from tests.support.apache_hudi_client import environment
from tests.support.spark_checks import GROUPS
from tests.support.spark_reads import make_table

pytestmark = [pytest.mark.engine, pytest.mark.spark]
OLDEST = "3.5.0"


@pytest.mark.parametrize("name", ["types", "replaced"])
def test_every_operation_on_the_oldest_pyspark(tmp_path: Path, name: str) -> None:
    python, _ = environment()
    if not python.exists():
        skip_or_fail(f"no environment with PySpark {OLDEST} at {python}: run `make engines`")
    kind = kinds()[name]
    process = start(tmp_path / "job", tmp_path / "table", kind, kind.steps, str(python))
    output, _ = process.communicate(timeout=580)
    assert process.returncode == 0, (tmp_path / "job/stderr.log").read_text()[-4000:]
    lines = [json.loads(line) for line in output.splitlines()]
    assert lines[0]["pyspark"] == OLDEST
    table = Table.open(str(tmp_path / "table")).scan().to_arrow()
    schema = pa.schema([field for field in table.schema if not field.name.startswith("_hoodie_")])
    wanted = pa.Table.from_pylist(expected(kind, kind.steps), schema)
    assert comparable(table.to_pylist(), schema.names) == comparable(wanted.to_pylist(), schema.names)


def test_writes_without_spark_on_the_oldest_packages(tmp_path: Path) -> None:
    """The interpreter of the oldest PySpark has the oldest of all packages, where they exist for this Python."""
    python, _ = environment()
    if not python.exists():
        skip_or_fail(f"no environment with PySpark {OLDEST} at {python}: run `make engines`")
    script = Path(__file__).with_name("oldest_script.py")
    done = subprocess.run(
        [str(python), str(script), str(tmp_path)], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    print(report["packages"])
    assert report["texts"] == {"0": "", "1": "x", "2": "two", "3": "three", "4": "xxxx", "5": "xxxxx", "7": "seven"}
    assert report["inner"] == {"n": 2, "many": [3]}
    assert report["kept"] >= report["found"] == 1


@pytest.mark.parametrize("group", GROUPS)
def test_planned_reads_on_the_oldest_pyspark(tmp_path: Path, group: str) -> None:
    python, _ = environment()
    if not python.exists():
        skip_or_fail(f"no environment with PySpark {OLDEST} at {python}: run `make engines`")
    make_table(tmp_path / "t")
    write_table(str(tmp_path / "kinds"))
    command = [str(python), str(Path(__file__).with_name("reads_script.py")), str(tmp_path), group]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=580, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["pyspark"] == OLDEST
    assert report["passed"] == [*GROUPS[group]]
    assert group != "reads" or report["pruned"] > 2
