"""Our connector's build for Trino 483, in a server of its own: tests of the other modules, chosen to run in a minute.

`HUDI_CATALOG_TRINO_VERSION=483` runs all of those modules on 483.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trino as client

from hudi_catalog.trino.connector import plugin
from tests.conftest import skip_or_fail
from tests.engines.test_trino_connector import (
    copied,
    lake,
    test_every_value_of_every_type,
    test_filters_lose_no_row,
    test_values_of_a_join_leave_files_out,
    test_versions,
)
from tests.engines.test_trino_connector_buckets import test_slices_with_log_files
from tests.engines.trino_engine import Engine
from tools.engines.artifacts import EngineMissingError
from tools.engines.trino import TrinoServer, lacks

pytestmark = pytest.mark.engine

NEWEST = plugin.VERSIONS[-1]

__all__ = [
    "copied",
    "lake",
    "test_every_value_of_every_type",
    "test_filters_lose_no_row",
    "test_slices_with_log_files",
    "test_values_of_a_join_leave_files_out",
    "test_versions",
]


def started(tmp_path_factory: pytest.TempPathFactory, connector: str) -> TrinoServer:
    try:
        reason = lacks(NEWEST)
        if reason is not None:
            pytest.skip(reason)  # also where engines are required: no Maven or PyPI repository has such a Java
        folder = tmp_path_factory.mktemp("trino")
        return TrinoServer(folder, version=NEWEST, connector=connector, s3=False, lasting=False)
    except EngineMissingError as error:
        skip_or_fail(str(error))


@pytest.fixture(scope="module")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Trino 483, in place of the session's server."""
    server = started(tmp_path_factory, NEWEST)
    yield Engine(server.uri, tmp_path_factory.mktemp("metastore"), NEWEST)
    server.process.kill()


def test_the_server_is_of_this_release(trino: Engine) -> None:
    assert trino.query("SELECT node_version FROM system.runtime.nodes") == [(NEWEST,)]


def test_s3_without_its_jars_is_refused(trino: Engine) -> None:
    refusal = r"fs\.native-s3\.enabled is set, and .* lacks jars .* lay it out by `hudi-catalog trino-plugin --s3`"
    for switch in ("fs.native-s3.enabled", "fs.s3.enabled"):
        with pytest.raises(client.exceptions.TrinoQueryError, match=refusal):
            trino.connector_catalog("refused", 1, {switch: "true", "s3.region": "us-east-1"})


def test_the_jar_of_another_release_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = started(tmp_path_factory, plugin.TRINO)
    try:
        engine = Engine(server.uri, tmp_path_factory.mktemp("metastore"), NEWEST)
        with pytest.raises(client.exceptions.TrinoQueryError, match=r"is for Trino 476, and the server is Trino 483"):
            engine.connector_catalog("refused", 1)
    finally:
        server.process.kill()
