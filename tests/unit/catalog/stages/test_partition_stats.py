"""Statistics of partitions, merged from those of their files."""

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catalog import Table
from catalog.stages import partition
from catalog.statistics.aggregate import aggregate_statistics
from pushdown import CannotPrune, bind, col
from pushdown.evaluation.evaluate import evaluate
from pushdown.evaluation.statistics import ColumnStatistics
from table_format.codecs.arrow_numpy import from_numpy
from tests.unit.conftest import GoldenTable

INT, FLOAT, TEXT = pa.int64(), pa.float64(), pa.string()


def files(kind: pa.DataType, *rows: tuple[Any, Any, int | None, int | None]) -> ColumnStatistics:
    lower, upper, nulls, counts = zip(*rows, strict=True)
    numbers = pa.array(nulls, pa.int64()), pa.array(counts, pa.int64())
    return ColumnStatistics(pa.array(lower, kind), pa.array(upper, kind), *numbers)


def gathered(kind: pa.DataType, *rows: tuple[Any, Any, int | None, int | None]) -> tuple[Any, ...]:
    """Bounds and counts of one group of files, beside another that must not matter."""
    other = (rows[0][0], rows[0][1], None, None)
    groups = np.array([1] * len(rows) + [0, 2], np.int64)
    joined = aggregate_statistics(files(kind, *rows, other, other), kind, groups, 3)
    assert isinstance(joined, ColumnStatistics)
    return tuple(column[1].as_py() for column in (joined.lower, joined.upper, joined.null_count, joined.row_count))


@pytest.mark.parametrize(
    ("kind", "rows", "expected"),
    [
        (INT, [(3, 5, 0, 9), (1, 4, 0, 9)], (1, 5, 0, None)),
        (INT, [(3, 5, 0, 9), (1, 4, 2, 9)], (1, 5, None, None)),
        (INT, [(3, 5, 0, 9), (1, 4, None, 9)], (1, 5, None, None)),
        (INT, [(3, 5, 0, 9), (None, None, None, None)], (None, None, None, None)),
        (INT, [(3, 5, 0, 9), (None, 7, 0, 9)], (None, 7, 0, None)),
        (INT, [(3, 5, 0, 9), (None, None, 9, 9)], (3, 5, None, None)),  # the other file is all null
        (INT, [(None, None, 9, 9), (None, None, 4, 4)], (None, None, 1, 1)),
        (INT, [(5, 3, 0, 9), (1, 4, 0, 9)], (None, None, 0, None)),  # bounds that contradict each other
        (TEXT, [("b", "c", 0, 9), (None, None, 9, 9)], (None, None, None, None)),  # long texts look like nulls
        (TEXT, [("b", "c", 0, 9), ("a", "b", 0, 9)], ("a", "c", 0, None)),
        (FLOAT, [(1.0, 2.0, 0, 9), (0.0, 0.0, 0, 9)], (None, None, 0, None)),  # what a NaN leaves behind
        (FLOAT, [(1.0, 2.0, 0, 9), (math.nan, 3.0, 0, 9)], (None, None, 0, None)),
        (FLOAT, [(1.0, 2.0, 0, 9), (-math.inf, 3.0, 0, 9)], (None, None, 0, None)),
        (FLOAT, [(1.0, 2.0, 0, 9), (-1.0, 3.0, 0, 9)], (-1.0, 3.0, 0, None)),
        (pa.decimal128(9, 2), [(1, 2, 0, 9), (0, 1, 0, 9)], (0, 2, 0, None)),
        (pa.bool_(), [(True, True, 0, 9), (False, False, 0, 9)], (False, True, 0, None)),
    ],
)
def test_what_one_file_lacks_its_partition_lacks(kind: pa.DataType, rows: list[Any], expected: tuple[Any, ...]) -> None:
    joined = gathered(kind, *rows)
    assert joined[2:] == expected[2:]
    assert (
        joined[:2] == pytest.approx(expected[:2])
        if kind == FLOAT and expected[0] is not None
        else joined[:2] == expected[:2]
    )


