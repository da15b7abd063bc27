"""The engines start and answer, before our services are tested."""

import pytest

from tests.engines.trino_engine import Engine
from tools.engines.metastore import MetastoreServer

pytestmark = pytest.mark.engine


def test_trino_is_the_release_we_measure_on(trino: Engine) -> None:
    assert trino.query("SELECT node_version FROM system.runtime.nodes") == [(trino.version,)]
    assert ("information_schema",) in trino.query(f"SHOW SCHEMAS FROM {trino.hive}")


def test_catalogs_come_and_go(trino: Engine) -> None:
    name = trino.create_catalog("passing", "memory", {})
    assert (name,) in trino.query("SHOW CATALOGS")
    trino.drop_catalog(name)
    assert (name,) not in trino.query("SHOW CATALOGS")


def test_a_hive_metastore_serves_trino(trino: Engine, hive_metastore: MetastoreServer) -> None:
    properties = {"hive.metastore.uri": hive_metastore.uri, "fs.hadoop.enabled": "true"}
    name = trino.create_catalog("hms", "hive", properties)
    trino.query(f"CREATE SCHEMA {name}.probe WITH (location = '{hive_metastore.warehouse.as_uri()}/probe')")
    trino.query(f"CREATE TABLE {name}.probe.numbers AS SELECT 7 AS seven")
    assert trino.query(f"SELECT * FROM {name}.probe.numbers") == [(7,)]
