"""What Arrow types consist of, whatever their layout and however deep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

types = pa.types


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is a list of any layout."""
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def holds(kind: Any, test: Callable[[Any], bool]) -> bool:
    """Whether a type, or one of those that it consists of, is as asked for."""
    inner = [kind.value_type] if types.is_dictionary(kind) else [kind.field(at).type for at in range(kind.num_fields)]
    return test(kind) or any(holds(one, test) for one in inner)
