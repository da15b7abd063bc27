"""File slices as objects, made from their columns in a snapshot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import from_numpy

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take

_LOGS = "logs"


def log_paths(files: pa.Table, root: str = "") -> pa.Array[Any]:
    """The log files of slices in merge order, one list a slice, below a root; relative to the table without one."""
    if _LOGS not in files.column_names:
        return _lists(pa.array([], pa.string()), np.zeros(files.num_rows + 1, np.int32))
    logs: Any = files.column(_LOGS).combine_chunks()
    counts = pc.fill_null(pc.list_value_length(logs), 0)
    offsets = np.concatenate([[0], np.cumsum(np.from_dlpack(counts.cast(pa.int64())))]).astype(np.int32)
    names = pc.struct_field(logs.flatten(), "file_name")
    folders = files.column("partition").combine_chunks().take(pc.list_parent_indices(logs))
    inside = pc.utf8_ltrim(pc.binary_join_element_wise(folders, names, "/"), characters="/")
    return _lists(pc.binary_join_element_wise(root, inside, "/") if root else inside, offsets)


def _lists(values: Any, offsets: NDArray[np.int32]) -> pa.Array[Any]:
    lists: Any = pa.ListArray.from_arrays(from_numpy(offsets), values)
    return lists  # type: ignore[no-any-return]
