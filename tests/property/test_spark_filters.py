"""Plans and rows against Spark's own answers, for generated filters over every type: none may be wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings
from pyspark.sql import SparkSession

from catalog import Table
from tests.property.spark_differential import Rows, Tally, compare_table
from tests.property.spark_oracle import Oracle, Refused, settings
from tests.property.spark_rows import COLUMNS, NOT_IN_HUDI, rows, write_table
from tests.property.spark_texts import Filter, make_filter

pytestmark = [pytest.mark.spark]
_NIGHTLY = hypothesis_settings.get_current_profile_name() == "nightly"
#: 2,000 filters, 100,000 of them nightly; HUDI_CATALOG_FILTERS says another number.
_COUNT = int(os.environ.get("HUDI_CATALOG_FILTERS", "100000" if _NIGHTLY else "2000"))
_FIRST = int(os.environ.get("HUDI_CATALOG_FIRST_FILTER", "0"))
_CHUNK = 1_000
# What is read from a Hudi table, and what is also asked as a WHERE clause: one filter in so many.
_ON_TABLE, _BEHIND_WHERE = 10, 40
# The share of filters that Spark answers and we may refuse, in percent.
_MOST_REFUSED = 5
_HUDI_COLUMNS = tuple(name for name in COLUMNS if name not in NOT_IN_HUDI)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    path = str(tmp_path_factory.mktemp("hudi") / "table")
    write_table(path)
    return Table.open(path)


def _chunks(first: int, count: int, columns: tuple[str, ...]) -> Iterator[list[Filter]]:
    for start in range(first, first + count, _CHUNK):
        yield [make_filter(number, columns) for number in range(start, min(start + _CHUNK, first + count))]


def _answers(oracle: Oracle, ours: Rows, filters: list[Filter]) -> dict[str, set[int] | Refused]:
    texts = list(dict.fromkeys(text for one in filters for text in (one.text, one.standard)))
    return oracle.answers(texts, {text for text in texts if ours.refuses(text)})


@pytest.mark.parametrize(("zone", "start", "part"), [("UTC", 0, 0.8), ("America/New_York", 0.8, 0.2)])
def test_filters_over_files_in_memory(
    spark: SparkSession, tmp_path: Path, zone: str, start: float, part: float
) -> None:
    ours = Rows(rows())
    tally = Tally()
    with settings(spark, zone):
        oracle = Oracle(spark, ours.rows, str(tmp_path / "rows.parquet"))
        for filters in _chunks(_FIRST + int(_COUNT * start), int(_COUNT * part), tuple(COLUMNS)):
            answers = _answers(oracle, ours, filters)
            texts = [one.text for one in filters[::_BEHIND_WHERE] if not isinstance(answers[one.text], Refused)]
            assert oracle.where(texts) == {text: answers[text] for text in texts}
            for one in filters:
                ours.compare(one.text, answers[one.text], answers[one.standard], tally, zone)
            assert not tally.wrong, str(tally)
    print(f"\n{zone}: {tally}")
    assert tally.share <= _MOST_REFUSED, str(tally)


def test_plans_for_sessions_without_ansi_mode(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of a scan are those of ANSI mode; no plan loses a row of the other mode's."""
    ours = Rows(rows())
    tally = Tally()
    with settings(spark, "UTC", ansi=False):
        oracle = Oracle(spark, ours.rows, str(tmp_path / "rows.parquet"))
        for filters in _chunks(_FIRST + 20_000_000, _COUNT // _ON_TABLE, tuple(COLUMNS)):
            answers = _answers(oracle, ours, filters)
            for one in filters:
                ours.compare(one.text, answers[one.text], None, tally, "UTC")
            assert not tally.wrong, str(tally)
    assert tally.right > _COUNT // _ON_TABLE // 2


def test_filters_over_a_hudi_table(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    tally = Tally()
    ours = Rows(rows().select(["row_number", *_HUDI_COLUMNS]))
    with settings(spark, "UTC"):
        oracle = Oracle(spark, ours.rows, str(tmp_path / "rows.parquet"))
        # other filters than those over memory
        for filters in _chunks(_FIRST + 10_000_000, _COUNT // _ON_TABLE, _HUDI_COLUMNS):
            answers = _answers(oracle, ours, filters)
            for one in filters:
                spark_rows, standard = answers[one.text], answers[one.standard]
                if not isinstance(spark_rows, Refused) and not isinstance(standard, Refused):
                    compare_table(table, one.text, spark_rows, standard, tally, "UTC")
            assert not tally.wrong, str(tally)
    print(f"\nHudi table: {tally}")
    assert tally.right > _COUNT // _ON_TABLE // 2
    assert tally.share <= _MOST_REFUSED, str(tally)
