"""The header lines that a proxy passes on, and those that are between two ends of one connection only."""

from __future__ import annotations

import io
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote_plus

import pyarrow as pa
from multidict import CIMultiDict

from hudi_catalog.gateway.statement import SessionNames

_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

RawHeaders = Sequence[tuple[bytes, bytes]]


def passed_on(lines: RawHeaders, *, without: Iterable[str] = ()) -> CIMultiDict[str]:
    """The header lines that go to the other side, in their order and spelling.

    Args:
        lines: names and values as they arrived.
        without: lower-case names of more lines to leave out.

    Returns:
        In their order, a repeated name spelled as at first, the lines but those of this connection (RFC 9110, 7.6.1)
        and those that `Connection` names. Bytes that are no UTF-8 stand as lone surrogates; see `exact`.
    """
    drop = {*_HOP, *without}
    for name, value in lines:
        if name.lower() == b"connection":
            # Content-Length frames the body: a client that names it here gets no say in that.
            drop.update({part.strip().lower() for part in _text(value).split(",")} - {"content-length", "host", ""})
    kept: CIMultiDict[str] = CIMultiDict()
    spelled: dict[str, str] = {}
    for name, value in lines:
        text = _text(name)
        if text.lower() not in drop:
            # aiohttp's client drops earlier lines when a later one of the same name is spelled in other cases.
            kept.add(spelled.setdefault(text.lower(), text), _text(value))
    return kept


def exact(headers: CIMultiDict[str]) -> bool:
    """Whether all lines can be sent as text: aiohttp sends UTF-8 and silently leaves out what is none."""
    return not any("\ud800" <= letter <= "\udfff" for value in headers.values() for letter in value)


def values_of(headers: CIMultiDict[str], name: str) -> list[str]:
    """All values of a header, in order; none when it is absent."""
    return list(headers.getall(name, []))


def replace_all(headers: CIMultiDict[str], name: str, values: Sequence[str]) -> None:
    """Put other values in a header's place, one line each; the others keep their order."""
    lines = list(headers.items())
    headers.clear()
    fresh = list(values)
    for key, value in lines:
        if key.lower() != name.lower():
            headers.add(key, value)
        elif fresh:
            headers.add(key, fresh.pop(0))


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


PREPARED = "X-Trino-Prepared-Statement"

EXTRA_CREDENTIAL = "X-Trino-Extra-Credential"

_COMPRESSED = "$zstd:"

_MOST_TEXT = 16_000_000

# Visible ASCII that may stand in a value as it is: all but what the list or the encoding gives a meaning.
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "%+,=")


def session_of(headers: CIMultiDict[str]) -> SessionNames:
    """The session that a request's headers tell of, as far as the meaning of statements depends on it."""
    items = [item.partition("=") for line in values_of(headers, "X-Trino-Session") for item in line.split(",")]
    properties = {name.strip().lower(): unquote_plus(value.strip()) for name, sign, value in items if sign}
    return SessionNames(_first(headers, "X-Trino-Catalog"), _first(headers, "X-Trino-Schema"), properties)


@dataclass(frozen=True)
class Prepared:
    """A prepared statement as a request carries it.

    Attributes:
        text: its SQL.
        line: position of its header line among those of the name.
        item: position in the line's list.
        compressed: whether it came in Trino's compressed form.
        others: bytes of the header but for its value.
    """

    text: str
    line: int
    item: int
    compressed: bool
    others: int


def prepared_statement(headers: CIMultiDict[str], name: str) -> Prepared | None:
    """A prepared statement by its name, which is compared as Trino does: letter by letter.

    Returns:
        None where it is not there, there twice, or not readable; Trino then says what is wrong.
    """
    found: Prepared | None = None
    lines = values_of(headers, PREPARED)
    size = sum(len(line) for line in lines)
    for number, line in enumerate(lines):
        for position, item in enumerate(line.split(",")):
            key, sign, value = item.partition("=")
            if not sign or unquote_plus(key.strip()) != name:
                continue
            if found is not None or "=" in value:
                return None
            encoded = unquote_plus(value.strip())
            text = _decoded(encoded)
            if text is None:
                return None
            found = Prepared(text, number, position, encoded.startswith(_COMPRESSED), size - len(value.strip()))
    return found


def room_for(prepared: Prepared, header_size: int) -> int:
    """Characters that the statement's text may have, so that the header keeps its size, if it needs no escapes."""
    return max(header_size - prepared.others, 0)


def with_prepared(headers: CIMultiDict[str], prepared: Prepared, text: str, header_size: int) -> bool:
    """Put another text into the place of a prepared statement.

    Returns:
        False, and nothing is changed, when the header would have more than `header_size` bytes.
    """
    value = _encoded(text, compressed=prepared.compressed)
    if prepared.others + len(value) > header_size:
        return False
    lines = values_of(headers, PREPARED)
    items = lines[prepared.line].split(",")
    items[prepared.item] = f"{items[prepared.item].partition('=')[0]}={value}"
    lines[prepared.line] = ",".join(items)
    replace_all(headers, PREPARED, lines)
    return True


def take_credential(headers: CIMultiDict[str], name: str) -> list[str]:
    """Take a credential out of the headers; its values, and the other credentials stay as they are."""
    taken: list[str] = []
    lines: list[str] = []
    for line in values_of(headers, EXTRA_CREDENTIAL):
        rest: list[str] = []
        for item in line.split(","):
            key, sign, value = item.partition("=")
            if sign and unquote_plus(key.strip()) == name:
                taken.append(unquote_plus(value.strip()))
            else:
                rest.append(item)
        if any(item.strip() for item in rest):
            lines.append(",".join(rest))
    if taken:
        replace_all(headers, EXTRA_CREDENTIAL, lines)
    return taken


def _first(headers: CIMultiDict[str], name: str) -> str | None:
    return headers.get(name, "").strip() or None


def _decoded(value: str) -> str | None:
    if not value.startswith(_COMPRESSED):
        return value
    coded = value.removeprefix(_COMPRESSED)
    stream_type: Any = pa.CompressedInputStream
    try:
        content = urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
        with stream_type(io.BytesIO(content), "zstd") as stream:
            text: bytes = stream.read(_MOST_TEXT + 1)
        return None if len(text) > _MOST_TEXT else text.decode()
    except (ValueError, OSError):
        return None


def _encoded(text: str, *, compressed: bool) -> str:
    if compressed:
        packed: Any = pa.Codec("zstd").compress(text.encode(), asbytes=True)
        text = _COMPRESSED + urlsafe_b64encode(packed).decode()
    return quote(text, safe=_PLAIN)
