"""A table whose storage does not answer delays only requests for it, and those not for long."""

import json
import os
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from catalog import Table
from catalog.catalog import Catalog
from catalog.concurrency.late_tables import LateTables
from catalog.concurrency.workers import Workers, each
from hudi_catalog.gateway.rewrite import Rewriter
from hudi_catalog.hive.serve import HiveSettings, running_hive
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.trino_sync import sync_to_trino
from hudi_catalog.metastore.trino_tables import TrinoTables
from hudi_catalog.server.options import TABLE_TIMEOUT, THREADS
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.trino.serve import TrinoSettings, running_trino
from table_format.errors import HudiError, LateTableError
from table_format.storage import Storage
from tests.support.command import MAIN, Command
from tests.support.gateway_hosting import answer, exchange, gateway, post, recording, result
from tests.support.hive_client import T as H
from tests.support.hung_files import hung
from tests.support.served_folders import keys, listed, refusal, thrift_client
from tests.support.waiting import until

PROPERTIES = ".hoodie/hoodie.properties"
LIMIT = 0.8


@pytest.fixture
def warehouse(built: Path, tmp_path: Path) -> Path:
    """The tables `good` and `dead`."""
    for name in ("good", "dead"):
        shutil.copytree(built, tmp_path / "lake" / name)
    return tmp_path / "lake"


