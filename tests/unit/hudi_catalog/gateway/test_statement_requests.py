"""Which statements the rewriter gets to see, with which session, and what reaches Trino."""

import dataclasses
import io
import json
import subprocess
import sys
import threading
import time
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus

import pyarrow as pa
import pytest

from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.query_log import QueryLog
from tests.support.gateway_hosting import Request, Upper, answer, exchange, gateway, get, post, recording, result
from tests.support.waiting import until

OK = answer(result(), "Content-Type: application/json")


def sent(sql: str | bytes, *lines: str, rewriter: Any = None, path: str = "/v1/statement", **more: Any) -> Request:
    """What Trino gets for a statement."""
    with recording(OK) as trino, gateway(trino.port, rewriter, **more) as hosted:
        assert exchange(hosted.port, post(sql, *lines, path=path)).startswith(b"HTTP/1.1 200 ")
    (request,) = trino.requests
    return request


def test_a_statement_is_rewritten_and_nothing_else_of_the_request() -> None:
    lines = ["X-Trino-User: a", "Content-Type: text/plain; charset=UTF-8", "X-Trino-Session: a=1"]
    rewriter = Upper()
    request = sent("select 'é'", *lines, rewriter=rewriter)
    assert request.body.decode() == "SELECT 'É'"
    assert request.one("content-length") == str(len("SELECT 'É'".encode()))
    names = [(name.decode(), value.decode()) for name, value in request.headers]
    assert [f"{name}: {value}" for name, value in names if name not in {"Host", "Content-Length"}] == lines
    assert [asked[0] for asked in rewriter.asked] == ["select 'é'"]


def test_the_session_comes_from_the_headers() -> None:
    rewriter = Upper()
    sent(
        "select 1",
        "X-Trino-User: alice",
        "x-trino-catalog:  hive ",
        "X-Trino-Schema: Web Logs",
        "X-Trino-Session: Hive.Some=1%2C2 , query_max_run_time=5m",
        "X-Trino-Session: x=a+b",
        rewriter=rewriter,
    )
    session = rewriter.asked[0][1]
    assert (session.catalog, session.schema) == ("hive", "Web Logs")
    assert session.properties == {"hive.some": "1,2", "query_max_run_time": "5m", "x": "a b"}


def test_a_session_without_headers_has_no_names() -> None:
    rewriter = Upper()
    sent("select 1", rewriter=rewriter)
    session = rewriter.asked[0][1]
    assert (session.catalog, session.schema, session.properties) == (None, None, {})


@pytest.mark.parametrize("path", ["/v1/statement", "/v1/statement/", "/v1/statement?x=1", "/v1/%73tatement"])
def test_the_path_of_statements(path: str) -> None:
    assert sent("select 1", rewriter=Upper(), path=path).body == b"SELECT 1"


@pytest.mark.parametrize(
    ("sql", "lines", "path"),
    [
        ("select 1", [], "/v1/statement/x"),
        ("select 1", [], "/v2/statement"),
        ("select 1", ["X-Presto-User: a"], "/v1/statement"),
        ("select 1", ["Content-Encoding: gzip"], "/v1/statement"),
        ("select 1", ["Content-Type: text/plain; charset=utf-16"], "/v1/statement"),
        (b"select '\xe9'", [], "/v1/statement"),
    ],
)
def test_what_is_not_surely_understood_passes_unchanged(sql: str | bytes, lines: list[str], path: str) -> None:
    rewriter = Upper()
    request = sent(sql, *lines, rewriter=rewriter, path=path)
    assert request.body == (sql if isinstance(sql, bytes) else sql.encode())
    assert rewriter.asked == []


def test_long_statements_pass_unread() -> None:
    rewriter = Upper()
    sql = "select '" + "x" * 5000 + "'"
    assert sent(sql, rewriter=rewriter, statement_size=5000).body == sql.encode()
    assert rewriter.asked == []
    assert sent(sql, rewriter=rewriter, statement_size=5009).body == sql.upper().encode()


