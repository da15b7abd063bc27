"""Names that `hudi-catalog sync` wrote to a real Hive Metastore, asked for by plain Spark with Hive's catalog."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hudi_catalog.hive.handler import handler_jar
from hudi_catalog.metastore.open_metastore import open_metastore
from table_format.errors import ServiceError
from tests.conftest import skip_or_fail
from tests.support.apache_hudi_client import ROOT, environment
from tests.support.command import MAIN
from tests.support.spark_reads import make_table
from tools.engines.metastore import MetastoreServer

pytestmark = [pytest.mark.engine, pytest.mark.spark]


@pytest.mark.parametrize("release", ["newest", "oldest"])
def test_names_of_a_real_sync_answer(hive_metastore: MetastoreServer, tmp_path: Path, release: str) -> None:
    python = Path(sys.executable) if release == "newest" else environment()[0]
    if not python.exists():
        skip_or_fail(f"no environment with the oldest PySpark at {python}: run `make engines`")
    try:
        jar = handler_jar()
    except ServiceError as error:
        skip_or_fail(str(error))
    path = make_table(tmp_path / "orders")
    for schema, form in (("shop", "symlink"), ("apache", "apache"), ("handled", "handler")):
        sync = (
            "sync",
            path,
            "--metastore",
            hive_metastore.uri,
            "--schema",
            schema,
            "--format",
            form,
            "--service",
            "hive-site",
        )
        subprocess.run([*MAIN, *sync], check=True, stdout=subprocess.DEVNULL, timeout=120)
    script = Path(__file__).with_name("metastore_script.py")
    try:
        done = subprocess.run(
            [str(python), str(script), hive_metastore.uri, path, jar],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    finally:
        with contextlib.closing(open_metastore(hive_metastore.uri)) as store:
            for schema in ("shop", "apache", "handled"):
                store.drop_table(schema, "orders")
    assert done.returncode == 0, done.stderr[-4000:]
    names = ["apache.orders", "handled.orders", "shop.orders"]
    assert json.loads(done.stdout.splitlines()[-1])["names"] == names
