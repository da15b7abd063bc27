"""The file groups that a write by the record index changes, and the tasks that write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy
from table_format.errors import TransactionError
from table_writer.tagging.placement import Numbers, Places


@dataclass(frozen=True)
class Targets:
    """File groups that a write changes.

    Attributes:
        numbers: of the file groups, rising.
        partitions: place of each one's partition in `names`.
        names: partition paths.
        slots: the writing task of each.
    """

    numbers: Numbers
    partitions: Numbers
    names: tuple[str, ...]
    slots: Numbers

    def positions(self, numbers: Numbers) -> npt.NDArray[np.int64]:
        """Where some file groups are among these.

        Raises:
            TransactionError: a file group that the driver does not know of.
        """
        places = np.searchsorted(self.numbers, numbers)
        if len(numbers) and (places.max() >= len(self.numbers) or (self.numbers[places] != numbers).any()):
            raise other_rows()
        return places


def slot_targets(updates: Mapping[int, int], places: Places, current: pa.Table, most: int) -> Targets:
    """The file groups of a write, shared out among writing tasks.

    Args:
        updates: rows by number of the current file group that they change.
        places: of new rows.
        current: of `CURRENT_SCHEMA`; the rows are the file groups.
        most: tasks.
    """
    placed = [number for ranges in places.partitions.values() for number in ranges.numbers.tolist()]
    numbers = np.array(sorted({*updates, *placed}), np.int32)
    old = numbers[numbers < current.num_rows]
    homes: list[Any] = current["partition"].take(from_numpy(old.astype(np.int64))).to_pylist()
    homes += places.created
    codes = {name: code for code, name in enumerate(dict.fromkeys(homes))}
    partitions = np.array([codes[name] for name in homes], np.int32)
    slots = (np.arange(len(numbers)) % max(1, most)).astype(np.int32)
    return Targets(numbers, partitions, tuple(codes), slots)


def other_rows() -> TransactionError:
    """For rows other than those whose heads the driver has."""
    return TransactionError(
        "the rows to write came out differently when Spark computed them a second time, after it had lost a part of "
        "them; nothing was written. Store the DataFrame first, or make it deterministic"
    )
