"""Whether a base file is spliced or rewritten whole: what surgery cannot do, and the bounds of the options."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from table_format.base_file.footer import BaseFileFooter
from table_format.config.option_values import choice, whole_number
from table_writer.plan import option_registry as registry
from table_writer.plan.option import Option
from table_writer.surgery.cost import EditSize
from table_writer.surgery.locate import KeyRange

# Before 1.8, parquet-java wrote wrong statistics of strings (PARQUET-251) and delta encodings that readers treat by
# the file's creator (PARQUET-246), which is one for all row groups.
_OLD_JAVA = re.compile(r"parquet-mr(?: version 1\.[0-7](?:\D|$)|\s*$| version 0)")


class CannotSplice(Exception):  # noqa: N818 - a signal to the caller, not an error of users
    """Surgery is not certain to be right for this file or edit; the caller rewrites the file whole.

    Attributes:
        reason: for the log.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def why_not(footer: BaseFileFooter) -> str | None:
    """Why a file cannot be spliced, by pyarrow's view of its footer; None when it may be.

    This cheap check saves reading rows. `splice` checks more and may still refuse.
    """
    metadata = footer.metadata
    if metadata.num_row_groups == 0:
        return "the file has no row groups"
    if old_java(metadata.created_by or ""):
        return f"readers treat files of {metadata.created_by!r} differently"
    names = footer.schema.names
    if len(set(names)) != len(names):
        return "two columns have one name"
    if metadata.num_columns == 0:
        return "the file has no columns"
    return None


def old_java(created_by: str) -> bool:
    """Whether the creator is an old release of parquet-java, whose files readers treat differently."""
    return _OLD_JAVA.match(created_by) is not None


class Mode(Enum):
    """Values of `hoodie.catalog.write.surgery`."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class SurgeryPolicy:
    """Bounds of surgery.

    Attributes:
        mode: `always` splices wherever it is possible, `never` nowhere.
        max_touched: share of a file's bytes that may be encoded again.
        max_cost: share of a whole rewrite's processor time that an edit may cost, by estimate.
        max_loose: share of its rows that may be in row groups whose keys overlap those of groups before them.
        max_small: row groups that may be smaller than half a full one.
        min_file: bytes of a file below which it is rewritten whole.
    """

    mode: Mode
    max_touched: float
    max_cost: float
    max_loose: float
    max_small: int
    min_file: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SurgeryPolicy:
        """Read the bounds from write options.

        Raises:
            OptionError: a value that cannot be used.
        """
        mode = choice(options, registry.SURGERY.key, str(registry.SURGERY.default), registry.SURGERY.choices)
        return cls(
            Mode(mode),
            _number(options, registry.SURGERY_TOUCHED) / 100,
            _number(options, registry.SURGERY_COST) / 100,
            _number(options, registry.SURGERY_LOOSE) / 100,
            _number(options, registry.SURGERY_SMALL),
            _number(options, registry.SURGERY_MIN_FILE),
        )

    def too_small(self, size: int) -> str | None:
        """Why a file of this many bytes is rewritten whole; None when it is not."""
        if self.mode is Mode.AUTO and size < self.min_file:
            return f"a file of {size:,} bytes is rewritten as fast"
        return None

    def too_much(self, size: EditSize) -> str | None:
        """Why an edit encodes too many bytes again; None when it does not."""
        encoded, whole = size.encoded.compressed, size.file.compressed
        if self.mode is Mode.AUTO and encoded > self.max_touched * whole:
            return f"{encoded:,} of {whole:,} bytes would be encoded again"
        return None

    def too_costly(self, size: EditSize) -> str | None:
        """Why an edit costs about as much as a whole rewrite; None when it does not."""
        if self.mode is Mode.AUTO and size.share > self.max_cost:
            return f"{size.share:.0%} of a whole rewrite's processor time would be needed, by estimate"
        return None

    def too_many_small(self, small: int) -> str | None:
        """Why this many small row groups are too many; None when they are not."""
        if self.mode is Mode.AUTO and small > self.max_small:
            return f"{small} row groups would be small"
        return None

    def too_loose(self, ranges: Sequence[KeyRange]) -> str | None:
        """Why a file of such row groups has to be sorted again; None if it need not be."""
        share = loose_share(ranges)
        if self.mode is Mode.AUTO and share > self.max_loose:
            return f"{share:.0%} of the rows would be in row groups whose keys overlap those of others"
        return None


def loose_share(ranges: Sequence[KeyRange]) -> float:
    """Share of the rows in row groups whose keys overlap those of row groups before them in the file.

    Groups of unknown keys count as overlapping.
    """
    firsts: list[str] = []
    lasts: list[str] = []
    loose = 0
    for bounds in ranges:
        if bounds.first is None or bounds.last is None:
            loose += bounds.rows
            continue
        at = bisect_right(firsts, bounds.first)
        if (at and lasts[at - 1] >= bounds.first) or (at < len(firsts) and firsts[at] <= bounds.last):
            loose += bounds.rows
            continue
        firsts.insert(at, bounds.first)
        lasts.insert(at, bounds.last)
    return loose / max(1, sum(bounds.rows for bounds in ranges))


def _number(options: Mapping[str, str], option: Option) -> int:
    return whole_number(options, option.key, int(option.default or 1), 1)
