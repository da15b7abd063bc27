"""One table read in many ways: by Spark's planned DataFrames, by the Python scan, and all of it by Spark alone."""

from __future__ import annotations

import operator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from hudi_catalog import open_table
from pushdown.errors import ExpressionError, RowCastError
from table_format.errors import OptionError
from tests.support.lost_rows import same_rows
from tests.support.spark_conditions import Condition, Conditions

#: Conditions that one job answers.
_AT_ONCE = 8


@dataclass
class Sweep:
    """Reads of one state of a table.

    Args:
        session: Spark's.
        path: of the table.
        folder: an empty one.
        options: of the table's scans.
        state: arguments of `scan` that say which rows: none, `as_of`, `incremental` or `query_type`.
    """

    session: SparkSession
    path: str
    folder: Path
    options: dict[str, str] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    asked: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        self.table = open_table(self.path)
        self.rows = self.table.scan(options=self.options, **self.state).to_arrow()
        spelled = dict(self.state)
        if spelled.pop("query_type", None):
            spelled["read_optimized"] = True
        self.planned = self.table.to_spark(self.session, options=self.options, **spelled)
        names = [*self.table.config.record_key_fields, *self.table.config.partition_fields]
        meta = ["_hoodie_partition_path", "_hoodie_record_key"]
        self.key = meta if meta[1] in self.rows.column_names else list(dict.fromkeys(names))
        pq.write_table(self.rows, self.folder / "all.parquet", store_schema=False)
        schema = self.planned.select(*map(_quoted, self.rows.column_names)).schema
        self.full = self.session.read.schema(schema).parquet(str(self.folder / "all.parquet"))

    def check_all_rows(self) -> None:
        """All columns of all rows are those of the Python scan."""
        # `toArrow` came with Spark 4.0
        batches = self.planned.select(*map(_quoted, self.rows.column_names))._collect_as_arrow()
        ours = pa.Table.from_batches(batches) if batches else self.rows.slice(0, 0)
        assert same_rows(ours.cast(self.rows.schema), self.rows), (self.path, self.state)

    def check_filters(self, numbers: range) -> None:
        """Rows under generated conditions are those that Spark selects of all rows, and that the Python scan gives."""
        conditions = Conditions(self.rows)
        made = [(number, conditions.make(number)) for number in numbers]
        for start in range(0, len(made), _AT_ONCE):
            some = made[start : start + _AT_ONCE]
            wanted = self._wanted(some)
            some = [one for one in some if one[0] in wanted]
            if not some:
                continue
            self.asked += len(some)
            ours = self._answers([(number, self._by(number, one)) for number, one in some])
            for number, one in some:
                assert ours[number] == wanted[number], (self.path, self.state, number, one.text)
                self._check_python(number, one.text, wanted[number])

    def check_joins(self, numbers: range) -> None:
        """Joins to rows that a condition selects, and subqueries of them, give what they give of all rows."""
        conditions = Conditions(self.rows)
        for number in numbers:
            few = self.full.where(conditions.make(number).text).select(*map(_quoted, self.key))
            sides = []
            for frame in (self.planned, self.full):
                frame.createOrReplaceTempView("swept")
                few.createOrReplaceTempView("few")
                same = " AND ".join(f"s.{_quoted(name)} <=> f.{_quoted(name)}" for name in self.key)
                last = _quoted(self.key[0])
                sides.append([
                    frame.join(F.broadcast(few.distinct()), self.key, "left_semi"),
                    self.session.sql(f"SELECT s.* FROM swept s WHERE EXISTS (SELECT 1 FROM few f WHERE {same})"),
                    self.session.sql(f"SELECT s.* FROM swept s WHERE s.{last} = (SELECT max({last}) FROM few)"),
                ])  # fmt: skip
            try:
                ours, theirs = (self._answers([*enumerate(side)]) for side in sides)
            except PySparkException:
                continue
            assert ours == theirs, (self.path, self.state, number)

    def _by(self, number: int, one: Condition) -> DataFrame:
        return self.planned.where(one.column() if number % 2 else one.text)

    def _wanted(self, some: list[tuple[int, Condition]]) -> dict[int, list[str]]:
        """By number of a condition the keys that Spark selects of all rows; without those at which it stops."""
        keys: list[Column] = [F.col(_quoted(name)) for name in self.key]
        try:
            truths = [F.expr(one.text).alias(f"t{number}") for number, one in some]
            rows = self.full.select(*keys, *truths).collect()
        except PySparkException:
            if len(some) == 1:
                self.refused += 1
                return {}
            return reduce(operator.or_, (self._wanted([one]) for one in some))
        width = len(self.key)
        return {
            number: sorted(str(tuple(row[:width])) for row in rows if row[width + at])
            for at, (number, _) in enumerate(some)
        }

    def _answers(self, frames: list[tuple[int, DataFrame]]) -> dict[int, list[str]]:
        """Keys of the rows of several frames by one job."""
        keys = [F.col(_quoted(name)) for name in self.key]
        each = [frame.select(F.lit(number).alias("number"), *keys) for number, frame in frames]
        answers: dict[int, list[str]] = {number: [] for number, _ in frames}
        for row in reduce(DataFrame.union, each).collect():
            answers[row[0]].append(str(tuple(row[1:])))
        return {number: sorted(rows) for number, rows in answers.items()}

    def _check_python(self, number: int, text: str, wanted: list[str]) -> None:
        try:
            scan = self.table.scan(text, self.key, options=self.options, case_sensitive=False, **self.state)
            rows = scan.to_arrow().select(self.key).to_pylist()
        except (ExpressionError, RowCastError):
            return
        ours = sorted(str(tuple(row.values())) for row in rows)
        assert ours == wanted, ("the Python scan", self.path, self.state, number, text)


def states(path: str) -> list[dict[str, Any]]:
    """The newest state of a table, an earlier one that is not cleaned away, what was written since, and base files."""
    table = open_table(path)
    entries = sorted(one.instant for one in table.history() if "commit" in one.action and one.state == "COMPLETED")
    made: list[dict[str, Any]] = [{}]
    for past in entries[len(entries) // 2 - 1 : -1]:
        with suppress(OptionError):
            table.snapshot(past)
            made.append({"as_of": past})
            break
    if table.config.populate_meta_fields and len(made) > 1:
        made.append({"incremental": (made[1]["as_of"], None)})
    if table.config.table_type == "MERGE_ON_READ":
        made.append({"query_type": "read_optimized"})
    return made


def _quoted(name: str) -> str:
    return f"`{name}`"
