"""Java `Properties` text, the form of `hoodie.properties` and `.hoodie_partition_metadata`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from table_format.errors import CorruptFileError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_CODES = {value: key for key, value in _ESCAPES.items()}
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def parse_properties(data: bytes, path: str) -> dict[str, str]:
    r"""Read properties text.

    Args:
        data: the file's bytes, UTF-8 (Java's own `\uXXXX` escapes are understood too).
        path: what to call the file in an error.

    Raises:
        CorruptFileError: the bytes are not UTF-8, or an escape is malformed.

    >>> parse_properties(b"# note\na=1\nkey\\:2 : v\\u00e9\n", "p")
    {'a': '1', 'key:2': 'vé'}
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError(path, error.start, "not UTF-8; is it a properties file?") from error
    values = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        values[_unescape(key, path)] = _unescape(value, path)
    return values


def format_properties(values: Mapping[str, str], comment: str = "") -> bytes:
    r"""Write properties text as Java does, in UTF-8, keys in the order given.

    >>> format_properties({"a:b": " x=1"}, "note")
    b'#note\na\\:b=\\ x\\=1\n'
    """
    lines = [f"#{line}" for line in comment.splitlines()]
    lines += [f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}" for key, value in values.items()]
    return ("\n".join(lines) + "\n").encode()


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blanks; a line that ends in an odd number of backslashes goes on in the next."""
    pending = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        line = pending + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
            continue
        pending = ""
        yield line
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    key, rest = line[:end], line[end:].lstrip(" \t\f")
    if rest and rest[0] in "=:":
        rest = rest[1:].lstrip(" \t\f")
    return key, rest


def _unescape(text: str, path: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\" or at >= len(text):
            out.append(char)
            continue
        char = text[at]
        at += 1
        if char == "u":
            code = text[at : at + 4]
            if not re.fullmatch("[0-9a-fA-F]{4}", code):
                raise CorruptFileError(path, 0, f"malformed \\u escape in {text!r}")
            out.append(chr(int(code, 16)))
            at += 4
        else:
            out.append(_ESCAPES.get(char, char))
    joined = "".join(out)
    return _SURROGATE_PAIR.sub(lambda m: m[0].encode("utf-16", "surrogatepass").decode("utf-16"), joined)


def _escape(text: str, *, is_key: bool) -> str:
    out = []
    for at, char in enumerate(text):
        if char in _CODES:
            out.append("\\" + _CODES[char])
        elif char in "\\:=#!" or (char == " " and (is_key or at == 0)):
            out.append("\\" + char)
        else:
            out.append(char)
    return "".join(out)
