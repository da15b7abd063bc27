"""Extraction of long IN lists before a text is tokenised: 100,000 tokens would take a second."""

from __future__ import annotations

import re
from typing import Any

from pushdown.sql.literal import number_value
from pushdown.temporal import TextNotUnderstoodError, parse_date, parse_timestamp

# Shorter lists are left to the parser.
_LONG = 50
_NUMBER = r"-?\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,2})?(?![\w.])"
# Other forms of dates and times are left to the parser.
_DATE = r"\bDATE\s*+'\d{4}-\d\d-\d\d'"
_TIME = r"\bTIMESTAMP\s*+'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?'"
_QUOTED = {
    # Where the backslash escapes, only strings without one are taken out.
    True: r"'(?:[^'\\]|'')*+'",
    False: r"'(?:[^']|'')*+'",
}
_SKIPPED = {
    True: r"""'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+"|`[^`]*+`|--[^\n]*+|/\*.*?\*/""",
    False: r"""'(?:[^']|'')*+'|"(?:[^"]|"")*+"|--[^\n]*+|/\*.*?\*/""",
}


def extract_lists(text: str, *, backslash: bool, padded: bool = False) -> tuple[str, dict[str, tuple[Any, ...]]]:
    """Replace each long list of plain literals by one number as a placeholder.

    Args:
        text: the condition, or a whole statement.
        backslash: whether the backslash escapes in strings of the dialect.
        padded: put spaces where the list was, so that all else stays at its place.

    Returns:
        The shorter text, and the literals by the number that replaces them.
    """
    if text.count(",") < _LONG:
        return text, {}
    lists: dict[str, tuple[Any, ...]] = {}
    stem = "9"
    while stem in text:
        stem += "79"

    def replace(match: re.Match[str]) -> str:
        kind = next((name for name in ("numbers", "strings", "dates", "times") if match[name]), None)
        members = None if kind is None else _values(kind, match[kind], _QUOTED[backslash])
        if members is None:
            return match[0]
        mark = f"{stem}{len(lists):08}"
        lists[mark] = members
        short = f"{match['in']}({mark}"
        return f"{short.ljust(len(match[0]) - 1)})" if padded else f"{short})"

    return _pattern(backslash=backslash).sub(replace, text), lists


def _pattern(*, backslash: bool) -> re.Pattern[str]:
    forms = {"numbers": _NUMBER, "strings": _QUOTED[backslash], "dates": _DATE, "times": _TIME}
    lists = "|".join(rf"(?P<{name}>{form}(?:\s*+,\s*+{form}){{{_LONG},}}+)" for name, form in forms.items())
    return re.compile(rf"(?:{_SKIPPED[backslash]})|(?P<in>\bIN\s*+)\(\s*+(?:{lists})\s*+\)", re.IGNORECASE | re.DOTALL)


def _values(kind: str, body: str, quoted: str) -> tuple[Any, ...] | None:
    """The values of a list; None if only the parser can read it."""
    if kind == "numbers":
        return _numbers(body)
    if kind == "strings":
        return _strings(body, quoted)
    texts = body.split("'")[1::2]
    try:
        return tuple(map(parse_date if kind == "dates" else parse_timestamp, texts))
    except TextNotUnderstoodError:
        return None


def _numbers(body: str) -> tuple[Any, ...]:
    texts = body.split(",")
    if "." not in body and "e" not in body.lower():
        return tuple(map(int, texts))
    return tuple(number_value(text.strip()) for text in texts)


def _strings(body: str, quoted: str) -> tuple[Any, ...]:
    return tuple(text[1:-1].replace("''", "'") for text in re.findall(quoted, body))
