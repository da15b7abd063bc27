"""The verdict of a pruning stage: one of two types, never an optional set.

In Apache Hudi "cannot prune" once was an empty set of buckets, and queries returned no rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class CannotPrune:
    """The stage cannot narrow the files; all of them stay.

    Attributes:
        reason: why, in words for `explain`.
    """

    reason: str


@dataclass(frozen=True, eq=False)
class Candidates:
    """The files that may hold matching rows.

    Attributes:
        keep: one boolean for each file that came in: whether it stays.
        reason: what the stage compared, in words for `explain`.
        matched: one boolean for each file: every row of it makes the filter true; None if the stage proves nothing.
    """

    keep: NDArray[np.bool_]
    reason: str
    matched: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        for name in ("keep", "matched"):
            mask: Any = getattr(self, name)
            if mask is not None and (not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.ndim != 1):
                raise TypeError(f"{name} must be a one-dimensional boolean array")


Verdict: TypeAlias = CannotPrune | Candidates
