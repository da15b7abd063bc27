"""Whatever row groups Apache Hudi merges the statistics of, no file with a matching row is lost by them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import event, given
from hypothesis import strategies as st

from catalog.statistics.merged_ranges import RowGroupSize, without_merged_ranges
from pushdown import bind, col, matches
from pushdown.evaluation.evaluate import evaluate
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.expression import HudiExpression
from table_format.metadata_table.bounds import trusted_null_counts, without_nan_traps
from table_format.metadata_table.column_stats import typed_schema
from tests.property.profile import examples

LONG = "m" * 2_100
FLOATS = [-2.5, -1.0, -0.0, 0.0, 1.0, 2.5, 7.0, math.nan, -math.inf, math.inf, None]
TEXTS = ["", "a", "b", "z", "m" + LONG, "z" + LONG, None]
VALUES = {pa.float64(): FLOATS, pa.float32(): FLOATS, pa.string(): TEXTS}

row_groups = st.sampled_from(list(VALUES)).flatmap(
    lambda kind: st.tuples(
        st.just(kind),
        st.lists(st.lists(st.sampled_from(VALUES[kind]), min_size=1, max_size=4), min_size=1, max_size=4),
    )
)


def merged(kind: pa.DataType, groups: list[list[Any]]) -> tuple[Any, Any, int]:
    """Least and greatest value and null count as Apache Hudi records them of a file with these row groups."""
    bounds: list[Any] = []
    nulls = 0
    for group in groups:
        values = [value for value in group if value is not None]
        nulls += len(group) - len(values)
        if not values:
            continue
        if pa.types.is_floating(kind):
            bounds += [0.0, 0.0] if any(map(math.isnan, values)) else [min(values), max(values)]
        elif len(min(values)) + len(max(values)) >= 4_096:
            nulls += len(values)
        else:
            bounds += [min(values), max(values)]
    return (min(bounds), max(bounds), nulls) if bounds else (None, None, nulls)


def statistics(kind: pa.DataType, groups: list[list[Any]]) -> ColumnStatistics:
    """What is made of them for planning."""
    low, high, nulls = merged(kind, groups)
    count = sum(map(len, groups))
    lower, upper = without_nan_traps(pa.array([low], kind), pa.array([high], kind))
    counts = pa.array([count])
    size = sum(len(value) if isinstance(value, str) else 1 for group in groups for value in group)
    null_counts = trusted_null_counts(pa.array([nulls]), counts, pa.array([size]), kind)
    entries = pa.table([pa.array(["f"]), lower, upper, null_counts, counts], schema=typed_schema(kind))
    files = pa.table({"file_name": ["f"], "size": [1_000]})
    sound = without_merged_ranges(entries, kind, files, RowGroupSize(1_000, 1, 0))
    event("trusted" if sound.num_rows else "not trusted")
    parts = [
        sound[name].combine_chunks().take(pa.array([0 if sound.num_rows else None], pa.int64()))
        for name in sound.column_names
    ]
    return ColumnStatistics(parts[1], parts[2], parts[3], parts[4], all_null_is_certain=True)


def conditions(kind: pa.DataType) -> list[HudiExpression]:
    column = col("a")
    comparisons = [column.is_null(), column.is_not_null()]
    for value in VALUES[kind]:
        if value is not None:
            comparisons += [column == value, column < value, column > value, column <= value, column >= value]
    return comparisons + [~one for one in comparisons]


@examples(100)
@given(row_groups)
def test_no_matching_row_is_lost(given_groups: tuple[pa.DataType, list[list[Any]]]) -> None:
    kind, groups = given_groups
    rows = pa.table({"a": pa.array([value for group in groups for value in group], kind)})
    ranges = {"a": statistics(kind, groups)}
    for condition in conditions(kind):
        bound = bind(condition, rows.schema)
        truth = np.asarray(matches(bound, rows).fill_null(False))
        outcomes = evaluate(bound, ranges, 1)
        assert outcomes.can_true[0] or not truth.any(), condition
        assert not outcomes.only_true[0] or truth.all(), condition
