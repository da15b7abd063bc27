"""Which rows have one of the keys that an index look-up asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Mask, one_chunk, to_numpy, valid_mask

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take


class KeySet:
    """Key tuples, to look rows up in; none has a null, and null equals nothing.

    Args:
        keys: a column for each key column, by its name in Trino, of values as they are served.
    """

    def __init__(self, keys: pa.Table) -> None:
        self.names: tuple[str, ...] = tuple(keys.column_names)
        columns = [_comparable(one_chunk(keys.column(name))) for name in self.names]
        self._values = [column.unique() for column in columns]
        places = [_places(column, values) for column, values in zip(columns, self._values, strict=True)]
        self._tuples = np.unique(self._numbered(places)[np.all(np.stack(places) >= 0, axis=0)])

    def rows(self, served: Mapping[str, Any]) -> Mask:
        """Where the served values of the key columns are one of the keys.

        Args:
            served: by name in Trino, Arrow arrays.
        """
        places = [
            _places(_comparable(served[name]).cast(values.type), values)
            for name, values in zip(self.names, self._values, strict=True)
        ]
        found: Mask = np.isin(self._numbered(places), self._tuples)
        found &= np.all(np.stack(places) >= 0, axis=0)
        return found

    def _numbered(self, places: list[NDArray[np.int64]]) -> NDArray[Any]:
        """One number for each tuple of places; of Python's own kind where 64 bits would not do."""
        total = 1
        for values in self._values:
            total *= len(values) + 1
        wide = total >= 2**62
        result: NDArray[Any] = np.zeros(len(places[0]), object if wide else np.int64)
        for place, values in zip(places, self._values, strict=True):
            result = result * (len(values) + 1) + (place.astype(object) if wide else place)
        return result


def _places(column: Any, values: Any) -> NDArray[np.int64]:
    """The place of each value among the distinct ones; -1 for none, and for null."""
    found = pc.index_in(column, value_set=values)
    told = valid_mask(found) & valid_mask(column)
    return np.where(told, to_numpy(found).astype(np.int64), -1)


def _comparable(column: Any) -> Any:
    """Values that are equal in Trino are equal here: days as numbers, no negative zero, and NaN is no value."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if pa.types.is_date(column.type):
        return column.cast(pa.int32())
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), pc.add(column, 0.0))
    return column
