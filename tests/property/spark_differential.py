"""Our plans and rows compared with Spark's answers: every filter ends as right, refused for a reason, or wrong."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog import Table
from pushdown import ColumnStatistics, bind, evaluate, matches, parse_sql, simplify
from table_format.errors import HudiError
from tests.property.spark_oracle import Refused
from tests.property.spark_rows import FILES, ROW, ROWS

# What is of one filter only: names, literals, types.
_DETAILS = re.compile(r"'(?:[^'\\]|\\.)*'|\"[^\"]*\"|X'\w*'|\b\w*\d\w*\b|-?\d[\d.eE+-]*")


@dataclass
class Tally:
    """Counts of a comparison.

    Attributes:
        right: filters answered as Spark does.
        both: filters that Spark refuses and we, too.
        ours: filters that Spark refuses, by its error, and that we answer.
        refused: filters that Spark answers and we refuse, by reason.
        examples: one filter for each of those.
        wrong: what differs, with the filter.
    """

    right: int = 0
    both: int = 0
    ours: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Refusals among the filters that Spark answers, in percent."""
        refused = self.refused.total()
        return 100 * refused / max(1, refused + self.right + len(self.wrong))

    def __str__(self) -> str:
        lines = [
            f"right {self.right:,}; wrong {len(self.wrong):,}; refused {self.refused.total():,} ({self.share:.2f} %)"
        ]
        lines += [
            f"  {count:6,}  {reason}   e.g. {self.examples[reason]}" for reason, count in self.refused.most_common()
        ]
        lines.append(f"refused by Spark: {self.both:,} by us as well, {self.ours.total():,} not {dict(self.ours)}")
        return "\n".join([*lines, *self.wrong[:50]])


class Rows:
    """Rows in memory, as files with the statistics that Parquet footers have."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.statistics = {
            name: file_statistics(rows.column(name).combine_chunks(), FILES, ROWS) for name in rows.column_names
        }

    def refuses(self, text: str) -> bool:
        """Whether we refuse a filter."""
        try:
            matches(parse_sql(text), self.rows)
        except HudiError:
            return True
        return False

    def compare(
        self,
        text: str,
        spark: set[int] | Refused,
        standard: set[int] | Refused | None,
        tally: Tally,
        time_zone: str,
    ) -> None:
        """One filter: the files that statistics leave, then the rows.

        Args:
            text: the filter.
            spark: rows of Spark's answer, whose files the plan has to keep.
            standard: rows of standard SQL's answer, which the scan has to give; None to look at the plan alone.
            tally: of all filters.
            time_zone: the session's.
        """
        files, matching, reason, bound = set(range(FILES)), None, "", None
        try:
            bound = simplify(bind(parse_sql(text), self.rows.schema, time_zone=time_zone))
            files = set(np.flatnonzero(evaluate(bound, self.statistics, FILES).can_true).tolist())
            matching = set(np.flatnonzero(pc.fill_null(matches(bound, self.rows), False)).tolist())
        except HudiError as error:
            reason = str(error)
        if isinstance(spark, Refused):
            if matching is None:
                tally.both += 1
            else:
                tally.ours[spark.error] += 1
            return
        lost = {row // ROWS for row in spark} - files
        if lost:
            tally.wrong.append(f"plan loses files {sorted(lost)}: {text}   bound: {bound!r}")
        elif standard is None:
            tally.right += 1
        elif matching is None:
            _refused(tally, reason, text)
        elif isinstance(standard, Refused) or matching != standard:
            tally.wrong.append(f"{_difference(matching, standard)}: {text}   bound: {bound!r}")
        else:
            tally.right += 1


def _difference(matching: set[int], wanted: set[int] | Refused) -> str:
    if isinstance(wanted, Refused):
        return f"standard SQL gives {wanted.error}"
    return f"rows too many {sorted(matching - wanted)}, too few {sorted(wanted - matching)}"


def _refused(tally: Tally, reason: str, text: str) -> None:
    short = _DETAILS.sub("…", reason.split(". Plan files with", maxsplit=1)[0])[:160]
    tally.refused[short] += 1
    tally.examples.setdefault(short, text)


def file_statistics(column: Any, files: int, rows: int) -> ColumnStatistics:
    """The statistics that Parquet footers have of a column, for files of so many rows one after the other."""
    floats = pa.types.is_floating(column.type)
    lows, highs, nulls = [], [], []
    for file in range(files):
        part = column.slice(file * rows, rows)
        nulls.append(part.null_count)
        values = part.filter(pc.invert(pc.is_nan(part))) if floats else part
        if pa.types.is_boolean(part.type):
            values = values.cast(pa.uint8())
        least, greatest = pc.min_max(values.drop_null()).values() if len(values.drop_null()) else (None, None)
        lows.append(_bound(least, column.type))
        highs.append(_bound(greatest, column.type))
    return ColumnStatistics(
        pa.concat_arrays(lows),
        pa.concat_arrays(highs),
        pa.array(nulls, pa.int64()),
        pa.array([rows] * files, pa.int64()),
        bounds_cover_nan=False,
    )


def _bound(value: Any, kind: pa.DataType) -> Any:
    return pa.nulls(1, kind) if value is None else pa.repeat(value, 1).cast(kind)


def compare_table(table: Table, text: str, spark: set[int], standard: set[int], tally: Tally, time_zone: str) -> None:
    """One filter that Spark answers, on a Hudi table whose partitions are the files of the rows."""
    scan = table.scan(text, columns=[ROW], time_zone=time_zone)
    files = {int(split.partition[1:]) for split in scan.plan().splits}
    lost = {row // ROWS for row in spark} - files
    if lost:
        tally.wrong.append(f"plan of the table loses files {sorted(lost)}: {text}")
        return
    try:
        matching = set(scan.to_arrow().column(ROW).to_pylist())
    except HudiError as error:
        _refused(tally, str(error), text)
        return
    if matching == standard:
        tally.right += 1
    else:
        tally.wrong.append(f"scan of the table: {_difference(matching, standard)}: {text}")
