"""Java `Properties` text, the format of `hoodie.properties` and `.hoodie_partition_metadata`."""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Final

from table_format.errors import AlreadyExistsError, CorruptFileError, MissingFileError, OptionError
from table_format.storage import Storage

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_CODES = {value: key for key, value in _ESCAPES.items()}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*\\?", re.DOTALL)
_NATURAL_LINE = re.compile(r"([^\r\n]+)(?:\r\n|\r|\n|\Z)|()(?:\r\n|\r|\n)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def parse_properties(data: bytes, path: str) -> dict[str, str]:
    r"""Read properties text.

    Args:
        data: the file's bytes, UTF-8 (Java's own `\uXXXX` escapes are understood too).
        path: the file, for messages.

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
    for start, line in _logical_lines(text):
        key, value = _split(line)
        try:
            values[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise CorruptFileError(path, len(text[:start].encode()), f"{error} in {line[:80]!r}") from error
    return values


def format_properties(values: Mapping[str, str], comment: str = "") -> bytes:
    r"""Write properties text as Java does, keys in the order given.

    The bytes are ASCII: Java reads them as Latin-1, so other characters are escaped.

    Raises:
        OptionError: a text has half a surrogate pair, which cannot be encoded.

    >>> format_properties({"a:b": " x=1"}, "note")
    b'#note\na\\:b=\\ x\\=1\n'
    """
    lines = [f"#{line}" for line in comment.splitlines()]
    lines += [f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}" for key, value in values.items()]
    return ("\n".join(lines) + "\n").encode("ascii", "replace")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines without comments and blank lines, each with its offset.

    A line that ends in an odd number of backslashes continues in the next.
    """
    start, parts = 0, list[str]()
    for natural in _NATURAL_LINE.finditer(text):
        line = (natural[1] or "").lstrip(" \t\f")
        if not any(parts):
            start = natural.start()
            if not line or line[0] in "#!":
                parts = []
                continue
        backslashes = len(line) - len(line.rstrip("\\"))
        parts.append(line[: len(line) - backslashes % 2])
        if backslashes % 2 == 0:
            yield start, "".join(parts)
            parts = []
    if parts:
        yield start, "".join(parts)


def _split(line: str) -> tuple[str, str]:
    key = _KEY.match(line)[0]  # type: ignore[index]  # it matches any line
    rest = line[len(key) :].lstrip(" \t\f")
    if rest and rest[0] in "=:":
        rest = rest[1:].lstrip(" \t\f")
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    joined = _SURROGATE_PAIR.sub(
        lambda m: m[0].encode("utf-16", "surrogatepass").decode("utf-16"), _ESCAPE.sub(_meaning, text)
    )
    if _SURROGATE.search(joined):
        raise ValueError("half a surrogate pair")
    return joined


def _meaning(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    if code == "u":
        raise ValueError("malformed \\u escape")
    return _ESCAPES.get(code, code) or "\\"


def _escape(text: str, *, is_key: bool) -> str:
    out = []
    for at, char in enumerate(text):
        if char in _CODES:
            out.append("\\" + _CODES[char])
        elif char in "\\:=#!" or (char == " " and (is_key or at == 0)):
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            if _SURROGATE.match(char):
                raise OptionError(f"{text!r} has half a surrogate pair, which cannot be encoded")
            units = char.encode("utf-16-be").hex().upper()
            out += [f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4)]
    return "".join(out)


PARTITION_METAFILE: Final = ".hoodie_partition_metadata"

#: Names of the file, including those with `hoodie.partition.metafile.use.base.format`.
PARTITION_METAFILES: Final = frozenset(PARTITION_METAFILE + suffix for suffix in ("", ".parquet", ".orc"))


def partition_depth(partition: str) -> int:
    """Number of folders between the table's base folder and the partition; 0 for a table without partitions."""
    return len(partition.split("/")) if partition else 0


def ensure_partition_metadata(storage: Storage, partition: str, instant: str) -> bool:
    """Write a partition's metadata file unless it exists; call it before the partition's first data file is written.

    Returns:
        Whether the partition is new.
    """
    path = f"{partition}/{PARTITION_METAFILE}" if partition else PARTITION_METAFILE
    if storage.exists(path):
        return False
    values = {"commitTime": instant, "partitionDepth": str(partition_depth(partition))}
    # another task may create it at the same time, with the same content
    with contextlib.suppress(AlreadyExistsError):
        storage.create(path, format_properties(values, "partition metadata"))
    return True


def partition_creator(storage: Storage, partition: str) -> str | None:
    """The instant that created a partition; None if there is no metadata file, or it does not say.

    Raises:
        CorruptFileError: the metadata file is damaged.
    """
    path = posixpath.join(partition, PARTITION_METAFILE)
    try:
        return parse_properties(storage.read(path), path).get("commitTime")
    except MissingFileError:
        return None
