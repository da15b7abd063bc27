"""Parsing of a WHERE condition from SQL text.

The text is tokenised by sqlglot. AND, OR, NOT and their parentheses are parsed here, with a stack, so that thousands of
levels are fine; the single conditions between them are parsed by sqlglot and translated.
"""

from __future__ import annotations

import re
from typing import Any

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from pushdown.errors import ExpressionError, FilterSyntaxError
from pushdown.expression import And, HudiExpression, Not, Or, Unknown
from pushdown.sql.condition import in_list, translate_condition
from pushdown.sql.lists import extract_lists
from pushdown.sql.nesting import parses_too_often
from pushdown.sql.refusals import parse_error, tokenizer_error

DIALECTS = ("spark", "hive", "trino", "presto")
# sqlglot recurses into the parentheses of one condition.
_MAX_NESTING = 100
BACKSLASH_DIALECTS = frozenset({"spark", "hive"})
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_SINGLE = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def parse_sql(text: str, dialect: str = "spark") -> HudiExpression:
    """Parse a condition, as it would follow WHERE.

    Understood are comparisons of a column with a literal in either order, BETWEEN, IN, LIKE, IS [NOT] NULL, ``<=>``,
    IS [NOT] DISTINCT FROM, startswith, a bare boolean column, AND, OR and NOT. Anything else (functions, arithmetic,
    columns against columns, sub-queries) becomes `Unknown` with its text as reason.

    In the Spark and Hive dialects double quotes are strings, except where that would compare a literal with a literal:
    there ``"a b" = 1`` names a column, as it does in Trino's.

    Args:
        text: the condition.
        dialect: whose quoting and literals: spark, hive, trino or presto.

    Raises:
        FilterSyntaxError: the text is not a condition; the message shows the place.
    """
    if dialect not in DIALECTS:
        raise ExpressionError(f"there is no SQL dialect {dialect!r}; use one of {', '.join(DIALECTS)}")
    reader = Dialect.get_or_raise(dialect)
    text, lists = extract_lists(text, backslash=dialect in BACKSLASH_DIALECTS)
    try:
        tokens = reader.tokenize(text)
    except SqlglotError:
        raise FilterSyntaxError(tokenizer_error(text, dialect)) from None
    if dialect in BACKSLASH_DIALECTS:
        tokens = decode_strings(tokens, text)
    return _Conditions(text, tokens, lists, dialect, reader.parser()).read()


