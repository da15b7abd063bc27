"""The verdict of a pruning stage: a type, never an optional set.

"Cannot prune" once was an empty set of buckets in Apache Hudi, and queries returned no rows; here it is not a set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class CannotPrune:
    """The stage has nothing to narrow the files by; all of them stay.

    Attributes:
        reason: why, in words for `explain`.
    """

    reason: str


@dataclass(frozen=True, eq=False)
class Candidates:
    """The files that may hold matching rows.

    Attributes:
        keep: one boolean for each file that came in: whether it stays.
        reason: what the stage looked at, in words for `explain`.
        matched: one boolean for each file: every row of it makes the filter true; None when the stage does not know.
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
