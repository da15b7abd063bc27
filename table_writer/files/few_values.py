"""Columns of few values, which are cheaper to handle as dictionaries."""

from __future__ import annotations

import pyarrow as pa

from table_format.base_file.footer import BaseFileFooter
from table_format.meta_columns import RECORD_KEY

# Bytes of a value in a dictionary-encoded chunk, its share of the dictionary included: about 1000 distinct values.
_FEW_VALUES_BYTES = 1.5


def few_valued_columns(found: BaseFileFooter) -> list[str]:
    """String columns of a base file whose values are few, as its footer's sizes tell.

    Read as dictionaries they need not be spelled out, moved and looked up again to be written.
    """
    strings = {field.name for field in found.schema if pa.types.is_string(field.type)} - {RECORD_KEY}
    if found.metadata.num_row_groups == 0:
        return []
    group = found.metadata.row_group(0)
    chunks = [group.column(index) for index in range(group.num_columns)]
    return [
        chunk.path_in_schema
        for chunk in chunks
        if chunk.path_in_schema in strings
        and not {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}.isdisjoint(chunk.encodings)
        and chunk.total_uncompressed_size < _FEW_VALUES_BYTES * max(1, chunk.num_values)
    ]