class _Conditions:
    """Combines conditions by the precedence of NOT, AND and OR."""

    def __init__(
        self, text: str, tokens: list[Token], lists: dict[str, tuple[Any, ...]], dialect: str, parser: Any
    ) -> None:
        self.text = text
        self.lists = lists
        self.tokens = tokens
        self.dialect = dialect
        self.parser = parser
        self.closing = self._parentheses()
        self.operands: list[HudiExpression] = []
        # NOT, an opening parenthesis, or AND / OR with how many operands it joins.
        self.operators: list[tuple[TokenType, int]] = []

    def read(self) -> HudiExpression:
        if not self.tokens:
            raise FilterSyntaxError("the filter is empty; leave it out to select everything")
        if parses_too_often(self.tokens, self.parser):
            raise FilterSyntaxError("the filter has brackets, or calls named like types, that are nested too deeply")
        position = 0
        wants_operand = True
        while position < len(self.tokens):
            kind = self.tokens[position].token_type
            if wants_operand and (kind is TokenType.NOT or self._opens_group(position)):
                self.operators.append((kind, 0))
                position += 1
            elif wants_operand:
                end = self._end_of_condition(position)
                self.operands.append(self._condition(position, end))
                wants_operand, position = False, end
            elif kind in {TokenType.AND, TokenType.OR}:
                self._operator(kind)
                wants_operand, position = True, position + 1
            elif kind is TokenType.R_PAREN:
                self._close()
                position += 1
            else:
                raise self._error(position, "AND or OR is expected here")
        if wants_operand:
            raise FilterSyntaxError(f"the filter ends where a condition is expected: …{self.text[-40:]}")
        self._reduce_above(TokenType.L_PAREN)
        return self.operands[0]

    def _error(self, position: int, message: str) -> FilterSyntaxError:
        if position >= len(self.tokens):
            return FilterSyntaxError(f"{message}, at the end of: …{self.text[-40:]}")
        token = self.tokens[position]
        before, after = self.text[max(0, token.start - 30) : token.start], self.text[token.start : token.start + 30]
        line = self.text.count("\n", 0, token.start) + 1
        column = token.start - self.text.rfind("\n", 0, token.start)
        return FilterSyntaxError(f"{message} (line {line}, column {column}): {before} >>> {after}")

    def _parentheses(self) -> dict[int, int]:
        closing: dict[int, int] = {}
        opened: list[int] = []
        for position, token in enumerate(self.tokens):
            if token.token_type is TokenType.L_PAREN:
                opened.append(position)
            elif token.token_type is TokenType.R_PAREN:
                if not opened:
                    raise self._error(position, "this parenthesis was not opened")
                closing[opened.pop()] = position
        if opened:
            raise self._error(opened[-1], "this parenthesis is not closed")
        return closing

    def _opens_group(self, position: int) -> bool:
        """Whether a parenthesis encloses conditions, not an operand as in ``(a) = 1`` or ``(a, b) IN …``."""
        if self.tokens[position].token_type is not TokenType.L_PAREN:
            return False
        after = self.closing[position] + 1
        ends = {TokenType.AND, TokenType.OR, TokenType.R_PAREN}
        return after == len(self.tokens) or self.tokens[after].token_type in ends

    def _end_of_condition(self, position: int) -> int:  # noqa: C901 - one pass over one grammar rule
        betweens = cases = 0
        start = position
        while position < len(self.tokens):
            kind = self.tokens[position].token_type
            if kind is TokenType.L_PAREN:
                position = self.closing[position]
            elif kind is TokenType.CASE:
                cases += 1
            elif kind is TokenType.END:
                cases -= 1
            elif kind is TokenType.SEMICOLON:
                raise self._error(position, "a filter is one condition, without a semicolon")
            elif cases <= 0:
                if kind is TokenType.BETWEEN:
                    betweens += 1
                elif kind is TokenType.AND and betweens:
                    betweens -= 1
                elif kind in {TokenType.AND, TokenType.OR, TokenType.R_PAREN}:
                    break
            position += 1
        if position == start:
            raise self._error(position, "a condition is expected here")
        return position

    def _operator(self, kind: TokenType) -> None:
        self._reduce_above(kind)
        if self.operators and self.operators[-1][0] is kind:
            self.operators[-1] = (kind, self.operators[-1][1] + 1)
        else:
            self.operators.append((kind, 2))

    def _close(self) -> None:
        self._reduce_above(TokenType.L_PAREN)
        self.operators.pop()

    def _reduce_above(self, kind: TokenType) -> None:
        """Apply the operators on the stack that bind more strongly than this one."""
        strength = {TokenType.L_PAREN: 0, TokenType.OR: 1, TokenType.AND: 2, TokenType.NOT: 3}
        while self.operators and strength[self.operators[-1][0]] > strength[kind]:
            operator, count = self.operators.pop()
            if operator is TokenType.NOT:
                self.operands.append(Not(self.operands.pop()))
                continue
            joined = self.operands[-count:]
            del self.operands[-count:]
            self.operands.append(And(joined) if operator is TokenType.AND else Or(joined))

    def _condition(self, start: int, end: int) -> HudiExpression:
        tokens = self.tokens[start:end]
        source = self.text[tokens[0].start : tokens[-1].end + 1]
        # A list that was removed from the text is at the end.
        values = self.lists.get(tokens[-2].text) if len(tokens) > 3 else None
        if self.dialect in BACKSLASH_DIALECTS:
            tokens = self._with_quoted_columns(tokens)
        self._check_nesting(start, end)
        try:
            trees = self.parser.parse(tokens, self.text)
        except SqlglotError as error:
            details: Any = getattr(error, "errors", None) or [{}]
            position, reason = parse_error(details[0], tokens, self.text, self.dialect)
            raise self._error(start + position, reason) from None
        except RecursionError:
            raise self._too_deep(start) from None
        tree = trees[0] if trees and len(trees) == 1 else None
        if not isinstance(tree, exp.Condition):
            raise self._error(start, "this is not a condition")
        if values is not None:
            return in_list(tree, values, source, self.dialect)
        if any(mark in source for mark in self.lists):
            return Unknown(f"{tokens[0].text} … IN (…) is not understood")
        try:
            return translate_condition(tree, source, self.dialect)
        except RecursionError:  # a sum of thousands
            raise self._too_deep(start) from None

    def _too_deep(self, start: int) -> FilterSyntaxError:
        return self._error(start, "this condition is nested too deeply")

    def _check_nesting(self, start: int, end: int) -> None:
        depth = 0
        for token in self.tokens[start:end]:
            if token.token_type is TokenType.L_PAREN:
                depth += 1
            elif token.token_type is TokenType.R_PAREN:
                depth -= 1
            if depth > _MAX_NESTING:
                raise self._too_deep(start)

    def _with_quoted_columns(self, tokens: list[Token]) -> list[Token]:
        """Read a double-quoted string as a column where the condition has no other column."""

        def quoted(index: int) -> bool:
            token = tokens[index]
            return token.token_type is TokenType.STRING and self.text[token.start] == '"'

        if not (quoted(0) or quoted(-1)) or len(tokens) == 1:
            return tokens
        for token, following in zip(tokens, [*tokens[1:], None], strict=True):
            called = following is not None and following.token_type is TokenType.L_PAREN
            if token.token_type in {TokenType.VAR, TokenType.IDENTIFIER} and not called:
                return tokens
        literal_first = tokens[0].token_type in {TokenType.STRING, TokenType.NUMBER, TokenType.DASH}
        if quoted(0):
            columns = {0}
            while len(tokens) > max(columns) + 2 and tokens[max(columns) + 1].token_type is TokenType.DOT:
                columns.add(max(columns) + 2)
        elif literal_first:
            columns = {len(tokens) - 1}
        else:
            return tokens
        return [_as_identifier(token) if i in columns else token for i, token in enumerate(tokens)]


