"""Rows whose column statistics are hard to keep: NaN, zeros of both signs, long texts, nulls, added columns."""

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

Row = dict[str, Any]
EDGES = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("s", pa.string()),
        ("n", pa.int32()),
    ]
)
EDGES_LATER = EDGES.append(pa.field("note", pa.string()))
LONG = "m" * 5_000


def edge_rows() -> list[list[Row]]:
    """One list for each file."""
    return [
        [_row("nan", k, x=v, f=v) for k, v in enumerate((math.nan, 5.0, 7.5, 100.0))],
        [_row("zero", k, x=v, f=v) for k, v in enumerate((-0.0, 0.0))],
        [_row("plain", k, x=float(k), f=float(k), s=f"x{k}") for k in range(10, 20)],
        [_row("long", k, s=v) for k, v in enumerate((LONG + "b", "apple", "zebra" + LONG))],
        [_row("infinite", k, x=v, f=v) for k, v in enumerate((-math.inf, math.inf, 1.0))],
        [_row("order", k, s=v) for k, v in enumerate(("ｱ", "𝄞", "é", "\uffff", "A"))],
        [_row("empty", k, x=None, f=None, s=None, n=None) for k in range(3)],
        [_row("noted", k, s="later") | {"note": v} for k, v in enumerate(("one", None))],
    ]


def row_group_rows() -> list[Row]:
    """One file of several row groups, of which one holds a NaN and one a text that is too long for statistics."""
    texts = {7: "z" * 5_000, 8: "zebra"}
    return [
        _row("k", n, x=v, f=v, s=texts.get(n, "middle"))
        for n in range(1_000)
        for v in [math.nan if n == 5 else 10 + n * 100.0 if n < 100 else 10 + n / 1_000]
    ]


def _row(name: str, number: int, **values: Any) -> Row:
    return {"id": f"{name}{number}", "ts": 1, "x": 1.5, "f": 1.5, "s": "middle", "n": number} | values


@dataclass(frozen=True)
class Defect:
    """A way in which Apache's data skipping drops files that hold matching rows.

    Attributes:
        title: as the documentation has it.
        reports: where it was reported, by number of the apache/hudi repository.
        filters: conditions on these rows that show it.
        several_row_groups: whether it is shown on `row_group_rows`, else on `edge_rows`.
    """

    title: str
    reports: tuple[int, ...]
    filters: tuple[str, ...]
    several_row_groups: bool = False


DEFECTS = (
    Defect(
        "A file that holds NaN",
        (18754,),
        ("x = 5.0", "x > 50", "f = 5.0", "f >= 100", "x > 1000", "x = 5.0 AND n = 1", "NOT (x < 50)", "x <> 0.0"),
    ),
    Defect("A text's beginning", (18791,), ("s LIKE 'x%'", "s LIKE 'x1%'", "s LIKE 'lat%'", "startswith(s, 'x')")),
    Defect(
        "A text that is too long for Parquet's statistics",
        (18755,),
        ("s = 'apple'", "n = 1 AND s = 'apple'", "s <> 'middle'"),
    ),
    Defect("A column without statistics beside one with", (10389, 7672), ("x = 12.0 AND note IS NULL",)),
    Defect(
        "One of several row groups",
        (18754, 18755),
        ("x = 310.0", "x > 100", "f >= 310.0", "x > 1000000", "s = 'zebra'", "s > 'middle'", "s <> 'middle'"),
        several_row_groups=True,
    ),
)
#: Where skipping must be right, on both sides.
SOUND = (
    "x = 0.0",
    "x < -1",
    "x = 12.0",
    "s >= '\U0001d11e'",
    "s < 'B'",
    "s IS NULL",
    "x IS NULL",
    "n IS NULL",
    "note IS NULL",
    "note <=> NULL",
    "note = 'one'",
    "note IS NOT NULL",
    "id IN ('nan1', 'long1', 'noted0')",
)