def test_types_without_an_order() -> None:
    nested = pa.list_(pa.int64())
    assert isinstance(
        aggregate_statistics(files(nested, (None, None, 0, 1)), nested, np.zeros(1, np.int64), 1), CannotPrune
    )


def test_partitions_that_are_dropped_have_no_file_that_is_kept() -> None:
    rng = random.Random(1)
    for _ in range(300):
        kind: pa.DataType = rng.choice([INT, FLOAT, TEXT])  # type: ignore[assignment]
        choices: dict[pa.DataType, list[Any]] = {
            INT: [None, -1, 0, 1, 5],
            FLOAT: [None, math.nan, math.inf, -0.0, 0.0, 1.5, 7.0],
            TEXT: [None, "", "a", "b", "é"],
        }
        rows = [
            (
                rng.choice(choices[kind]),
                rng.choice(choices[kind]),
                rng.choice([None, 0, 1, 3]),
                rng.choice([None, 1, 3]),
            )
            for _ in range(rng.randint(1, 12))
        ]
        statistics = files(kind, *rows)
        groups = np.array([rng.randrange(3) for _ in rows], np.int64)
        joined = aggregate_statistics(statistics, kind, groups, 3)
        if isinstance(joined, CannotPrune):
            continue
        value = rng.choice([v for v in choices[kind] if v is not None])
        column = col("c")
        condition = rng.choice(
            [column == value, column != value, column < value, column >= value, column.is_null(), column.is_not_null()]
        )
        bound = bind(rng.choice([condition, ~condition]), pa.schema([("c", kind)]))
        of_files = evaluate(bound, {"c": statistics}, len(rows))
        of_groups = evaluate(bound, {"c": joined}, 3)
        assert not (of_files.can_true & ~of_groups.can_true[groups]).any()
        assert not (of_groups.only_true[groups] & of_files.can_false).any()
        assert not (of_groups.only_true[groups] & of_files.can_null).any()


def test_few_files_are_looked_at_one_by_one(golden: Callable[[str], GoldenTable]) -> None:
    plan = golden("v6_0150__bkt_hive").open().scan("i > 5").plan()
    stage = next(stage for stage in plan.stages if stage.name == "partition statistics")
    assert not stage.pruned
    assert "one by one" in stage.reason


def test_plans_are_the_same_with_partitions_first(
    golden: Callable[[str], GoldenTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    golden_table = golden("v6_0150__bkt_hive")
    conditions = [
        "i > 5",
        "i IS NULL",
        "part = 'eu' OR i < -100",
        "NOT (i > 3 AND part = 'zz')",
        "_hoodie_commit_time > ''",
    ]
    before = [golden_table.open().scan(condition).plan() for condition in conditions]
    monkeypatch.setattr(partition, "LEAST_FILES", 0)
    monkeypatch.setattr(partition, "FILES_A_PARTITION", 0)
    table = Table.open(golden_table.path)
    for condition, expected in zip(conditions, before, strict=True):
        table.scan(condition).plan()
        plan = table.scan(condition).plan()
        assert next(stage for stage in plan.stages if stage.name == "partition statistics").pruned
        assert plan.rows.tolist() == expected.rows.tolist()
        assert from_numpy(plan.fully_matching).equals(from_numpy(expected.fully_matching))


def test_a_first_plan_gathers_nothing(golden: Callable[[str], GoldenTable], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "LEAST_FILES", 0)
    monkeypatch.setattr(partition, "FILES_A_PARTITION", 0)
    table = golden("v6_0150__bkt_hive").open()
    pruned = []
    for _ in range(3):
        plan = table.scan("i > 5").plan()
        pruned.append(next(stage for stage in plan.stages if stage.name == "partition statistics").pruned)
    assert pruned == [False, True, True]
