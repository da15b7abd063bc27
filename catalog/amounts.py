"""Numbers of bytes and shares as texts for people."""

from __future__ import annotations

_UNIT = 1024


def bytes_text(count: int) -> str:
    """A number of bytes.

    >>> bytes_text(0), bytes_text(1023), bytes_text(1536), bytes_text(5 * 1024**3)
    ('0 B', '1023 B', '1.5 KiB', '5.0 GiB')
    """
    if count < _UNIT:
        return f"{count} B"
    value = float(count)
    units = ["KiB", "MiB", "GiB", "TiB", "PiB"]
    while True:
        value /= _UNIT
        unit = units.pop(0)
        if value < _UNIT or not units:
            return f"{value:,.1f} {unit}"


def share_text(part: int, whole: int) -> str:
    """A share in percent; small ones are not rounded to nothing.

    >>> share_text(1, 3), share_text(1, 100_000), share_text(0, 5), share_text(0, 0)
    ('33 %', '0.001 %', '0 %', '100 %')
    """
    if whole == 0:
        return "100 %"
    percent = 100 * part / whole
    return f"{percent:.0f} %" if percent >= 1 or part == 0 else f"{percent:.1g} %"
