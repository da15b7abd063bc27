"""The forms of conditions that were tried on Hive, and the table that they query.

The table has ten files of thirty rows, one a partition, each with a range of its own in most columns, so that the kept
files tell how exactly a condition arrived.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

FILES, ROWS = 10, 30
FIRST_DAY = dt.date(2024, 1, 1)
FIRST_TIME = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("name", pa.string()),
        ("k", pa.int32()),
        ("dt", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(10, 2)),
        ("x", pa.float64()),
        ("b", pa.bool_()),
        ("f", pa.float32()),
        ("v", pa.string()),
        ("c", pa.string()),
        ("ti", pa.int32()),
        ("si", pa.int32()),
        ("i", pa.int32()),
        ("bin", pa.binary()),
        ("dec", pa.decimal128(20, 5)),
        ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ]
)
NESTED = pa.schema([("id", pa.int64()), ("part", pa.string()), ("i", pa.int32()), ("s", SCHEMA.field("s").type)])
LISTED = Path(__file__).with_name("hive_forms.txt")


@dataclass(frozen=True)
class Form:
    """A condition, and what is known of it.

    Attributes:
        condition: In Hive's SQL.
        files: How many files it leaves; None if Hive asks for no splits.
        expression: What the service makes of it; None if Hive sends no filter, `*` where it
            is not the same each time.
    """

    condition: str
    files: int | None
    expression: str | None

    @property
    def table(self) -> str:
        """Which of the two tables it is asked of."""
        return "nested" if re.search(r"\bs\.", self.condition) else "forms"


def forms() -> list[Form]:
    """All forms that were tried."""
    lines = [line for line in LISTED.read_text().splitlines() if line and not line.startswith("#")]
    return [_parsed(line) for line in lines]


def _parsed(line: str) -> Form:
    condition, files, expression = line.split(" | ")
    return Form(condition, None if files == "none" else int(files), None if expression == "-" else expression)


def rows() -> pa.Table:
    """Row n is in file n / 30; every tenth name is null, and some of the later columns too."""
    count = range(FILES * ROWS)
    columns: dict[str, Any] = {
        "id": list(count),
        "part": [f"p{n // ROWS}" for n in count],
        "name": [None if n % 10 == 9 else f"n{n}" for n in count],
        "k": [n % 7 for n in count],
        "dt": [FIRST_DAY + dt.timedelta(days=n) for n in count],
        "ts": [FIRST_TIME + dt.timedelta(hours=n, microseconds=n) for n in count],
        "price": [Decimal(n) / 4 for n in count],
        "x": [n * 1.5 for n in count],
        "b": [n >= 150 for n in count],
        "f": [n / 10 for n in count],
        "v": [f"v{n:03}" for n in count],
        "c": [f"c{n // 10:02}" for n in count],
        "ti": [n // 30 for n in count],
        "si": [n * 10 for n in count],
        "i": [None if n % 13 == 5 else n for n in count],
        "bin": [f"b{n:03}".encode() for n in count],
        "dec": [Decimal(n) / 8 for n in count],
        "s": [None if n % 50 == 49 else {"a": n, "b": f"s{n}"} for n in count],
    }
    return pa.table({name: pa.array(values, SCHEMA.field(name).type) for name, values in columns.items()}, SCHEMA)
