"""One bounded JSON line for each planned scan, whatever engines send and disks do."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catalog.planner import Plan
from hudi_catalog.server import query_log
from hudi_catalog.server.query_log import QueryLog, shortened
from pushdown import Op, Predicate
from pushdown.expression import Or
from tests.support.waiting import until
from tests.unit.conftest import GoldenTable


@pytest.fixture(scope="module")
def plan(golden: Callable[[str], GoldenTable]) -> Plan:
    return golden("v6_0150__bkt_hive").open().scan("part = 'eu' AND coalesce(l, 1) > 3").plan()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    text = stream.getvalue()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


class Counted:
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def planned(self, service: str, plan: Plan, seconds: float) -> None:
        self.calls.append((service, len(plan), seconds))

    def query(self, service: str, outcome: str, reason: str) -> None:
        self.calls.append((service, outcome, reason))


def test_a_line_tells_what_was_planned(plan: Plan) -> None:
    stream, counted = io.StringIO(), Counted()
    log = QueryLog(stream, counted)
    log.planned("trino", "shop.orders", plan, received={"part": ["= 'eu'"]}, seconds=0.0125, query_id="q1")
    (line,) = lines(stream)
    assert line["service"] == "trino"
    assert line["event"] == "planned"
    assert line["table"] == "shop.orders"
    assert line["instant"] == plan.snapshot.instant
    assert line["received"] == {"part": ["= 'eu'"]}
    assert line["expression"] == "part = 'eu' AND coalesce(l, 1) > 3"
    assert line["unknown"] == ["coalesce(l, 1) > 3 is not understood"]
    assert line["ms"] == 12.5
    assert line["query_id"] == "q1"
    assert (line["files_in"], line["files_out"]) == (plan.files_total, len(plan))
    assert (line["bytes_in"], line["bytes_out"]) == (plan.bytes_total, plan.bytes_kept)
    assert 0 < line["files_out"] < line["files_in"]
    stages = [(s["name"], s["in"], s["out"], s["pruned"], s["reason"]) for s in line["stages"]]
    assert stages == [(s.name, s.files_in, s.files_out, s.pruned, s.reason) for s in plan.stages]
    assert counted.calls == [("trino", len(plan), 0.0125)]
    assert log.recent() == [line]


def test_queries_and_events_have_lines_too() -> None:
    stream, counted = io.StringIO(), Counted()
    log = QueryLog(stream, counted)
    log.query("gateway", outcome="unchanged", reason="not parsed", sql="SELEC 1\nFROM \u2028 x")
    log.event("trino", "refused", error="forged split")
    first, second = lines(stream)
    assert (first["event"], first["outcome"], first["reason"]) == ("query", "unchanged", "not parsed")
    assert first["sql"] == "SELEC 1\nFROM \u2028 x"
    assert (second["event"], second["error"]) == ("refused", "forged split")
    assert counted.calls == [("gateway", "unchanged", "not parsed")]
    assert [record["event"] for record in log.recent()] == ["refused", "query"]


@pytest.mark.parametrize(
    "received",
    [
        "x" * 10_000_000,
        b"\xff" * 10_000_000,
        list(range(1_000_000)),
        {f"c{i}": "y" * 5_000 for i in range(1_000)},
        [[["z" * 4_000] * 20] * 20] * 20,
        "\ud800 alone",
        float("nan"),
        1 << 100_000,
        {1: object(), None: {1, 2}},
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_line_is_bounded_json_whatever_was_received(plan: Plan, received: Any) -> None:
    stream = io.StringIO()
    log = QueryLog(stream)
    log.planned("trino", "t", plan, received=received)
    (line,) = lines(stream)
    assert log.lost == 0
    assert line["files_out"] == len(plan)
    assert len(stream.getvalue().encode()) <= 32_001


def test_nesting_is_cut() -> None:
    nested: Any = 1
    for _ in range(10_000):
        nested = [nested]
    assert json.dumps(shortened(nested), ensure_ascii=False) == '[[[[[[[["…"]]]]]]]]'


@pytest.mark.slow
def test_a_wide_expression_is_shortened(plan: Plan) -> None:
    wide = Or([Predicate(Op.EQ, "l", (i,)) for i in range(100_000)])
    stream = io.StringIO()
    QueryLog(stream).planned("trino", "t", plan, expression=wide)
    text = lines(stream)[0]["expression"]
    assert text.startswith("l = 0 OR l = 1 OR ")
    assert text.endswith("OR … 99,900 more")


def test_repr_of_a_filter_stops() -> None:
    long = Or([Predicate(Op.EQ, "s", ("x" * 3_000,)) for _ in range(50)])
    assert len(repr(long)) < 15_000
    assert repr(long).endswith("…")
    assert len(long.to_sql()) > 150_000


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_fails_no_query(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    log = QueryLog(Broken())
    log.planned("trino", "t", plan)
    log.query("gateway", outcome="rewritten", reason="pruned")
    assert log.lost == 2
    assert len(log.recent()) == 2
    assert capsys.readouterr().err.count("cannot be written") == 1


def test_a_log_that_nobody_reads_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(query_log, "_ROOM", 100_000)
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as read, os.fdopen(writer, "w") as stream:
        log = QueryLog(stream)
        done = threading.Event()

        def fill() -> None:
            for number in range(100):
                log.query("gateway", outcome="x", reason="y", sql=f"{number:03d}" + "z" * 3_000)
            done.set()

        threading.Thread(target=fill, daemon=True).start()
        assert done.wait(10)
        assert log.recent()[0]["sql"].startswith("099")
        assert 0 < log.lost < 80
        assert capsys.readouterr().err.count("cannot be written: nobody reads it") == 1
        texts = [json.loads(read.readline())["sql"][:3] for _ in range(100 - log.lost)]
        assert texts == [f"{number:03d}" for number in range(len(texts))]
        until(lambda: log._lines._written == len(texts))
        log.event("gateway", "read again")
        assert json.loads(read.readline())["event"] == "read again"
        log.close()


def test_the_log_on_standard_output(tmp_path: Path) -> None:
    program = (
        "from hudi_catalog.server.query_log import QueryLog\n"
        "print('first', flush=True); log = QueryLog('-'); log.event('trino', 'second'); log.close(); print('third')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert [text[:5] for text in done.stdout.splitlines()] == ["first", '{"tim', "third"]


def test_a_failing_counter_fails_no_query(plan: Plan) -> None:
    class Failing(Counted):
        def planned(self, service: str, plan: Plan, seconds: float) -> None:
            raise RuntimeError("no")

    log = QueryLog(io.StringIO(), Failing())
    log.planned("trino", "t", plan)
    assert log.lost == 1


def test_a_renamed_file_is_left_for_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    log = QueryLog(str(path))
    log.event("trino", "one")
    os.rename(path, tmp_path / "queries.1")
    log.event("trino", "two")
    log.reopen()
    log.event("trino", "three")
    log.close()
    log.event("trino", "four")

    def events(name: str) -> list[str]:
        return [json.loads(line)["event"] for line in (tmp_path / name).read_text().splitlines()]

    assert events("queries.1") == ["one", "two"]
    assert events("queries.jsonl") == ["three"]
    assert log.recent()[0]["event"] == "four"


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "queries.jsonl"
    log = QueryLog(str(path), recent=10)

    def work(number: int) -> None:
        for i in range(200):
            log.event("trino", f"{number}-{i}", text="x" * 2_000)
            if i == 100:
                log.reopen()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert len(events) == len(set(events)) == 1_600
    assert log.lost == 0
    assert len(log.recent()) == 10
