"""Texts that Hive truncates or strips when it reads them, and LIKE."""

import itertools
import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pushdown import Not, Unknown
from pushdown.translators import from_hive_tree, to_arrow_expression
from tests.unit.pushdown.translators.hive_trees import COMPARE, HOLDS, call, column, sql, value


def limited(text: str, kind: str, length: int) -> str:
    """A stored text as Hive reads it."""
    cut = text[:length]
    return cut.rstrip(" ") if kind == "char" else cut


@pytest.mark.parametrize("kind", ["char", "varchar"])
@pytest.mark.parametrize("operator", COMPARE)
def test_texts_of_limited_length_lose_no_row(kind, operator):
    """Stored texts of all kinds against literals, and what Hive would say of each."""
    stored = ["".join(letters) for size in range(5) for letters in itertools.product("\t ab", repeat=size)]
    table = pa.table({"a": stored})
    narrowed = 0
    literals = [text for text in stored if len(text) <= 3]
    for literal in random.Random(1).sample(literals, 40):
        padded = literal.ljust(3) if kind == "char" else literal
        node = call(COMPARE[operator], column("a", f"{kind}(3)"), value(padded, f"{kind}(3)"))
        translated = from_hive_tree(node)
        wanted = limited(literal, kind, 3)
        for negate in (False, True):
            expression = Not(translated) if negate else translated
            weak = to_arrow_expression(expression, table.schema, unknown="weaken")
            kept = set(table.filter(weak)["a"].to_pylist())
            true = {text for text in stored if HOLDS[operator](limited(text, kind, 3), wanted) is not negate}
            assert true <= kept, (literal, negate)
            narrowed += len(kept) < len(stored)
    assert narrowed > 20


@pytest.mark.parametrize("kind", ["char(3)", "varchar(3)", "string"])
@pytest.mark.parametrize(
    "pattern", ["ab%", "a%", "abcd%", "%b", "a_", "abc", "a  %", "", "%", "a\\%b", "a\\\\%", "\\a%"]
)
def test_like_on_texts_of_limited_length(kind, pattern):
    stored = ["".join(letters) for size in range(5) for letters in itertools.product(" ab%\\", repeat=size)]
    stored += ["abc", "abcd", "abcde", "ab c"]
    table = pa.table({"a": stored})
    expression = from_hive_tree(call("like", column("a", kind), value(pattern, "string")))
    kept = set(table.filter(to_arrow_expression(expression, table.schema, unknown="weaken"))["a"].to_pylist())
    read = [text if kind == "string" else limited(text, kind.split("(")[0], 3) for text in stored]
    # Both ways in which releases of Hive read a backslash before another character.
    for regex in {_regex(pattern, both=False), _regex(pattern, both=True)}:
        hits = pc.match_substring_regex(pa.array(read), regex).to_pylist()
        assert {text for text, hit in zip(stored, hits, strict=True) if hit} <= kept


def _regex(pattern: str, *, both: bool) -> str:
    out, i = "(?s)^", 0
    while i < len(pattern):
        following = pattern[i + 1 : i + 2]
        if pattern[i] == "\\" and (following in {"%", "_"} or (both and following)):
            out, i = out + "\\" + following if following in "%_\\" else out + following, i + 1
        else:
            out += {"%": ".*", "_": ".", "\\": "\\\\"}.get(pattern[i], pattern[i])
        i += 1
    return out.replace("\\%", "%").replace("\\_", "_") + "$"


def test_long_lists_of_limited_texts():
    char = call("GenericUDFIn", column("a", "char(3)"), *(value(f"{i:03}", "char(3)") for i in range(101)))
    assert isinstance(from_hive_tree(char), Unknown)
    mixed = call("GenericUDFIn", column("a", "varchar(3)"), value("x", "varchar(3)"), value("abc", "varchar(3)"))
    assert sql(mixed).startswith("a IN ('x') OR (startswith(a, 'abc') AND unknown(")
