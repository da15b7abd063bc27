"""Statements of Trino's SQL: position of the query, what an EXECUTE runs, the session that resolves names."""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hudi_catalog.gateway.lexing import Kind, Lexeme, lexemes_of


class Reason(enum.StrEnum):
    """Outcome of rewriting a statement; each value is counted in the metrics, so there are few."""

    REWRITTEN = "rewritten"
    NO_TABLE = "no Hudi table"
    NOT_A_QUERY = "not a query"
    NOT_PARSED = "not parsed"
    HIDDEN_COLUMN = "hidden column"
    NOT_ATTRIBUTED = "not attributed"
    KEEPS_MOST = "keeps most files"
    TOO_LONG = "too long"
    ACCESS_RULES = "access rules"
    LISTING = "listing"
    REFUSED = "refused"
    FAILED = "failed"


class NotRewrittenError(Exception):
    """The statement is forwarded unchanged.

    Attributes:
        reason: for metrics.
        detail: for the log.
    """

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class SessionNames:
    """The part of a Trino session that decides what a statement means.

    The time zone is not part of it: what depends on it is not used for planning.

    Attributes:
        catalog: default catalog of table names; None if the client set none.
        schema: default schema of table names; None if the client set none.
        properties: session properties by lower-case name, such as `hive.domain_compaction_threshold`.
    """

    catalog: str | None = None
    schema: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


_BEGINS_QUERY = frozenset({"SELECT", "WITH", "("})

# Forms of EXPLAIN that show the query's plan; the others describe the tables it names.
_SHOWN_PLANS = frozenset({"LOGICAL", "DISTRIBUTED", "TEXT", "GRAPHVIZ", "JSON", "TYPE", "FORMAT", ",", "(", ")"})


class Form(enum.Enum):
    """Kinds of statements."""

    QUERY = "query"
    EXECUTE = "execute"
    IMMEDIATE = "immediate"
    OTHER = "other"


@dataclass(frozen=True)
class Statement:
    """A statement as far as rewriting needs to know it.

    Attributes:
        form: its kind; `OTHER` is not rewritten.
        start: start of the query, or of the string of EXECUTE IMMEDIATE.
        end: the position after it.
        text: what that string says.
        name: of the prepared statement that EXECUTE runs, case-sensitive as in Trino.
        parameters: texts of the values after USING.
    """

    form: Form
    start: int = 0
    end: int = 0
    text: str = ""
    name: str = ""
    parameters: tuple[str, ...] = ()


_OTHER = Statement(Form.OTHER)


def read_statement(sql: str, lexemes: Sequence[Lexeme]) -> Statement:
    """Find the query in a statement: itself, or that of EXPLAIN, INSERT INTO or CREATE TABLE AS.

    Queries of CREATE VIEW and PREPARE are not rewritten, since their text is stored for later.
    """
    real = [lexeme for lexeme in lexemes if lexeme.kind is not Kind.COMMENT]
    position = _after_explain(real)
    words = [lexeme.word for lexeme in real[position : position + 2]]
    if words[:1] == ["EXECUTE"]:
        return _execute(sql, real) if position == 0 else _OTHER
    start, end = position, len(real)
    if words == ["INSERT", "INTO"]:
        start = _after_target(real, position + 2)
    elif words[:1] == ["CREATE"]:
        start, end = _created(real, position)
    if start >= end or real[start].word not in _BEGINS_QUERY or _has_functions(real[start:end]):
        return _OTHER
    return Statement(Form.QUERY, real[start].start, real[end - 1].end)


def prepared_call(sql: str) -> tuple[str, tuple[str, ...]] | None:
    """Name and parameter texts of an EXECUTE of a prepared statement; None for other statements.

    >>> prepared_call("EXECUTE monthly USING 3, DATE '2024-01-01'")
    ('monthly', ('3', "DATE '2024-01-01'"))
    """
    lexemes = lexemes_of(sql)
    statement = _OTHER if lexemes is None else read_statement(sql, lexemes)
    return (statement.name, statement.parameters) if statement.form is Form.EXECUTE else None


def _has_functions(query: Sequence[Lexeme]) -> bool:
    """Whether a query defines inline functions or session properties, which change what names mean."""
    pairs = itertools.pairwise(query)
    return any(first.word == "WITH" and second.word in {"FUNCTION", "SESSION"} for first, second in pairs)


