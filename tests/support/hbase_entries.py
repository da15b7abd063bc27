"""Entries of HFiles that HBase's classes wrote, and what look-ups in them must give."""

from typing import Any

import pyarrow as pa

from table_format.hfile.reader import HFileReader
from table_format.hfile.sorted_keys import KeySpans


def texts(count: int, length: int, differing: str) -> list[tuple[str, str]]:
    """Ascending keys that differ `early`, `late`, or in the middle and in their lengths (`mixed`), and values."""
    entries = []
    for number in range(count):
        digits = f"{number * 3:08d}"
        fill = "x" * (length - 8)
        half = length // 2
        mixed = fill[:half] + digits + "y" * (number * 7 % (length - half - 7))
        key = {"early": digits + fill, "late": fill + digits, "mixed": mixed}[differing]
        entries.append((key, f"value {number}" * (number % 4)))
    return entries


def check_look_ups(reader: HFileReader, expected: list[tuple[bytes, bytes]]) -> None:
    """Prefixes, single keys and many keys; those that are there and those that are not."""
    step = max(len(expected) // 40, 1)
    some = expected[::step]
    for key, _ in [*some[::8], expected[-1]]:
        for prefix in (key, key[:-1], key[:-2], key[: len(key) // 2], key + b"-"):
            assert pairs(reader.prefix(prefix)) == [entry for entry in expected if entry[0].startswith(prefix)]
    absent = [b"", b"~", *(key[:-1] + b"!" for key, _ in some), *(key + b"!" for key, _ in some)]
    assert pairs(reader.get([*absent, *(key for key, _ in some)])) == some
    wanted = sorted({*absent, *(key for key, _ in some)})
    for scan in (True, False, None):
        rows, values = reader.find(KeySpans.of(pa.array(wanted, pa.binary())), scan=scan)
        assert sorted(zip((wanted[row] for row in rows), values.to_pylist(), strict=True)) == some


def pairs(entries: Any) -> list[tuple[bytes, bytes]]:
    return list(zip(entries.keys().to_pylist(), entries.values().to_pylist(), strict=True))
