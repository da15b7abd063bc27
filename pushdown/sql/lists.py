"""Long IN lists are taken out of the text before it is cut into tokens: 100,000 tokens would take a second."""

from __future__ import annotations

import decimal
import re
from typing import Any

# Shorter lists are left to the parser.
_LONG = 50
_NUMBER = r"-?\d{1,400}(?:\.\d{1,400})?(?![\w.])"
_QUOTED = {
    # Where the backslash escapes, only strings without one are taken out.
    True: r"'(?:[^'\\]|'')*+'",
    False: r"'(?:[^']|'')*+'",
}
_SKIPPED = {
    True: r"""'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+"|`[^`]*+`|--[^\n]*+|/\*.*?\*/""",
    False: r"""'(?:[^']|'')*+'|"(?:[^"]|"")*+"|--[^\n]*+|/\*.*?\*/""",
}


def take_lists_out(text: str, *, backslash: bool) -> tuple[str, dict[str, tuple[Any, ...]]]:
    """Replace each long list of plain literals by one number that stands for it.

    Args:
        text: the condition.
        backslash: whether the backslash escapes in strings of the dialect.

    Returns:
        The shorter text, and the literals by the number that stands for them.
    """
    if text.count(",") < _LONG:
        return text, {}
    lists: dict[str, tuple[Any, ...]] = {}
    stem = "9"
    while stem in text:
        stem += "79"

    def replace(match: re.Match[str]) -> str:
        body = match["numbers"] or match["strings"]
        if body is None:
            return match[0]
        mark = f"{stem}{len(lists):08}"
        lists[mark] = _strings(body, _QUOTED[backslash]) if match["strings"] else _numbers(body)
        return f"{match['in']}({mark})"

    return _pattern(backslash=backslash).sub(replace, text), lists


def _pattern(*, backslash: bool) -> re.Pattern[str]:
    number, quoted = _NUMBER, _QUOTED[backslash]
    return re.compile(
        rf"(?:{_SKIPPED[backslash]})"
        rf"|(?P<in>\bIN\s*+)\(\s*+(?:(?P<numbers>{number}(?:\s*+,\s*+{number}){{{_LONG},}}+)"
        rf"|(?P<strings>{quoted}(?:\s*+,\s*+{quoted}){{{_LONG},}}+))\s*+\)",
        re.IGNORECASE | re.DOTALL,
    )


def _numbers(body: str) -> tuple[Any, ...]:
    texts = body.split(",")
    if "." not in body:
        return tuple(map(int, texts))
    return tuple(decimal.Decimal(text.strip()) if "." in text else int(text) for text in texts)


def _strings(body: str, quoted: str) -> tuple[Any, ...]:
    return tuple(text[1:-1].replace("''", "'") for text in re.findall(quoted, body))