def asked(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        text = answer.read().decode()
        return json.loads(text) if path == "/ready" else text


@pytest.fixture
def options() -> dict[str, str]:
    return {TABLE_TIMEOUT: str(LIMIT), THREADS: "2", "hoodie.catalog.service.listing.seconds": "0"}


@pytest.mark.slow
def test_other_tables_are_served_while_one_hangs(warehouse: Path, options: dict[str, str]) -> None:
    place = warehouse / "dead" / PROPERTIES
    with running_trino(TrinoSettings(str(warehouse), options=options)) as serving:
        port = serving.port
        assert keys(port, "dead") == keys(port, "good") == list(range(20))
        with hung(place), ThreadPoolExecutor(6) as clients:
            hanging = [clients.submit(refusal, port, "dead") for _ in range(6)]  # three times the service's threads
            for _ in range(3):
                assert keys(port, "good") == list(range(20))
            for one in hanging:
                assert f"dead: its storage does not answer: {place} has not answered" in one.result()
            threads = threading.active_count()
            for _ in range(20):
                refusal(port, "dead")  # at once, and without another thread for each
            assert threading.active_count() <= threads + 1
            assert listed(port) == ["good"]
            ready = asked(serving.http_port, "/ready")
            assert ready["ready"]
            assert list(ready["late_tables"]) == ["dead"]
            assert str(place) in ready["late_tables"]["dead"]
            assert str(place) in asked(serving.http_port, "/")
            metrics = asked(serving.http_port, "/metrics")
            assert 'hudi_catalog_open{service="trino",what="late tables"} 1.0' in metrics
            assert 'hudi_catalog_requests_total{method="GetSplits",outcome="late",service="trino"}' in metrics
            assert serving.tables.late.refused >= 26
        until(lambda: not len(serving.tables.late))
        assert keys(port, "dead") == list(range(20))
        assert asked(serving.http_port, "/ready")["late_tables"] == {}
        until(lambda: serving._framed.workers.lost == 0)


@pytest.mark.slow
def test_a_service_starts_beside_a_table_that_hangs(warehouse: Path, start: Callable[..., Command]) -> None:
    flags = ("-o", f"{TABLE_TIMEOUT}={LIMIT}", "--port", "0", "--http-port", "0", "--query-log", os.devnull)
    with hung(warehouse / "dead" / PROPERTIES):
        serving = start("serve", "trino", str(warehouse), *flags)
        assert listed(serving.port) == ["good"]
        assert keys(serving.port, "good") == list(range(20))
        assert "dead: its storage does not answer" in refusal(serving.port, "dead")
        assert serving.get("/ready")[0] == 200
        serving.process.terminate()
        assert serving.end(20)[0] == 0  # though a thread hangs


@pytest.mark.slow
def test_readiness_ends_when_no_table_answers(warehouse: Path, options: dict[str, str]) -> None:
    shutil.rmtree(warehouse / "good")
    with (
        running_trino(TrinoSettings(str(warehouse), options=options)) as serving,
        hung(warehouse / "dead" / PROPERTIES),
    ):
        refusal(serving.port, "dead")
        with pytest.raises(urllib.error.HTTPError) as refused:
            asked(serving.http_port, "/ready")
        with refused.value as answer:
            assert answer.code == 503
            assert "none of 1 tables answers: dead: " in json.loads(answer.read())["checks"]["tables"]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MAIN, *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_commands_over_many_tables_go_on_beside_one_that_hangs(warehouse: Path, tmp_path: Path) -> None:
    flags = ("--table-timeout", str(LIMIT), "--json")
    sync_to_trino = ("sync", "--all", str(warehouse), "--metastore", str(tmp_path / "metastore"))
    with hung(warehouse / "dead" / PROPERTIES):
        done = command("tables", str(warehouse), *flags)
        assert done.returncode == 0, done.stderr
        dead, good = json.loads(done.stdout)
        assert (good["name"], dead["name"]) == ("good", "dead")
        assert "its storage does not answer" in dead["problem"]
        done = command("sync", str(warehouse / "dead"), *sync_to_trino[3:], "--table-timeout", str(LIMIT))
        assert done.returncode == 1
        assert f"{warehouse}/dead: its storage does not answer" in done.stderr
    # a file that only the sync reads, so that the listing is well
    (commit,) = (warehouse / "dead/.hoodie").glob("*.commit")
    with hung(commit):
        done = command(*sync_to_trino, *flags)
        assert done.returncode == 1
        dead, good = json.loads(done.stdout)
        assert str(commit) in dead["problem"]
        assert good["table"] == "good"


def test_other_tables_are_planned_for_hive_while_one_hangs(warehouse: Path, options: dict[str, str]) -> None:
    place = warehouse / "dead" / PROPERTIES

    def pin(table: str) -> str:
        client = thrift_client(H.HudiCatalog, serving.port)
        try:
            asked = H.ScanRequest(2, f"file:{warehouse}/{table}", table, "q", timeZone="UTC")
            return str(client.splits(asked, None).pin)
        except H.Refusal as refused:
            return str(refused.message)
        finally:
            client.close()

    with running_hive(HiveSettings(str(warehouse), options={**options, THREADS: "1"})) as serving, hung(place):
        with ThreadPoolExecutor(2) as clients:
            hanging = clients.submit(pin, "dead")
            assert "#" in pin("good")
            assert f"dead: its storage does not answer: {place}" in hanging.result()
        assert list(asked(serving.http_port, "/ready")["late_tables"]) == ["dead"]


def test_statements_over_other_tables_are_rewritten_while_one_hangs(warehouse: Path, tmp_path: Path) -> None:
    metastore, log = FileMetastore(str(tmp_path / "metastore")), QueryLog()
    for name in ("good", "dead"):
        sync_to_trino(Table.open(str(warehouse / name)), metastore, SyncOptions(table=name))
    place = warehouse / "dead" / PROPERTIES
    tables = TrinoTables(metastore, late=LateTables(LIMIT))
    rewriter = Rewriter(tables, log=log)
    answered = answer(result(), "Content-Type: application/json")
    lines = ("X-Trino-User: a", "X-Trino-Catalog: hive", "X-Trino-Schema: default")
    with recording(answered) as trino, gateway(trino.port, rewriter, log=log, rewrite_threads=1) as served, hung(place):
        for number in range(3):
            for table in ("dead", "good"):
                exchange(served.port, post(f"SELECT {number} FROM {table} WHERE k = 7 AND day = 'b'", *lines))
    bodies = [request.body.decode() for request in trino.requests]
    assert ["$path" in body for body in bodies] == [False, True] * 3
    reasons = [one for one in reversed(log.recent()) if one["event"] == "query"]
    late = [one for one in reasons if "dead" in one["sql"]]
    assert {one["reason"] for one in late} == {"failed"}
    assert all(f"its storage does not answer: {place}" in one["detail"] for one in late)


@pytest.mark.parametrize("path", [PROPERTIES, ".hoodie/*.commit", "a/*.parquet"])
def test_a_fifo_is_refused_at_once(warehouse: Path, path: str, options: dict[str, str]) -> None:
    place = next(iter((warehouse / "dead").glob(path)))
    place.unlink()
    os.mkfifo(place)
    with running_trino(TrinoSettings(str(warehouse), options={**options, TABLE_TIMEOUT: "1000"})) as serving:
        assert f"{place}: a FIFO is where a regular file belongs" in refusal(serving.port, "dead")
        assert keys(serving.port, "good") == list(range(20))
        assert len(serving.tables.late) == 0


class Dead:
    """A storage on which each opening of one file waits until `answer` is set."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "file").write_text("x")
        self.storage = Storage(str(folder))
        self.answer = threading.Event()
        real = Storage._opened
        monkeypatch.setattr(Storage, "_opened", lambda own, path: self.answer.wait(20) and real(own, path))

    def read(self, late: LateTables) -> bytes:
        with late.working("t", self.storage.base, lambda: self.storage.read("file")):
            return self.storage.read("file")


@pytest.fixture
def dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dead]:
    made = Dead(tmp_path, monkeypatch)
    yield made
    made.answer.set()


def test_threads_that_hang_are_replaced_up_to_a_bound(dead: Dead) -> None:
    workers, late = Workers(1, "test"), [LateTables(0.05) for _ in range(6)]
    futures = [workers.submit(lambda one=one: dead.read(one)) for one in late]  # type: ignore[misc]
    for future in futures[:5]:
        with pytest.raises(LateTableError):
            future.result(20)
    assert workers.exhausted
    assert workers.lost == 4
    dead.answer.set()
    until(lambda: workers.lost == 0)
    assert workers.submit(lambda: 7).result(20) == 7
    workers.close(wait=True)
    with pytest.raises(RuntimeError):
        workers.submit(lambda: 7)


@pytest.mark.slow
def test_a_table_that_answers_again_is_tried_before_it_is_used(dead: Dead) -> None:
    late, workers = LateTables(0.25), Workers(1, "test")
    failures = [HudiError("not yet")]
    tries = []

    def probe() -> None:
        tries.append(time.monotonic())
        if failures:
            raise failures.pop()

    def read() -> bytes:
        with late.working("t", dead.storage.base, probe):
            return dead.storage.read("file")

    with pytest.raises(LateTableError, match=r"t: its storage does not answer: .*/file has not answered"):
        workers.submit(read).result(20)
    time.sleep(0.6)
    assert not tries  # as long as something hangs nothing else is begun
    with pytest.raises(LateTableError):
        read()
    dead.answer.set()
    until(lambda: not len(late))
    assert len(tries) == 2
    assert tries[1] - tries[0] >= 0.5  # with a longer pause
    assert read() == b"x"


@pytest.mark.slow
def test_a_slow_table_is_not_late(tmp_path: Path) -> None:
    late = LateTables(1.0)
    storage = Storage(str(tmp_path))

    def slow(_: int) -> str:
        with late.working("t", storage.base):
            for _ in range(6):
                time.sleep(0.2)
                storage.exists("file")
        return "done"

    assert list(each(range(2), slow, 2, "test")) == ["done"] * 2


def test_results_and_failures_come_in_order() -> None:
    failure = ValueError("odd")

    def work(number: int) -> int:
        if number % 2:
            raise failure
        return number

    assert list(each(range(5), work, 2, "test")) == [0, failure, 2, failure, 4]


def test_a_listing_names_folders_that_cannot_be_looked_into(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Storage.folders

    def folders(storage: Storage, path: str = "") -> list[str]:
        if path == "dead":
            raise HudiError("Input/output error")
        return real(storage, path)

    monkeypatch.setattr(Storage, "folders", folders)
    dead, good = Catalog(str(warehouse)).tables()
    assert (dead.name, dead.config, dead.problem) == ("dead", None, "Input/output error")
    assert good.config is not None
