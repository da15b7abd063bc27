"""Input and result of a pruning stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from catalog.snapshots.scan_options import ScanOptions
from catalog.snapshots.snapshot import Snapshot
from pushdown.expression import HudiExpression
from pushdown.verdict import Verdict

FileRows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StageInput:
    """Input of a stage.

    Attributes:
        snapshot: the table at one instant.
        expression: the filter, bound to the snapshot's schema and simplified.
        rows: positions, in the snapshot's files, of those that the stages before let through.
        options: of the scan.
        memo: what stages of this plan have found of the filter alone, by name.
    """

    snapshot: Snapshot
    expression: HudiExpression
    rows: FileRows
    options: ScanOptions
    memo: dict[str, Any] = field(default_factory=dict)


Stage: TypeAlias = Callable[[StageInput], Verdict]


@dataclass(frozen=True)
class StageResult:
    """Counts and reason of one stage, for `explain` and the query log.

    Attributes:
        name: of the stage.
        files_in: files that the stages before let through.
        files_out: files that this stage lets through.
        bytes_in: bytes of the files that came in.
        bytes_out: bytes of the files that it lets through.
        pruned: whether its verdict was `Candidates` rather than `CannotPrune`.
        reason: what it compared, or why it could not prune.
        seconds: its duration.
    """

    name: str
    files_in: int
    files_out: int
    bytes_in: int
    bytes_out: int
    pruned: bool
    reason: str
    seconds: float
