"""The header lines that a proxy passes on, and those that are between two ends of one connection only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from multidict import CIMultiDict

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