def _after_explain(real: Sequence[Lexeme]) -> int:
    """Where the explained statement begins; the end if the explanation is not rewritten."""
    if not real or real[0].word != "EXPLAIN":
        return 0
    position = 1
    while position < len(real) and real[position].word in {"ANALYZE", "VERBOSE"}:
        position += 1
    if position + 1 < len(real) and real[position].word == "(" and real[position + 1].word in {"TYPE", "FORMAT"}:
        end = _closing(real, position)
        if any(lexeme.word not in _SHOWN_PLANS for lexeme in real[position:end]):
            return len(real)
        position = end
    return position


def _closing(real: Sequence[Lexeme], position: int) -> int:
    """The position after the parenthesis that closes the one at a position."""
    depth = 0
    for index in range(position, len(real)):
        depth += {"(": 1, ")": -1}.get(real[index].word, 0)
        if depth == 0:
            return index + 1
    return len(real)


def _after_target(real: Sequence[Lexeme], position: int) -> int:
    """The position after the name and columns of the table that is inserted into."""
    position += 1
    while position + 1 < len(real) and real[position].word == ".":
        position += 2
    opens = position + 1 < len(real) and real[position].word == "("
    if opens and real[position + 1].word not in _BEGINS_QUERY | {"VALUES", "TABLE"}:
        return _closing(real, position)
    return position


def _created(real: Sequence[Lexeme], position: int) -> tuple[int, int]:
    """Start and end of the query of CREATE TABLE AS; empty for other CREATE statements."""
    nothing = len(real), len(real)
    words = [lexeme.word for lexeme in real[position : position + 4]]
    if words[1:2] != ["TABLE"] and words[1:] != ["OR", "REPLACE", "TABLE"]:
        return nothing
    depth = 0
    for index in range(position, len(real)):
        depth += {"(": 1, ")": -1}.get(real[index].word, 0)
        if depth == 0 and real[index].word == "AS":
            tail = [lexeme.word for lexeme in real[-3:]]
            drop = 3 if tail == ["WITH", "NO", "DATA"] else 2 if tail[1:] == ["WITH", "DATA"] else 0
            return index + 1, len(real) - drop
    return nothing


def _execute(sql: str, real: Sequence[Lexeme]) -> Statement:
    if len(real) < 2:
        return _OTHER
    immediate = real[1].word == "IMMEDIATE" and len(real) > 2 and real[2].kind is Kind.STRING
    if immediate:
        return _immediate(sql, real)
    parameters = _parameters(sql, real, 2)
    if parameters is None or real[1].name is None:
        return _OTHER
    return Statement(Form.EXECUTE, name=real[1].spelled, parameters=parameters)


def _immediate(sql: str, real: Sequence[Lexeme]) -> Statement:
    target, last, escape = real[2], 2, "\\"
    if len(real) > 4 and real[3].word == "UESCAPE" and real[4].kind is Kind.STRING:
        last, escape = 4, real[4].text[1:-1].replace("''", "'")
    text = _text_of(target.text, escape)
    parameters = _parameters(sql, real, last + 1)
    if text is None or parameters is None:
        return _OTHER
    return Statement(Form.IMMEDIATE, target.start, real[last].end, text, parameters=parameters)


def _text_of(literal: str, escape: str) -> str | None:
    """What a string literal says; None of one in which Trino reads no text."""
    prefix, quote, rest = literal.partition("'")
    text = rest[:-1].replace("''", "'")
    if not quote or not prefix:
        return text if quote else None
    if prefix.upper() != "U&" or len(escape) != 1:
        return None
    mark = re.escape(escape)
    escapes = re.compile(rf"{mark}(?:(?P<mark>{mark})|(?P<four>[0-9A-Fa-f]{{4}})|\+(?P<six>[0-9A-Fa-f]{{6}})|)")

    def character(match: re.Match[str]) -> str:
        return match["mark"] or chr(int(match["four"] or match["six"] or "", 16))

    try:
        text = escapes.sub(character, text)
        text.encode()
    except ValueError:  # half an escape, half a pair, or no character
        return None
    return text


def _parameters(sql: str, real: Sequence[Lexeme], position: int) -> tuple[str, ...] | None:
    """The values after USING; None if anything else follows."""
    if position == len(real):
        return ()
    if real[position].word != "USING" or position + 1 == len(real):
        return None
    values: list[str] = []
    depth = 0
    start = real[position + 1].start
    for lexeme in real[position + 1 :]:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(lexeme.word, 0)
        if lexeme.word == "," and depth == 0:
            values.append(sql[start : lexeme.start].strip())
            start = lexeme.end
    values.append(sql[start : real[-1].end].strip())
    return tuple(values) if all(values) and depth == 0 else None
