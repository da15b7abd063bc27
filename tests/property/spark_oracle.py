"""Spark's own answers to filters over plain Parquet, many filters per job."""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.property.spark_rows import ROW

_BATCH = 40
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# Spark compiles nothing for `answers`, where that takes longer than the work; for `where` it does.
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
# Spark pushes no filter into Parquet here, whose statistics and casts have faults.
_SETTINGS = {"spark.sql.parquet.filterPushdown": "false", **_INTERPRETED}


#: the truth value of each row, by its number
Truths: TypeAlias = "dict[int, bool | None]"


@dataclass(frozen=True)
class Refused:
    """Spark raised an error, of this class, when it read the filter or ran it."""

    error: str


class Oracle:
    """A session of Spark and the rows as it reads them."""

    def __init__(self, spark: SparkSession, rows: pa.Table, path: str) -> None:
        pq.write_table(rows, path)
        self._spark = spark
        self.frame = spark.read.parquet(path)

    def answers(self, filters: Sequence[str], doubtful: Collection[str] = ()) -> dict[str, set[int] | Refused]:
        """The rows for which each filter is true, or how Spark refused it.

        Args:
            filters: conditions.
            doubtful: those of them that Spark may refuse; each has a job of its own, since it would end that of others.
        """
        truths = self.truths(filters, doubtful)
        return {
            text: truth if isinstance(truth, Refused) else {number for number, answer in truth.items() if answer}
            for text, truth in truths.items()
        }

    def truths(self, filters: Sequence[str], doubtful: Collection[str] = ()) -> dict[str, Truths | Refused]:
        """The truth value of each filter for each row; arguments as for `answers`."""
        truths: dict[str, Truths | Refused] = {}
        sure = [text for text in filters if text not in doubtful]
        for start in range(0, len(sure), _BATCH):
            truths.update(self._batch(sure[start : start + _BATCH]))
        for text in filters:
            truths.update(self._batch([text]) if text not in truths else {})
        return truths

    def _batch(self, filters: Sequence[str]) -> dict[str, Truths | Refused]:
        """One job for all; where Spark refuses one, halves of them."""
        columns = [f"({text}) AS answer{position}" for position, text in enumerate(filters)]
        try:
            rows = self.frame.selectExpr(ROW, *columns).toArrow()
        except PySparkException as error:
            if len(filters) == 1:
                return {filters[0]: Refused(_class_of(error))}
            middle = len(filters) // 2
            return self._batch(filters[:middle]) | self._batch(filters[middle:])
        numbers: list[int] = rows.column(ROW).to_pylist()
        answers = ((text, rows.column(f"answer{position}").to_pylist()) for position, text in enumerate(filters))
        return {text: dict(zip(numbers, truth, strict=True)) for text, truth in answers}

    def where(self, filters: Sequence[str]) -> dict[str, set[int]]:
        """The rows that WHERE selects by filters that Spark accepts; `answers` is checked against it."""
        union: Any = None
        for position, text in enumerate(filters):
            rows = self.frame.where(text).selectExpr(f"{position} AS filter", ROW)
            union = rows if union is None else union.union(rows)
        answers: dict[str, set[int]] = {text: set() for text in filters}
        _set(self._spark, _COMPILED)
        for position, row in [] if union is None else union.collect():
            answers[filters[position]].add(row)
        _set(self._spark, _INTERPRETED)
        return answers


def _query_loggers() -> list[logging.Logger]:
    """Those of PySpark 4, of its own class: one that `logging.getLogger` makes first takes none of its arguments."""
    if importlib.util.find_spec("pyspark.logger") is None:
        return []
    from pyspark.logger import PySparkLogger

    return [PySparkLogger.getLogger(name) for name in _LOGGERS]


def _set(spark: SparkSession, values: Mapping[str, str]) -> None:
    for key, value in values.items():
        spark.conf.set(key, value)


def _class_of(error: PySparkException) -> str:
    match = re.search(r"\[([A-Z_0-9]+)", str(error))
    return match[1] if match else type(error).__name__


@contextmanager
def settings(spark: SparkSession, time_zone: str, *, ansi: bool = True) -> Iterator[None]:
    """Spark's settings for the comparison, in a time zone; its loggers are quiet."""
    changed = {**_SETTINGS, "spark.sql.session.timeZone": time_zone, "spark.sql.ansi.enabled": str(ansi).lower()}
    before = {key: spark.conf.get(key) for key in changed}
    loggers = _query_loggers()
    for logger in loggers:
        logger.disabled = True
    level = spark.sparkContext._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString()  # type: ignore[union-attr]
    spark.sparkContext.setLogLevel("OFF")
    _set(spark, changed)
    try:
        yield
    finally:
        _set(spark, {key: str(value) for key, value in before.items()})
        spark.sparkContext.setLogLevel(level)
        for logger in loggers:
            logger.disabled = False
