"""`hudi_catalog.trino.connect`, with a client that sends nothing."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
import trino.dbapi

import hudi_catalog.trino
from hudi_catalog.gateway.options import CATALOGS
from hudi_catalog.gateway.rewrite import Rewritten
from hudi_catalog.gateway.statement import Reason
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.trino.dbapi import Connection, Cursor, SegmentCursor
from table_format.errors import OptionError


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """The statements that the client's own cursors get."""
    statements: list[tuple[str, Any]] = []

    def execute(cursor: Any, operation: str, params: Any = None) -> Any:
        statements.append((operation, params))
        return cursor

    monkeypatch.setattr(trino.dbapi.Cursor, "execute", execute)
    monkeypatch.setattr(trino.dbapi.SegmentCursor, "execute", execute)
    return statements


class Doubler:
    """A rewriter that writes everything twice."""

    class options:  # noqa: N801  # stands for an attribute
        query_length = 1_000_000

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def rewrite(self, sql: str, session: Any, *, parameters: Any = None, length_limit: Any = None) -> Rewritten:
        self.asked.append((session.catalog, session.schema, dict(session.properties), parameters, length_limit))
        return Rewritten(f"{sql} {sql}", changed=True, reason=Reason.REWRITTEN)


@pytest.fixture
def connection() -> Connection:
    return Connection(
        "localhost",
        1,
        user="u",
        catalog="hive",
        schema="db",
        session_properties={"Hive.x": "1"},
        encoding="json",
        rewriter=Doubler(),  # type: ignore[arg-type]
    )


def test_statements_are_rewritten_before_they_are_sent(connection: Connection, sent: list[Any]) -> None:
    cursor = connection.cursor()
    assert isinstance(cursor, Cursor)
    assert cursor.execute("select 1") is cursor
    assert sent == [("select 1 select 1", None)]
    assert connection.rewriter.asked == [("hive", "db", {"hive.x": "1"}, None, None)]  # type: ignore[attr-defined]


def test_parameters_are_planned_with_and_sent_as_they_are(connection: Connection, sent: list[Any]) -> None:
    connection.cursor().execute("select ?", ["it's", dt.date(2024, 1, 1), None])
    assert sent == [("select ? select ?", ["it's", dt.date(2024, 1, 1), None])]
    request = connection.rewriter.asked[0]  # type: ignore[attr-defined]
    assert request[3] == ["'it''s'", "DATE '2024-01-01'", "NULL"]
    assert request[4] == 20_000


def test_parameters_that_the_client_refuses_reach_it(connection: Connection, sent: list[Any]) -> None:
    connection.cursor().execute("select ?", [object()])
    assert sent[0][0] == "select ?"


def test_executemany_and_segments(connection: Connection, sent: list[Any]) -> None:
    cursor = connection.cursor("segment")
    assert isinstance(cursor, SegmentCursor)
    cursor.execute("select 1")
    connection.cursor().executemany("insert", [])
    assert [statement for statement, _ in sent] == ["select 1 select 1", "insert insert"]


def test_connect(tmp_path: Path, sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made = hudi_catalog.trino.connect(
        "localhost",
        1,
        user="u",
        metastore=f"file://{tmp_path}",
        options={CATALOGS: "lake", "hoodie.catalog.sync.entries.age": "5"},
    )
    assert isinstance(made, trino.dbapi.Connection)
    assert made.rewriter.options.catalogs == {"lake"}
    assert made.rewriter.tables.options.entry_age == 5
    made.cursor().execute("select 1")
    assert sent == [("select 1", None)]
    closed: list[object] = []
    monkeypatch.setattr(FileMetastore, "close", lambda own: closed.extend([own]))
    shared = hudi_catalog.trino.connect("localhost", 1, user="u", metastore=made.rewriter.tables)
    shared.close()
    assert closed == []
    made.close()
    assert closed == [made.rewriter.tables.metastore]
    with pytest.raises(OptionError, match="no such option"):
        hudi_catalog.trino.connect("localhost", 1, user="u", metastore=f"file://{tmp_path}", options={"hoodie.no": "1"})
