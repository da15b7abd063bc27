"""Names that `hudi-catalog sync` wrote to a real Hive Metastore, asked for by plain Spark with Hive's catalog."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from hudi_catalog.hive.handler import handler_jar
from hudi_catalog.metastore.open_metastore import open_metastore
from table_format.errors import ServiceError
from tests.conftest import skip_or_fail
from tests.support.apache_hudi_client import environment
from tests.support.command import MAIN
from tests.support.scripts import printed
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
        lines = printed(script, hive_metastore.uri, path, jar, seconds=400, python=python, folder=tmp_path)
    finally:
        with contextlib.closing(open_metastore(hive_metastore.uri)) as store:
            for schema in ("shop", "apache", "handled"):
                store.drop_table(schema, "orders")
    names = ["apache.orders", "handled.orders", "shop.orders"]
    assert json.loads(lines[-1])["names"] == names
