"""Statistics of groups of files, as soundly as those of the files.

Groups are the partitions of a table, or the base file and the log files of a file slice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from pushdown.statistics import ColumnStatistics
from pushdown.verdict import CannotPrune
from table_format.codecs.arrow_numpy import from_numpy, to_numpy

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take


def gather(
    statistics: ColumnStatistics, kind: pa.DataType, groups: NDArray[np.int64], count: int
) -> ColumnStatistics | CannotPrune:
    """Statistics of groups of files.

    Only what may be believed of each file goes in; a bound that one file lacks, though it may hold values, is unknown
    for its group, and so are the bounds of a group that may hold NaN.

    Args:
        statistics: of the files.
        kind: the column's type.
        groups: the number of each file's group.
        count: how many groups there are.
    """
    believed = statistics.believed(kind)

    def has(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.bincount(groups[mask], minlength=count) > 0
        return found

    may_value = has(believed.may_value)
    may_nan = has(believed.may_nan)
    if believed.lower is None:
        return CannotPrune(f"no bounds are known of columns of type {kind}")
    unknown = [has(missing & believed.may_value) | may_nan for missing in (believed.no_lower, believed.no_upper)]
    null = pa.scalar(None, statistics.lower.type)
    lower = pc.if_else(from_numpy(believed.no_lower), null, statistics.lower)
    upper = pc.if_else(from_numpy(believed.no_upper), null, statistics.upper)
    table = pa.table({"group": from_numpy(groups), "lower": lower, "upper": upper})
    try:
        found = table.group_by("group").aggregate([("lower", "min"), ("upper", "max")])
    except pa.ArrowNotImplementedError:
        return CannotPrune(f"columns of type {kind} have no least and greatest value")
    at = np.full(count, len(found), np.int64)
    at[to_numpy(found.column("group").combine_chunks())] = np.arange(len(found))
    rows = from_numpy(at, at < len(found))
    ends = [found.column(name).combine_chunks().take(rows) for name in ("lower_min", "upper_max")]
    bounds = [pc.if_else(from_numpy(mask), null, end) for mask, end in zip(unknown, ends, strict=True)]
    # Only three things are told of nulls: there are none, there is nothing else, or it is not known.
    no_value, no_null = ~may_value, ~has(believed.may_null)
    ones = from_numpy(np.ones(count, np.int64), no_value)
    return ColumnStatistics(
        lower=bounds[0],
        upper=bounds[1],
        null_count=from_numpy(no_value.astype(np.int64), no_value | no_null),
        row_count=ones,
        bounds_cover_nan=statistics.bounds_cover_nan,
        all_null_is_certain=statistics.all_null_is_certain,
    )