def _as_identifier(token: Token) -> Token:
    if token.token_type is not TokenType.STRING:
        return token
    return Token(TokenType.IDENTIFIER, token.text, token.line, token.col, token.start, token.end)


def unescaped(inner: str) -> str:
    r"""Decode the text between quotes, as Spark does.

    ``\%`` and ``\_`` stay, for LIKE; before any other character without a meaning the backslash goes.
    """
    if "\\" not in inner:
        return inner
    decoded = _ESCAPE.sub(_character, inner)
    # Characters beyond 16 bits may be written as two, as in Java.
    return _SURROGATES.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), decoded)


def _character(match: re.Match[str]) -> str:
    short, wide, octal, single = match.groups()
    if single is not None:
        return _SINGLE.get(single, single)
    code = int(octal, 8) if octal else int(short or wide, 16)
    return chr(code) if code <= 0x10FFFF else "\ufffd"


def decode_strings(tokens: list[Token], text: str) -> list[Token]:
    """Decode the string tokens, and join adjacent ones: a doubled quote is a quote, as in Spark 4."""
    out: list[Token] = []
    for token in tokens:
        if token.token_type is not TokenType.STRING or text[token.start] not in "'\"":
            out.append(token)
            continue
        value = unescaped(text[token.start + 1 : token.end])
        last = out[-1] if out else None
        touches = (
            last is not None
            and last.token_type is TokenType.STRING
            and token.start == last.end + 1
            and text[token.start] == text[last.end]
        )
        if last is not None and touches:
            value = last.text + text[token.start] + value
            out[-1] = Token(TokenType.STRING, value, last.line, last.col, last.start, token.end)
        else:
            out.append(Token(TokenType.STRING, value, token.line, token.col, token.start, token.end))
    return out
