"""Dictionary-encodes strings of few distinct values before rows are moved: numbers are cheaper to gather and encode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import from_numpy, one_chunk
from table_format.meta_columns import RECORD_KEY

# With fewer rows it saves nothing.
_LEAST_ROWS: Final = 1 << 12
_SAMPLE: Final = 4096
_MOST_VALUES: Final = 128

Encode = Callable[[], Any]


def encoders(rows: pa.Table) -> Mapping[str, Encode]:
    """Functions for the columns that may have few values, by name; each returns the column to put in its place.

    The calls are independent of each other, and release the interpreter's lock.

    Args:
        rows: a batch, each column in one piece.
    """
    if rows.num_rows < _LEAST_ROWS:
        return {}
    texts = [field.name for field in rows.schema if pa.types.is_string(field.type) and field.name != RECORD_KEY]
    return {name: partial(with_dictionary, one_chunk(rows.column(name))) for name in texts}


def with_dictionary(texts: Any) -> Any:
    """The same values with a dictionary; the texts unchanged if a sample shows many values, or there are many.

    Args:
        texts: a string array.
    """
    step = max(1, len(texts) // _SAMPLE)
    known = pc.unique(texts.take(from_numpy(np.arange(0, len(texts), step)))).drop_null()
    if not 0 < len(known) <= _MOST_VALUES:
        return texts
    codes = _codes_of_letters(texts, known)
    if codes is None:
        # half the time of `dictionary_encode`
        codes = pc.index_in(texts, value_set=known)
    if codes.null_count > texts.null_count:
        unknown = texts.filter(pc.and_(pc.is_null(codes), pc.is_valid(texts))).unique()
        if len(known) + len(unknown) > _MOST_VALUES:
            return texts
        known = pa.concat_arrays([known, unknown])
        codes = pc.index_in(texts, value_set=known)
    return pa.DictionaryArray.from_arrays(codes, known)


def _codes_of_letters(texts: Any, known: Any) -> Any:
    """The index of each text among the known ones, if all of these are a single byte; else None.

    A table of all bytes takes a tenth of the time of a hash table.
    """
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    if texts.null_count or not (np.diff(offsets) == 1).all():
        return None
    places = np.full(1 << 8, -1, np.int32)
    for place, text in enumerate(known.to_pylist()):
        places[ord(text)] = place
    codes = np.take(places, np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]])
    return None if (codes < 0).any() else from_numpy(codes)