def test_a_long_statement_of_unknown_length_passes_unread() -> None:
    sql = b"select '" + b"x" * 100_000 + b"'"
    head = b"POST /v1/statement HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(sql[at : at + 999]), sql[at : at + 999]) for at in range(0, len(sql), 999))
    rewriter = Upper()
    with recording(OK) as trino, gateway(trino.port, rewriter, statement_size=20_000) as hosted:
        assert b" 200 " in exchange(hosted.port, head + pieces + b"0\r\n\r\n")
    assert trino.requests[0].body == sql
    assert rewriter.asked == []


def fails(_: str) -> str:
    raise RuntimeError("no plan")


def test_a_rewriter_that_fails_does_not_fail_the_statement() -> None:
    log = QueryLog()
    assert sent("select 1", rewriter=Upper(work=fails), log=log).body == b"select 1"
    (record,) = log.recent()
    assert (record["outcome"], record["reason"]) == ("unchanged", "failed")
    assert record["detail"] == "RuntimeError: no plan"


def test_a_slow_rewriter_does_not_hold_up_the_statement_for_long() -> None:
    done = threading.Event()

    def slow(sql: str) -> str:
        done.wait(20)
        return sql.upper()

    metrics = Metrics()
    rewriter = Upper(work=slow)
    settings = {"rewrite_timeout": 0.2, "rewrite_threads": 1, "log": QueryLog(None, metrics)}
    with recording(OK) as trino, gateway(trino.port, rewriter, **settings) as hosted:
        for _ in range(3):
            exchange(hosted.port, post("select 1"))
        assert [request.body for request in trino.requests] == [b"select 1"] * 3
        # The one thread is still at the first statement: the others never came to it, and were not to wait for it.
        assert len(rewriter.asked) == 1
        for reason, count in (("timeout", 1), ("busy", 2)):
            counted = f'queries_total{{outcome="unchanged",reason="{reason}",service="gateway"}} {count}.0'
            assert counted.encode() in metrics.text()
        done.set()

        def rewritten() -> bool:
            exchange(hosted.port, post("select 2"))
            return trino.requests[-1].body == b"SELECT 2"

        until(rewritten)  # once the thread has told that it is free


