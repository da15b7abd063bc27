"""The oldest PySpark that is supported writes the same tables as the newest."""

import json
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
from tests.support.scripts import printed
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
    done = json.loads(printed(script, tmp_path, seconds=200, python=python)[-1])
    print(done["packages"])
    assert done["texts"] == {"0": "", "1": "x", "2": "two", "3": "three", "4": "xxxx", "5": "xxxxx", "7": "seven"}
    assert done["inner"] == {"n": 2, "many": [3]}
    assert done["kept"] >= done["found"] == 1


@pytest.mark.parametrize("group", GROUPS)
def test_planned_reads_on_the_oldest_pyspark(tmp_path: Path, group: str) -> None:
    python, _ = environment()
    if not python.exists():
        skip_or_fail(f"no environment with PySpark {OLDEST} at {python}: run `make engines`")
    make_table(tmp_path / "t")
    write_table(str(tmp_path / "kinds"))
    script = Path(__file__).with_name("reads_script.py")
    done = json.loads(printed(script, tmp_path, group, seconds=580, python=python)[-1])
    assert done["pyspark"] == OLDEST
    assert done["passed"] == [*GROUPS[group]]
    assert group != "reads" or done["pruned"] > 2
