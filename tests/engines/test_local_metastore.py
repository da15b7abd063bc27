"""`hudi-catalog metastore` as a user runs it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from hudi_catalog.metastore.metastore import HUDI_FORMAT, HiveColumn, HiveTable
from hudi_catalog.metastore.open_metastore import open_metastore
from tools.engines.metastore import MetastoreServer

pytestmark = pytest.mark.engine
PROGRAM = str(Path(sys.executable).with_name("hudi-catalog"))


def start(folder: Path, port: int = 0) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [PROGRAM, "metastore", "--folder", str(folder), "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_what_is_registered_stays_however_it_ends(hive_metastore: MetastoreServer, tmp_path: Path) -> None:
    """`hive_metastore` tells whether one can run here at all."""
    folder = tmp_path / "a folder, é"
    process, uri = start(folder)
    opened = open_metastore(uri)
    assert opened.create_schema("kept")
    # a metastore makes the folders of tables
    opened.put_table(HiveTable("kept", "t", (HiveColumn("a", "int"),), (tmp_path / "t").as_uri(), HUDI_FORMAT, {}))
    java = psutil.Process(process.pid).children(recursive=True)
    listening = [at.laddr.ip for child in java for at in child.net_connections("tcp") if at.status == "LISTEN"]
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}, "nobody else gets in"
    assert len(listening) == 1, "the way by which it was started is closed"

    other = subprocess.run(
        [PROGRAM, "metastore", "--folder", str(folder), "--port", "0"], check=False, capture_output=True, text=True
    )
    assert other.returncode == 1
    assert other.stderr.startswith(
        f"hudi-catalog: {folder}: a local metastore runs there already, process {process.pid}"
    )

    process.kill()  # nothing can be tidied up then
    process.wait()
    _, alive = psutil.wait_procs(java, timeout=30)
    assert alive == []

    process, uri = start(folder)
    again = open_metastore(uri)
    assert again.table("kept", "t") is not None
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert f"--metastore {uri} --service HOST:PORT --all WAREHOUSE" in errors
    assert errors.endswith("hudi-catalog: stopped\n")
    opened.close()
    again.close()


def test_a_metastore_that_ends_of_itself_is_told(hive_metastore: MetastoreServer, tmp_path: Path) -> None:
    process, uri = start(tmp_path)
    assert uri.startswith("thrift://127.0.0.1:")
    (java,) = psutil.Process(process.pid).children()
    os.kill(java.pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.splitlines()[-1].startswith("hudi-catalog: the Hive Metastore stopped unexpectedly; see ")