def test_other_requests_go_on_while_statements_are_rewritten() -> None:
    go = threading.Event()

    def slow(sql: str) -> str:
        go.wait(60)  # longer than `exchange` waits for an answer
        return sql

    with recording(OK) as trino, gateway(trino.port, Upper(work=slow)) as hosted:
        threads = [threading.Thread(target=exchange, args=(hosted.port, post("select 1"))) for _ in range(20)]
        for thread in threads:
            thread.start()
        exchange(hosted.port, b"GET /v1/info HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        go.set()
        for thread in threads:
            thread.join(10)
    assert len(trino.requests) == 21


def prepared(request: Request) -> dict[str, str]:
    items = [item.split("=") for line in request.all("x-trino-prepared-statement") for item in line.split(",")]
    return {unquote_plus(name.strip()): unquote_plus(value.strip()) for name, value in items}


def upper_selects(sql: str) -> str:
    return sql.upper() if sql.startswith("select") else sql


@pytest.mark.parametrize(
    ("execute", "parameters"),
    [
        ("EXECUTE p", ()),
        ("execute p", ()),
        (" -- a comment\n EXECUTE /* two */ p ", ()),
        ("EXECUTE p USING 1", ("1",)),
        ("EXECUTE p USING 'a,''b', -1.5e3, DATE '2020-01-01'", ("'a,''b'", "-1.5e3", "DATE '2020-01-01'")),
        ('EXECUTE "p" USING ROW(1, 2), ARRAY[1,2] , "x,y"', ("ROW(1, 2)", "ARRAY[1,2]", '"x,y"')),
    ],
)
def test_what_execute_runs_is_rewritten_in_its_header(execute: str, parameters: tuple[str, ...]) -> None:
    rewriter = Upper(work=upper_selects)
    line = f"other={quote_plus('select 2, 3')}, p={quote_plus('select a, b from t where c = ? -- é %')}"
    request = sent(execute, f"X-Trino-Prepared-Statement: {line}", "X-Trino-Catalog: hive", rewriter=rewriter)
    assert request.body == execute.encode()
    assert prepared(request) == {"other": "select 2, 3", "p": "SELECT A, B FROM T WHERE C = ? -- É %"}
    ((asked, session, values, limit),) = rewriter.asked
    assert asked == "select a, b from t where c = ? -- é %"
    assert session.catalog == "hive"
    assert tuple(values or ()) == parameters
    assert limit is not None
    assert 60_000 < limit < 65_536


@pytest.mark.parametrize(
    ("execute", "lines"),
    [
        ("EXECUTE P", ["p=select+1"]),  # names are told apart by case
        ('EXECUTE "p', ["p=select+1"]),
        ("EXECUTE q", ["p=select+1"]),
        ("EXECUTE p", []),
        ("EXECUTE p", ["p=select+1,p=select+2"]),
        ("EXECUTE p", ["p=select+1", "p=select+2"]),
        ("EXECUTE p", ["p=select=1"]),  # Trino refuses it
        ("EXECUTE p", ["p=%24zstd%3A!!!"]),
        ("EXECUTE p", ["p=%24zstd%3AAAAA"]),
        ("EXECUTE p", ["p"]),
        ("EXECUTE p", ["p=EXECUTE+p"]),
    ],
)
def test_an_execute_in_doubt_passes_unchanged(execute: str, lines: list[str]) -> None:
    rewriter = Upper(work=upper_selects)
    headers = [f"X-Trino-Prepared-Statement: {line}" for line in lines]
    request = sent(execute, *headers, rewriter=rewriter)
    assert request.body == execute.encode()
    assert request.all("x-trino-prepared-statement") == lines


def test_several_lines_of_prepared_statements_keep_their_places() -> None:
    lines = ["a=select+1", "b=select+2,p=select+3", "c=select+4"]
    headers = [f"X-Trino-Prepared-Statement: {line}" for line in lines]
    request = sent("EXECUTE p", *headers, rewriter=Upper(work=upper_selects))
    assert request.all("x-trino-prepared-statement") == ["a=select+1", "b=select+2,p=SELECT%203", "c=select+4"]


def zstd(text: str) -> str:
    from base64 import urlsafe_b64encode

    packed = pa.Codec("zstd").compress(text.encode(), asbytes=True)
    return quote("$zstd:" + urlsafe_b64encode(packed).decode())


def test_a_compressed_prepared_statement_stays_compressed() -> None:
    text = "select " + ", ".join(f"'value {number}'" for number in range(3000))
    rewriter = Upper(work=upper_selects)
    request = sent("EXECUTE p", f"X-Trino-Prepared-Statement: p={zstd(text)}", rewriter=rewriter)
    assert rewriter.asked[0][0] == text
    value = prepared(request)["p"]
    assert value.startswith("$zstd:")
    packed = urlsafe_b64decode(value.removeprefix("$zstd:"))
    assert pa.CompressedInputStream(io.BytesIO(packed), "zstd").read().decode() == text.upper()


def test_a_header_that_would_grow_too_large_passes_unchanged() -> None:
    log = QueryLog()
    rewriter = Upper(work=lambda sql: sql + "é" * 500)
    line = "X-Trino-Prepared-Statement: other=select+1,p=select+1"
    request = sent("EXECUTE p", line, rewriter=rewriter, prepared_header_size=1000, log=log)
    assert rewriter.asked[0][3] == 1000 - len("other=select+1,p=")
    assert request.one("x-trino-prepared-statement") == "other=select+1,p=select+1"
    assert [record["reason"] for record in log.recent()] == ["header size"]


def test_execute_immediate_is_the_rewriters() -> None:
    rewriter = Upper()
    assert (
        sent("EXECUTE IMMEDIATE 'select ?' USING 1", rewriter=rewriter).body == b"EXECUTE IMMEDIATE 'SELECT ?' USING 1"
    )
    assert rewriter.asked[0][2] is None


def test_what_the_rewriter_was_not_asked_about_is_logged_with_the_id_of_its_query() -> None:
    log = QueryLog()
    sent("select 1", rewriter=Upper(), log=log)  # the rewriter logs it
    sent("execute p", rewriter=Upper(), log=log)
    sent(b"select '\xe9'", rewriter=Upper(), log=log)
    second, first = log.recent()
    assert (first["sql"], first["outcome"], first["reason"]) == ("EXECUTE p", "unchanged", "no prepared statement")
    assert (second["sql"], second["outcome"], second["reason"]) == (None, "unchanged", "not read")
    assert first["query_id"] == second["query_id"] == "20261121_000000_00001_aaaaa"


def test_the_log_has_no_literal_of_statements_that_are_no_queries() -> None:
    log = QueryLog()

    def slow(sql: str) -> str:
        time.sleep(0.3)
        return sql

    sent("execute p using 'hunter2'", rewriter=Upper(), log=log)
    sent("call system.execute('hunter2')", rewriter=Upper(work=slow), rewrite_timeout=0.05, log=log)
    assert [record["sql"] for record in log.recent()] == ["CALL system.execute …", "EXECUTE p …"]
    assert log.recent()[0]["reason"] == "timeout"
    assert "hunter2" not in str(log.recent())


@pytest.mark.parametrize("beginning", ["/**/" * 20_000, "/*" * 20_000, " " * 50_000, "-- \n" * 20_000, "--" * 20_000])
def test_a_long_beginning_is_read_in_one_go(beginning: str) -> None:
    # a reader that begins again at each comment takes longer than the client waits
    assert sent(f"{beginning}select 1", rewriter=Upper()).body == f"{beginning}SELECT 1".encode()


HANGS = """
import asyncio, threading
from hudi_catalog.gateway.options import ProxySettings
from hudi_catalog.gateway.statement_requests import StatementHandler
from multidict import CIMultiDict

class Hanging:
    def rewrite(self, *arguments, **more):
        threading.Event().wait()

async def main():
    passed = await StatementHandler(Hanging(), ProxySettings(rewrite_timeout=0.1)).for_trino(b"select 1", CIMultiDict())
    print(passed.unplanned, passed.body.decode())

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_rewriter_that_hangs_does_not_hold_up_the_end_of_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "timeout select 1\n"


@dataclass
class Telling(Upper):
    """A rewriter that has more to say than a statement."""

    more: Mapping[str, Any] = field(default_factory=dict)

    def rewrite(self, sql: str, session: Any, **more: Any) -> Any:
        return dataclasses.replace(super().rewrite(sql, session, **more), **self.more)


def test_conditions_not_understood_are_headers_of_the_response() -> None:
    texts = ("f(x) = 'é%' is not understood", "g(x)\r\nX-Other: y")
    with recording(OK) as trino, gateway(trino.port, Telling(more={"not_understood": texts})) as hosted:
        head = exchange(hosted.port, post("select 1")).partition(b"\r\n\r\n")[0].decode().split("\r\n")
        later = exchange(hosted.port, get("/v1/statement/executing/20261121_000000_00001_aaaaa/y0123456789abcdef/1"))
    lines = [line.partition(": ")[2] for line in head if line.startswith("X-Hudi-Catalog-Not-Understood")]
    assert lines == ["f(x) = '%C3%A9%25' is not understood", "g(x)%0D%0AX-Other: y"]
    assert b"X-Hudi-Catalog" not in later


@pytest.mark.parametrize("prepared", [False, True])
def test_a_refused_statement_is_an_error_of_trinos_protocol(prepared: bool) -> None:
    rewriter = Telling(more={"refusal": "DROP TABLE t: no"})
    lines = [f"X-Trino-Prepared-Statement: p={quote_plus('drop table t')}"] if prepared else []
    sql = "EXECUTE p" if prepared else "drop table t"
    with recording(OK) as trino, gateway(trino.port, rewriter) as hosted:
        head, _, body = exchange(hosted.port, post(sql, *lines)).partition(b"\r\n\r\n")
    assert not trino.requests
    assert head.startswith(b"HTTP/1.1 200 ")
    reply = json.loads(body)
    assert (reply["error"]["message"], reply["error"]["errorName"]) == ("DROP TABLE t: no", "PERMISSION_DENIED")
    assert "nextUri" not in reply
