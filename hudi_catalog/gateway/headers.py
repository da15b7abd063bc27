"""HTTP headers that the gateway forwards, and those in which Trino's clients carry sessions and prepared statements.

Trino's headers are comma-separated lists of `name=value`; values are URL-encoded, so they hold no further `=`. Several
lines of one name count as one list.
"""

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


def forwarded_headers(lines: RawHeaders, *, without: Iterable[str] = ()) -> CIMultiDict[str]:
    """Headers to forward, in their order and spelling.

    Args:
        lines: names and values as they arrived.
        without: lower-case names of further headers to drop.

    Returns:
        All headers except hop-by-hop ones (RFC 9110, 7.6.1) and those that `Connection` names; a repeated name has its
        first spelling. Bytes that are not UTF-8 become lone surrogates; see `is_utf8`.
    """
    drop = {*_HOP, *without}
    for name, value in lines:
        if name.lower() == b"connection":
            # Content-Length and Host are never hop-by-hop, whatever the client lists.
            drop.update({part.strip().lower() for part in _text(value).split(",")} - {"content-length", "host", ""})
    forwarded: CIMultiDict[str] = CIMultiDict()
    spelled: dict[str, str] = {}
    for name, value in lines:
        text = _text(name)
        if text.lower() not in drop:
            # aiohttp's client drops earlier lines when a later one of the same name is spelled in other cases.
            forwarded.add(spelled.setdefault(text.lower(), text), _text(value))
    return forwarded


def is_utf8(headers: CIMultiDict[str]) -> bool:
    """Whether all headers can be sent by aiohttp, which writes UTF-8 and silently drops everything else."""
    return not any("\ud800" <= letter <= "\udfff" for value in headers.values() for letter in value)


def header_values(headers: CIMultiDict[str], name: str) -> list[str]:
    """All values of a header in order; empty if absent."""
    return list(headers.getall(name, []))


def replace_header(headers: CIMultiDict[str], name: str, values: Sequence[str]) -> None:
    """Replace the values of a header, one line each; other headers keep their order."""
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

# Visible ASCII that needs no escaping: all but the characters of the list syntax and of the encoding.
_PLAIN = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "%+,=")


def session_names(headers: CIMultiDict[str]) -> SessionNames:
    """The session properties in a request's headers that decide what its statement means."""
    items = [item.partition("=") for line in header_values(headers, "X-Trino-Session") for item in line.split(",")]
    properties = {name.strip().lower(): unquote_plus(value.strip()) for name, sign, value in items if sign}
    return SessionNames(_first(headers, "X-Trino-Catalog"), _first(headers, "X-Trino-Schema"), properties)


@dataclass(frozen=True)
class Prepared:
    """A prepared statement as a request carries it.

    Attributes:
        text: its SQL.
        line: position of its header line among those of the name.
        item: position in the line's list.
        compressed: whether it was in Trino's compressed form.
        others: size of the header without this value, in bytes.
    """

    text: str
    line: int
    item: int
    compressed: bool
    others: int


def prepared_statement(headers: CIMultiDict[str], name: str) -> Prepared | None:
    """Look up a prepared statement by its name, case-sensitively as Trino does.

    Returns:
        None if it is missing, ambiguous or unreadable; Trino then reports the error.
    """
    prepared: Prepared | None = None
    lines = header_values(headers, PREPARED)
    size = sum(len(line) for line in lines)
    for number, line in enumerate(lines):
        for position, item in enumerate(line.split(",")):
            key, sign, value = item.partition("=")
            if not sign or unquote_plus(key.strip()) != name:
                continue
            if prepared is not None or "=" in value:
                return None
            encoded = unquote_plus(value.strip())
            text = _decoded(encoded)
            if text is None:
                return None
            prepared = Prepared(text, number, position, encoded.startswith(_COMPRESSED), size - len(value.strip()))
    return prepared


def text_limit(prepared: Prepared, header_size: int) -> int:
    """Characters that a replacement text may have without exceeding the header size, if nothing needs escaping."""
    return max(header_size - prepared.others, 0)


def replace_prepared(headers: CIMultiDict[str], prepared: Prepared, text: str, header_size: int) -> bool:
    """Replace the text of a prepared statement.

    Returns:
        False if the header would exceed `header_size` bytes; nothing is changed then.
    """
    value = _encoded(text, compressed=prepared.compressed)
    if prepared.others + len(value) > header_size:
        return False
    lines = header_values(headers, PREPARED)
    items = lines[prepared.line].split(",")
    items[prepared.item] = f"{items[prepared.item].partition('=')[0]}={value}"
    lines[prepared.line] = ",".join(items)
    replace_header(headers, PREPARED, lines)
    return True


def take_credential(headers: CIMultiDict[str], name: str) -> list[str]:
    """Remove a credential from the headers and return its values; other credentials stay as they are."""
    taken: list[str] = []
    lines: list[str] = []
    for line in header_values(headers, EXTRA_CREDENTIAL):
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
        replace_header(headers, EXTRA_CREDENTIAL, lines)
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
