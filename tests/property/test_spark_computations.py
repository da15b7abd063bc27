"""Conditions that are computed for each row, against Spark's own answers: none may be wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings as hypothesis_settings
from pyspark.sql import SparkSession

from pushdown import bind, matches, parse_sql, simplify
from pushdown.errors import InexactFilterError, RowCastError
from tests.property.spark_computations import make_condition, rows
from tests.property.spark_oracle import Oracle, Refused, settings

pytestmark = [pytest.mark.spark]
_NIGHTLY = hypothesis_settings.get_current_profile_name() == "nightly"
#: 300 conditions, 10,000 of them nightly; HUDI_CATALOG_COMPUTATIONS says another number.
_COUNT = int(os.environ.get("HUDI_CATALOG_COMPUTATIONS", "10000" if _NIGHTLY else "300"))
_FIRST = int(os.environ.get("HUDI_CATALOG_FIRST_COMPUTATION", "0"))
# The share of conditions that may be refused, in percent; most have more than 38 digits.
_MOST_REFUSED = 8


def _ours(text: str, table: pa.Table, zone: str) -> list[bool | None] | str:
    """The truth of each row, or why there is none."""
    try:
        truths: list[Any] = matches(simplify(bind(parse_sql(text), table.schema, time_zone=zone)), table).to_pylist()
    except (InexactFilterError, RowCastError) as error:
        return type(error).__name__
    return truths


@pytest.mark.parametrize(("zone", "start", "part"), [("UTC", 0.0, 0.7), ("America/New_York", 0.7, 0.3)])
def test_rows_are_those_of_spark(spark: SparkSession, tmp_path: Path, zone: str, start: float, part: float) -> None:
    table = rows()
    first, count = _FIRST + int(_COUNT * start), int(_COUNT * part)
    texts = dict.fromkeys(make_condition(number) for number in range(first, first + count))
    ours = {text: _ours(text, table, zone) for text in texts}
    answered = {text: truths for text, truths in ours.items() if not isinstance(truths, str)}
    failing = [text for text, outcome in ours.items() if outcome == RowCastError.__name__]
    refused = len(texts) - len(answered) - len(failing)
    with settings(spark, zone):
        oracle = Oracle(spark, table, str(tmp_path / "rows.parquet"))
        answers = oracle.truths([*answered, *failing], failing)
    wrong = []
    for text, truths in answered.items():
        spark_truths = answers[text]
        # Spark stops at values on which no result depends, too
        if not isinstance(spark_truths, Refused) and spark_truths != dict(enumerate(truths)):
            wrong.append(text)
    assert wrong == []
    # Spark's optimizer decides some comparisons without computing them, such as of an integer with 1.5
    spared = [text for text in failing if not isinstance(answers[text], Refused)]
    assert 100 * len(spared) <= len(texts), spared
    assert 100 * refused <= _MOST_REFUSED * len(texts)
    print(f"\n{zone}: {len(answered):,} right, {len(failing):,} fail in both, {refused:,} refused")
