"""Arrow's compute functions, and a column as one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute

from table_format.codecs.byte_spans import binary_array

pc: Any = pyarrow.compute
"""Untyped: the published stubs know neither chunked columns nor plain values in many places."""


Column: TypeAlias = Any
"""An Arrow array; the stubs' array types are generic, and what functions return rarely tells its parameter."""


def schema_of(**fields: Any) -> pa.Schema:
    """An Arrow schema of named types."""
    named: Any = list(fields.items())
    return pa.schema(named)


def binaries(values: Sequence[bytes]) -> Column:
    """A binary array; unlike `pa.array`, this does not look for pandas first."""
    lengths = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
    return binary_array(np.frombuffer(b"".join(values), dtype=np.uint8), np.cumsum(lengths) - lengths, lengths)


def strings(values: Sequence[str]) -> Column:
    """A string array; see `binaries`."""
    return binaries([value.encode() for value in values]).cast(pa.string())
