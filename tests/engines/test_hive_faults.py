"""Real Hive while the service dies, restarts, cannot serve a request, or requires authentication."""

import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_catalog.hive.serve import HiveSettings, running_hive
from hudi_catalog.server.security import TlsFiles, load_secret
from tests.engines.hive_engine import ON_TEZ, OWN_SCANS, HiveError
from tests.engines.hive_world import World
from tests.engines.served import served
from tests.support.certificates import Authority
from tests.support.tpch_tables import Layout, write
from tests.support.waiting import until
from tools.engines.process import free_port

pytestmark = pytest.mark.engine

SCHEMA = "faults"
ROWS = 20_000
COLUMNS = "id bigint, text string"
JOINED = "SELECT count(*), sum(a.id) FROM {0} a JOIN {0} b ON a.id = b.id WHERE a.text <> b.text OR a.id < 1000"
ANSWER = [(1000, 1000 * 999 // 2)]
OPEN = {"hudicatalog.tests": "faults"}


@pytest.fixture(scope="module")
def table(hive_world: World) -> Path:
    """A table of sixteen files."""
    rows = pa.table({"id": pa.array(range(ROWS), pa.int64()), "text": [f"{n:0100}" for n in range(ROWS)]})
    write(hive_world.folder(SCHEMA), "long", rows, Layout("id", "id", 16))
    return hive_world.folder(SCHEMA) / "long"


class Asking(threading.Thread):
    """Asks again and again, and keeps answers and errors."""

    def __init__(self, world: World, name: str, settings: dict[str, str]) -> None:
        super().__init__(daemon=True)
        self._world, self._name, self._settings = world, name, settings
        self.right = 0
        self.wrong: list[object] = []
        self.errors: list[str] = []
        self.ending = threading.Event()

    def run(self) -> None:
        while not self.ending.is_set():
            try:
                rows = self._world.query(JOINED.format(self._name), SCHEMA, self._settings)
            except HiveError as error:
                self.errors.append(str(error))
            except BaseException as error:
                self.wrong.append(error)
                return
            else:
                self.right += rows == ANSWER
                self.wrong += [rows] if rows != ANSWER else []


def test_killed_and_started_again_while_queries_run(hive_world: World, table: Path) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    hive_world.declare(SCHEMA, "killed", COLUMNS, folder=table, properties={"hoodie.catalog.hive.service": address})
    asking = [Asking(hive_world, "killed", settings) for settings in ({**ON_TEZ, **OWN_SCANS}, dict(OWN_SCANS))]
    with ExitStack() as stack:
        first = stack.enter_context(served("hive", hive_world.warehouse, port))
        assert hive_world.query(JOINED.format("killed"), SCHEMA) == ANSWER
        for thread in asking:
            thread.start()
        until(lambda: all(thread.right for thread in asking), 60)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        until(lambda: all(thread.errors or thread.wrong for thread in asking), 60)
        stack.enter_context(served("hive", hive_world.warehouse, port))
        assert hive_world.query(JOINED.format("killed"), SCHEMA) == ANSWER
        for thread in asking:
            thread.ending.set()
        for thread in asking:
            thread.join(120)
            assert not thread.is_alive(), "a query hangs"
            assert thread.wrong == []
            assert all("Hudi table" in error and address in error for error in thread.errors), thread.errors
        assert sum(thread.right for thread in asking) > 0
    with pytest.raises(HiveError, match=f"the service does not answer.*{address}"):
        hive_world.query("SELECT count(*) FROM killed", SCHEMA)


def test_another_service_goes_on_with_a_query_that_the_first_began(hive_world: World, table: Path) -> None:
    """The first service is asked for the snapshot, and then dies; the second one plans the scans."""
    with running_hive(HiveSettings(str(hive_world.warehouse))) as second:
        with running_hive(HiveSettings(str(hive_world.warehouse))) as first:
            both = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
            hive_world.declare(SCHEMA, "pair", COLUMNS, folder=table, properties={"hoodie.catalog.hive.service": both})
            assert hive_world.query(JOINED.format("pair"), SCHEMA) == ANSWER
            assert [record for record in first.log.recent() if record["event"] == "planned"]
        assert hive_world.query(JOINED.format("pair"), SCHEMA) == ANSWER
        assert [record for record in second.log.recent() if record["event"] == "planned"]


def test_a_table_that_is_not_there(hive_world: World, table: Path, tmp_path: Path) -> None:
    hive_world.declare(SCHEMA, "nothing", COLUMNS, folder=hive_world.folder(SCHEMA) / "nothing")
    hive_world.declare(SCHEMA, "outside", COLUMNS, folder=tmp_path)
    for name in ("nothing", "outside"):
        for settings in ({}, ON_TEZ):
            with pytest.raises(HiveError, match=rf"Hudi table \w+\.{name}: "):
                hive_world.query(f"SELECT * FROM {name}", SCHEMA, settings)


def test_a_table_of_a_version_that_nobody_knows(hive_world: World, table: Path) -> None:
    rows = pa.table({"id": [1, 2], "text": ["a", "b"]})
    write(hive_world.folder(SCHEMA), "future", rows, Layout("id", "id", 1))
    properties = hive_world.folder(SCHEMA) / "future/.hoodie/hoodie.properties"
    hive_world.register(SCHEMA, "future")
    text = properties.read_text()
    assert "hoodie.table.version=6" in text
    properties.write_text(
        "\n".join(line for line in text.replace("version=6", "version=99").splitlines() if "checksum" not in line)
    )
    hive_world.declare(SCHEMA, "future_again", COLUMNS, folder=hive_world.folder(SCHEMA) / "future")
    with running_hive(HiveSettings(str(hive_world.warehouse))) as fresh:
        address = {"hoodie.catalog.hive.service": f"127.0.0.1:{fresh.port}"}
        folder = hive_world.folder(SCHEMA) / "future"
        hive_world.declare(SCHEMA, "future_again", COLUMNS, folder=folder, properties=address)
        with pytest.raises(HiveError, match="99"):
            hive_world.query("SELECT * FROM future_again", SCHEMA)


def test_a_failed_query_leaves_nothing_behind(hive_world: World, table: Path) -> None:
    """A task that fails spoils no query after it, which Tez's local mode would do without the hook."""
    hive_world.declare(SCHEMA, "spoiled", COLUMNS, folder=table)
    hive_world.declare(SCHEMA, "gone", COLUMNS, folder=table)
    file = min(table.glob("*.parquet"))
    content = file.read_bytes()
    try:
        file.write_bytes(content[:4] + os.urandom(len(content) // 2) + content[4 + len(content) // 2 :])
        with pytest.raises(HiveError):
            hive_world.query("SELECT count(*), max(text) FROM gone", SCHEMA, ON_TEZ)
    finally:
        file.write_bytes(content)
    assert hive_world.query("SELECT count(*), max(id) FROM spoiled", SCHEMA, ON_TEZ) == [(ROWS, ROWS - 1)]


def test_garbage_beside_a_query_disturbs_nobody(hive_world: World, table: Path) -> None:
    hive_world.declare(SCHEMA, "calm", COLUMNS, folder=table)
    garbage = (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x7f\xff\xff\xff", b"\xff" * 64, b"\x00\x00\x00\x08" + os.urandom(8))
    with ExitStack() as stack:
        for sent in garbage * 20:
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", hive_world.service.port), timeout=10)
            )
            connection.sendall(sent)
        assert hive_world.query(JOINED.format("calm"), SCHEMA) == ANSWER


@pytest.fixture
def guarded(hive_world: World, table: Path, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A table over a service in cipher that lets in those who know a secret, and the settings that Hive needs."""
    authority = Authority(tmp_path)
    signed = authority.sign()
    secret = tmp_path / "secret"
    secret.write_text("open-sesame-says-the-handler\n")
    secret.chmod(0o600)
    secret.chmod(0o600)
    tls = TlsFiles(signed.certificate, signed.key)
    settings = HiveSettings(str(hive_world.warehouse), secret=load_secret(str(secret)), tls=tls)
    with running_hive(settings) as service:
        address = {"hoodie.catalog.hive.service": f"localhost:{service.port}"}
        hive_world.declare(SCHEMA, "guarded", COLUMNS, folder=table, properties=address)
        key = "hoodie.catalog.hive."
        yield "guarded", {f"{key}tls": "true", f"{key}tls.ca": authority.certificate, f"{key}secret.file": str(secret)}


def test_cipher_and_secret(hive_world: World, guarded: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    name, settings = guarded
    sql = f"SELECT count(*) FROM {name} WHERE id < 100"
    other = tmp_path / "other"
    other.write_text("open-sesame-says-somebody-else\n")
    other.chmod(0o600)
    key = "hoodie.catalog.hive."
    # without tasks: tasks would need the settings of this session too, which they have by the job
    assert hive_world.query(sql, SCHEMA, {**settings, **OPEN}) == [(100,)]
    for missing in ({f"{key}secret.file": str(other)}, {f"{key}secret.file": ""}, {f"{key}tls": "false"}):
        with pytest.raises(HiveError, match=r"Hudi table") as raised:
            hive_world.query(sql, SCHEMA, {**settings, **missing, **OPEN})
        assert not re.search("open-sesame", str(raised.value))
