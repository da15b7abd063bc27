"""Statement text for the query log, with secrets redacted.

Statements other than queries carry secrets as literals: `CREATE CATALOG … WITH ("connection-password" = …)`, `SET
SESSION`, `CALL system.execute(…)`, or whatever a server with another grammar understands. So unless a statement is
surely a query, only its leading SQL keywords and the one name that follows them are logged.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Final

from hudi_catalog.gateway.lexing import Kind, Lexeme, dotted_names, first_lexemes
from hudi_catalog.gateway.statement import Form, read_statement

_MORE: Final = "…"
_HIDDEN: Final = "'…'"

# The log truncates longer texts anyway.
_MOST: Final = 10_000

_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "("})

_KEYWORD: Final = re.compile(
    r"ADD|ALTER|ANALYZE|AUTHORIZATION|BRANCH|CALL|CATALOG|CATALOGS|COLUMN|COLUMNS|COMMENT|COMMIT|CREATE|CURRENT|"
    r"DEALLOCATE|DEFAULT|DELETE|DENY|DESCRIBE|DROP|EXECUTE|EXISTS|EXPLAIN|FOR|FROM|FUNCTION|FUNCTIONS|GRANT|GRANTS|"
    r"IF|IMMEDIATE|IN|INPUT|INSERT|INTO|MATERIALIZED|MERGE|NOT|ON|OPTION|OR|OUTPUT|PATH|PREPARE|PRIVILEGES|"
    r"PROPERTIES|REFRESH|RENAME|REPLACE|RESET|REVOKE|ROLE|ROLES|ROLLBACK|SCHEMA|SCHEMAS|SESSION|SET|SHOW|START|"
    r"STATEMENT|STATS|TABLE|TABLES|TIME|TO|TRANSACTION|TRUNCATE|UPDATE|USE|USER|VERBOSE|VIEW|WITH|WORK|ZONE"
)


def redacted(sql: str | None) -> str | None:
    r"""The text of a statement for the log.

    Args:
        sql: as the client sent it; None if it was not read.

    >>> redacted("CREATE CATALOG c USING postgresql WITH (\"connection-password\" = 'x')")
    'CREATE CATALOG c …'
    >>> redacted("INSERT INTO t SELECT a FROM u WHERE b = 'x'")
    "INSERT INTO t SELECT a FROM u WHERE b = 'x'"
    """
    if sql is None:
        return None
    lexemes, end = first_lexemes(sql, _MOST)
    real = [lexeme for lexeme in lexemes if lexeme.kind is not Kind.COMMENT]
    if not real:
        return _MORE if sql.strip() else ""
    if _is_query(real):
        return _query(sql, real, 0, end) + ("" if end >= len(sql) else f" {_MORE}")
    return _kind(real) if end < len(sql) else _other(sql, real)


def _other(sql: str, real: Sequence[Lexeme]) -> str:
    """Text for a statement that does not start with a query but may contain one."""
    statement = read_statement(sql, real)
    if statement.form is Form.QUERY:
        before = _kind([lexeme for lexeme in real if lexeme.end <= statement.start])
        return f"{before} {_query(sql, real, statement.start, statement.end)}"
    if statement.form is Form.IMMEDIATE:
        return f"EXECUTE IMMEDIATE {redacted(statement.text)}"
    return _kind(real)


def _is_query(real: Sequence[Lexeme]) -> bool:
    words = [lexeme.word for lexeme in real[:2]]
    return words[0] in _QUERIES and words != ["WITH", "SESSION"]


def _query(sql: str, real: Sequence[Lexeme], start: int, end: int) -> str:
    """A query's text; strings inside table functions, which may hold other servers' statements, are hidden."""
    parts = []
    for lexeme in _strings_of_functions(real):
        if start <= lexeme.start and lexeme.end <= end:
            parts += [sql[start : lexeme.start], _HIDDEN]
            start = lexeme.end
    return "".join([*parts, sql[start:end]])


def _strings_of_functions(real: Sequence[Lexeme]) -> Iterator[Lexeme]:
    """The strings inside each `TABLE( … )`."""
    depth = 0
    for before, lexeme in itertools.pairwise(real):
        if depth:
            depth += {"(": 1, ")": -1}.get(lexeme.word, 0)
            if lexeme.kind is Kind.STRING:
                yield lexeme
        elif before.word == "TABLE" and lexeme.word == "(":
            depth = 1


def _kind(real: Sequence[Lexeme]) -> str:
    """The leading keywords of a statement and the name after them."""
    known = list(itertools.takewhile(lambda lexeme: _KEYWORD.fullmatch(lexeme.word) is not None, real))
    if not known:
        return _MORE
    name = (
        next(dotted_names(real[len(known) :]), []) if real[len(known) :] and real[len(known)].name is not None else []
    )
    words = [lexeme.word for lexeme in known]
    if name:
        words.append(".".join(lexeme.text for lexeme in name))
    length = len(known) + max(2 * len(name) - 1, 0)
    return " ".join(words if length == len(real) else [*words, _MORE])
