"""What a clustering or a resize did, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClusteringReport:
    """What a clustering did, or would.

    Attributes:
        instant: of the plan; None where there is nothing to cluster, or nothing was changed.
        state: `nothing`, `dry run`, `planned` or `completed`; by maintenance also `cancelled`, of a plan that could not
            run any more, or `cannot run` in a dry run.
        columns: by which rows are sorted; none for the record key.
        layout: `linear`, `z-order` or `hilbert`.
        partitions: number of partitions with files to cluster.
        groups: sets of files that are sorted together.
        files_before: number of files that are replaced.
        bytes_before: their sizes.
        files_after: number of files written; where nothing was written yet, of those planned.
        bytes_after: their sizes; 0 where nothing was written.
        rows: written; 0 likewise.
        seconds: from start to end.
        kept_before: columns by which rows are sorted, each with the share of the table's files that a random range of
            1 % of its rows kept before; see `catalog.layout`.
        kept_after: the same afterwards.
    """

    instant: str | None
    state: str
    columns: tuple[str, ...] = ()
    layout: str = "linear"
    partitions: int = 0
    groups: int = 0
    files_before: int = 0
    bytes_before: int = 0
    files_after: int = 0
    bytes_after: int = 0
    rows: int = 0
    seconds: float = 0.0
    kept_before: tuple[tuple[str, float], ...] = ()
    kept_after: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        if self.state == "nothing":
            return "nothing to cluster"
        by = f"by {', '.join(self.columns)} ({self.layout})" if self.columns else "by record key"
        files = f"{self.files_before:,} files ({self.bytes_before / 1e6:,.1f} MB) of {self.partitions:,} partitions"
        if self.state == "completed":
            return (
                f"clustered {files} into {self.files_after:,} files ({self.bytes_after / 1e6:,.1f} MB) {by}, "
                f"{self.rows:,} rows, instant {self.instant}, {self.seconds:.1f} s"
            )
        if self.state in ("cancelled", "cannot run"):
            return f"{self.state}: {self.instant}, of whose {self.files_before:,} files another tool has changed some"
        verb = "would cluster" if self.state == "dry run" else f"planned as {self.instant}:"
        return f"{verb} {files} into {self.files_after:,} files {by}"


@dataclass(frozen=True)
class ResizeReport:
    """What a change of the number of buckets did, or would.

    Attributes:
        instant: of the commit; None where nothing was changed.
        state: `nothing`, `dry run` or `completed`.
        before: buckets of each partition before; of the one with most where they differ.
        after: buckets of each partition afterwards.
        way: `split` (each file group by itself), `merge` (several into one), `overwrite` (all rows exchanged), or
            `mixed` where partitions had different numbers.
        partitions: number of partitions with files that are changed.
        files_before: number of files that are replaced.
        bytes_before: their sizes.
        files_after: number of files written; 0 where nothing was written, as in the next fields.
        bytes_after: their sizes.
        rows: written.
        bytes_encoded: of column chunks that were encoded for it.
        seconds: from start to end.
        rules: `hoodie.bucket.index.partition.expressions` of the table from then on; empty for one count.
    """

    instant: str | None
    state: str
    before: int
    after: int
    way: str
    partitions: int = 0
    files_before: int = 0
    bytes_before: int = 0
    files_after: int = 0
    bytes_after: int = 0
    rows: int = 0
    bytes_encoded: int = 0
    seconds: float = 0.0
    rules: str = ""

    def __str__(self) -> str:
        if self.state == "nothing":
            return f"nothing to do: {self.before:,} buckets"
        way = "in several ways" if self.way == "mixed" else f"by {self.way}"
        counts = f"{self.before:,} to {self.after:,} buckets {way}"
        files = f"{self.files_before:,} files ({self.bytes_before / 1e6:,.1f} MB) of {self.partitions:,} partitions"
        if self.state == "dry run":
            return f"would resize {counts}: {files}"
        return (
            f"resized {counts}: {files} into {self.files_after:,} files ({self.bytes_after / 1e6:,.1f} MB), "
            f"{self.rows:,} rows, instant {self.instant}, {self.seconds:.1f} s"
        )
