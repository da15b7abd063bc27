"""The real engines, each started when a test first needs it."""

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import skip_or_fail
from tests.engines.hive_engine import Engine as HiveEngine
from tests.engines.hive_fake_service import FakeService, fake_service, parquet_splits
from tests.engines.hive_handler_tables import Tables, handled_folder
from tests.engines.hive_world import World as HiveWorld
from tests.engines.trino_engine import Engine
from tests.engines.trino_world import World
from tests.engines.written_table import Written
from tests.support.apache_hudi_client import VERSIONS, ApacheHudi, missing
from tests.support.turns import all_cases, deselect, left_out
from tools.engines.artifacts import EngineMissingError
from tools.engines.hive.jars import handler
from tools.engines.hive.server import HiveMetastore, HiveServer
from tools.engines.metastore import MetastoreServer
from tools.engines.presto import PrestoServer
from tools.engines.trino import VERSION, TrinoServer

# scripts with arguments, which collecting documentation examples would run
collect_ignore = [
    "apache_hudi/session.py",
    "metastore_script.py",
    "names_script.py",
    "reads_script.py",
    "writer_script.py",
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Share cases out among Apache's releases; with HUDI_CATALOG_ALL_CASES all run."""
    if not all_cases():
        deselect(config, items, left_out(item.nodeid for item in items if "/engines/" in item.nodeid))


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ApacheHudi]]:
    """Gives the running Apache Hudi of a release."""
    running: dict[str, ApacheHudi] = {}

    def get(version: str) -> ApacheHudi:
        if version not in running:
            reason = missing(version)
            if reason:
                skip_or_fail(reason)
            running[version] = ApacheHudi(version, Path(tmp_path_factory.mktemp(f"apache-{version}")), lasting=False)
        return running[version]

    yield get
    for engine in running.values():
        engine.close()


@pytest.fixture(scope="session", params=VERSIONS)
def apache(request: pytest.FixtureRequest, release: Callable[[str], ApacheHudi]) -> ApacheHudi:
    """A running Apache Hudi; tests that use it run once per release, grouped by release."""
    return release(request.param)


@pytest.fixture(scope="session")
def written(release: Callable[[str], ApacheHudi]) -> Callable[[str, str], Written]:
    """Gives the table that a release wrote, by release and name; makes each once, and keeps it for later runs."""

    @functools.cache
    def make(version: str, name: str) -> Written:
        reason = missing(version)
        if reason:
            skip_or_fail(reason)
        return Written(release, version, name)

    return make


@pytest.fixture(scope="session")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Trino: the server that HUDI_CATALOG_TRINO names (on this machine, CREATE CATALOG allowed), else a new one.

    Its release is HUDI_CATALOG_TRINO_VERSION, 476 by default.
    """
    folder = tmp_path_factory.mktemp("trino")
    named = os.environ.get("HUDI_CATALOG_TRINO")
    version = os.environ.get("HUDI_CATALOG_TRINO_VERSION", VERSION)
    server = None
    if not named:
        try:
            server = TrinoServer(folder, version=version, lasting=False)
        except EngineMissingError as error:
            skip_or_fail(f"{error}; or name a running Trino in HUDI_CATALOG_TRINO")
    metastore = folder / "test-metastore"
    metastore.mkdir()
    engine = Engine(named or server.uri, metastore, version)  # type: ignore[union-attr]
    yield engine
    if server:
        server.process.kill()
    else:
        engine.drop_catalogs()


@pytest.fixture(scope="session")
def world(trino: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A warehouse, empty at first, that Trino reads through the service and through the gateway."""
    with ExitStack() as stack:
        yield World(trino, Path(tmp_path_factory.mktemp("warehouse")), stack)


@pytest.fixture(scope="session")
def start_presto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., PrestoServer]]:
    """Starts a Presto 0.287 with the catalogs given (it knows no CREATE CATALOG)."""
    started: list[PrestoServer] = []

    def start(**catalogs: dict[str, str]) -> PrestoServer:
        try:
            started.append(PrestoServer(tmp_path_factory.mktemp("presto"), catalogs=catalogs))
        except EngineMissingError as error:
            skip_or_fail(str(error))
        return started[-1]

    yield start
    for server in started:
        server.process.kill()


@pytest.fixture(scope="session")
def hive_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreServer]:
    """A Hive Metastore 2.3.10, of PySpark's jars, with an empty database."""
    try:
        server = MetastoreServer(tmp_path_factory.mktemp("metastore"))
    except EngineMissingError as error:
        skip_or_fail(str(error))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def hive_metastore_4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    """A Hive Metastore 4.0.1 with an empty database, and with our guard where our jar is built."""
    try:
        classes = [handler()]
    except EngineMissingError:
        classes = []
    try:
        server = HiveMetastore(tmp_path_factory.mktemp("metastore-4"), classes=classes)
    except EngineMissingError as error:
        skip_or_fail(str(error))
    yield server
    server.process.kill()


@pytest.fixture(scope="session")
def start_hive(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], HiveEngine]]:
    """Starts a Hive 4.0.1 with our jar whose clock is that of a time zone, all over one metastore.

    HUDI_CATALOG_HIVE names a server to use instead, as host:port: on this machine, with our jar, of any time zone.
    """
    named = os.environ.get("HUDI_CATALOG_HIVE")
    with ExitStack() as stack:

        def start(time_zone: str) -> HiveEngine:
            if named:
                host, _, port = named.rpartition(":")
            else:
                metastore = request.getfixturevalue("hive_metastore_4")
                folder = tmp_path_factory.mktemp("hive")
                try:
                    server = HiveServer(folder, metastore, classes=[handler()], time_zone=time_zone)
                except EngineMissingError as error:
                    skip_or_fail(f"{error}; or name a running HiveServer2 in HUDI_CATALOG_HIVE")
                stack.callback(server.process.kill)
                host, port = "127.0.0.1", str(server.port)
            engine = HiveEngine(host, int(port))
            if named:
                stack.callback(engine.drop_databases)
            stack.callback(engine.close)
            return engine

        yield start


@pytest.fixture(scope="session")
def hive(start_hive: Callable[[str], HiveEngine]) -> HiveEngine:
    """A running Hive 4.0.1 whose clock is UTC's."""
    return start_hive("UTC")


@pytest.fixture(scope="session")
def hive_new_york(start_hive: Callable[[str], HiveEngine], hive: HiveEngine) -> HiveEngine:
    """Another one, with the same tables, whose clock is New York's."""
    return start_hive("America/New_York") if not os.environ.get("HUDI_CATALOG_HIVE") else hive


@pytest.fixture(scope="session")
def hive_world(hive: HiveEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveWorld]:
    """A warehouse, empty at first, that Hive reads through the storage handler and its service."""
    with ExitStack() as stack:
        yield HiveWorld(hive, Path(tmp_path_factory.mktemp("hive-warehouse")), stack)


@pytest.fixture(scope="module")
def tables(hive: HiveEngine, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """Makes tables of Hive's storage handler."""
    return Tables(hive, handled_folder(tmp_path_factory))


@pytest.fixture
def right(tables: Tables) -> Iterator[FakeService]:
    """A service for `tables` that gives all files."""
    with fake_service(parquet_splits(str(tables.folder))) as service:
        yield service
