"""Reads under generated filters, beside Spark's evaluation of the same filters over all rows."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from hudi_catalog import open_table
from hudi_catalog.spark_table import HudiTable
from tests.property.spark_rows import COLUMNS, NOT_IN_HUDI, ROW
from tests.property.spark_texts import make_filter
from tests.support.spark_reads import conf, error_of, last_scans

#: Filters that one job evaluates over all rows.
_AT_ONCE = 8


@dataclass
class Generated:
    """How many generated filters were compared, how many of these dropped files, and how many Spark refuses."""

    compared: int = 0
    pruned: int = 0
    refused: int = 0


def check_generated_filters(spark: SparkSession, path: str, numbers: range) -> Generated:
    """Filters over every type against Spark's evaluation of them over all rows.

    They come to the planner by turns as SQL text, as a Column, with the DataFrame, through a view, a join and a
    subquery; of the newest state, and of the one before.
    """
    names = tuple(name for name in COLUMNS if name not in NOT_IN_HUDI)
    table = HudiTable.for_path(spark, path)
    instants = sorted(entry.instant for entry in table.history())
    counts = Generated()
    made = [(number, make_filter(number, names).text) for number in numbers]
    # each filter is one query, and compiling it would take longer than it runs
    interpreted = conf(spark, spark_sql_codegen_wholeStage="false", spark_sql_adaptive_enabled="false")
    with interpreted:
        # made here, since Spark 3.5 cannot clone a cached plan that another of these settings planned
        states = [_State(spark, table, None), _State(spark, table, instants[0])]
        for state in states:
            # queries on the newest state read two generations of files, which takes twice as long
            chosen = [one for one in made if states[one[0] % 4 > 0] is state]
            for start in range(0, len(chosen), _AT_ONCE):
                _compare(state, chosen[start : start + _AT_ONCE], counts)
            state.full.unpersist()
    return counts


def _compare(state: _State, filters: list[tuple[int, str]], counts: Generated) -> None:
    wanted = state.wanted([text for _, text in filters])
    for number, text in filters:
        form = number // 4 + number % 4
        if text not in wanted:
            counts.refused += 1
            continue
        try:
            selected = state.selected(text, form)
            ours = sorted(row[0] for row in selected.collect())
        except PySparkException:
            if error_of(state.full.where(text).select(ROW).collect) is None:
                raise
            counts.refused += 1  # Spark computes the parts of a filter in another order
            continue
        assert ours == wanted[text], (number, form, text)
        counts.compared += 1
        plans = [(scan.plan, scan.kept) for scan in last_scans(selected)]
        counts.pruned += any(plan is not None and count < plan.files_total for plan, count in plans)


class _State:
    """One state of a table: planned, and all rows by Spark alone."""

    def __init__(self, spark: SparkSession, table: HudiTable, as_of: str | None) -> None:
        self._spark = spark
        self._table = table
        self._as_of = as_of
        self._frame = table.to_df(as_of=as_of)
        with tempfile.TemporaryDirectory() as folder:
            everything = open_table(table.client.storage.uri).scan(as_of=as_of).to_arrow()
            pq.write_table(everything, f"{folder}/all.parquet", store_schema=False)
            read = spark.read.schema(self._frame.schema).option("datetimeRebaseMode", "CORRECTED")
            self.full = read.parquet(f"{folder}/all.parquet").cache()
            assert self.full.count() == everything.num_rows
        self._numbers = self.full.selectExpr(f"{ROW} AS number").distinct()

    def wanted(self, texts: list[str]) -> dict[str, list[int]]:
        """The numbers of the rows that fulfil each filter; without the filters that Spark refuses, for a row even."""
        try:
            rows = self.full.selectExpr(ROW, *(f"({text}) AS t{place}" for place, text in enumerate(texts))).collect()
        except PySparkException:
            if len(texts) == 1:
                return {}
            half = len(texts) // 2
            return self.wanted(texts[:half]) | self.wanted(texts[half:])
        return {text: sorted(row[0] for row in rows if row[1 + place]) for place, text in enumerate(texts)}

    def selected(self, text: str, form: int) -> DataFrame:
        """The numbers of the rows that fulfil a filter."""
        view = "generated_filters"
        match form % 6:
            case 0:
                chosen = self._frame.where(text)
            case 1:
                chosen = self._frame.where(F.expr(text))
            case 2:
                chosen = self._table.to_df(F.expr(text) if form % 4 else text, as_of=self._as_of)
            case 3:
                self._frame.createOrReplaceTempView(view)
                chosen = self._spark.sql(f"SELECT x.* FROM {view} AS x WHERE {text}")
            case 4:
                on = F.col(ROW) == F.col("number")
                chosen = self._frame.where(text).join(F.broadcast(self._numbers), on)
            case _:
                self._frame.createOrReplaceTempView(view)
                inner = f"SELECT {ROW} FROM {view} WHERE {text}"
                chosen = self._spark.sql(f"SELECT * FROM {view} WHERE {ROW} IN ({inner}) AND ({text})")
        return chosen.select(ROW)
