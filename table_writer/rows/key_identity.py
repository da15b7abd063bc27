"""Whether rows with one text of their record key are one record: keys of several fields can share a text.

Hudi joins the fields as `a:x,b:y`, so that the fields `x,b:y`, `z` and `x`, `y,b:z` have the same text, as have null
and the text `__null__`, or the empty text and `__empty__`. Rows are merged by the text; two such records would become
one. Texts that could be meant are rare, and only these are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, spans_of, to_numpy, valid_mask
from table_format.errors import RecordError
from table_format.keys.bucket_index import EMPTY_KEY_PART, NULL_KEY_PART
from table_format.keys.key_text import columns_of_fields, key_texts, raw_column

Rows = npt.NDArray[np.int64]

_WORDS: Final = (NULL_KEY_PART, EMPTY_KEY_PART)
_REMEDY: Final = "Change one of the values, or make the table with another column as record key"


def shared_fields(schema: pa.Schema, fields: Sequence[str]) -> tuple[str, ...]:
    """The fields of the record key where two records may share a text; none where that cannot be.

    Args:
        schema: columns of the rows.
        fields: of the record key, `a.b` for a member of a struct.
    """
    if len(fields) < 2 or not set(columns_of_fields(schema, fields)).issubset(schema.names):
        return ()
    kinds = [raw_column(schema.empty_table(), field).type for field in fields]
    return tuple(fields) if any(_is_text(kind) for kind in kinds) else ()


def doubtful_keys(keys: Any, fields: Sequence[str]) -> Rows | None:
    """Positions of the record keys whose text several records may have; None for none.

    Args:
        keys: record keys, a string array without nulls.
        fields: see `shared_fields`.
    """
    if not fields or not len(keys) or not _has_more_than_labels(keys, len(fields)):
        return None
    mask = pc.match_substring(keys, NULL_KEY_PART)
    for word in _WORDS[1:]:
        mask = pc.or_(mask, pc.match_substring(keys, word))
    for label in _labels(fields):
        mask = pc.or_(mask, pc.greater(pc.count_substring(keys, label), 1))
    positions = np.flatnonzero(to_numpy(mask))
    return positions if len(positions) else None


def key_forms(rows: pa.Table, fields: Sequence[str]) -> Any | None:
    """How the record keys of some rows are composed, where their texts do not show it.

    Args:
        rows: with the key columns.
        fields: see `shared_fields`.

    Returns:
        A text for each row that only rows of the same record share with it among those of one record key; null for
        rows whose fields are what their key's text is read as. None where that is so for all rows.
    """
    if not fields:
        return None
    texts = [_texts(raw_column(rows, field), field) for field in fields]
    ends = [*_labels(fields), None]
    odd = [_is_odd(text, end) for text, end in zip(texts, ends, strict=True) if text is not None]
    if not odd:
        return None
    mask = odd[0]
    for more in odd[1:]:
        mask = pc.or_(mask, more)
    positions = np.flatnonzero(to_numpy(mask))
    if not len(positions):
        return None
    chosen = from_numpy(positions)
    lengths = [
        pc.fill_null(
            pc.cast(pc.binary_length(_texts_of_all(raw_column(rows, field), field).take(chosen)), "string"), "-"
        )
        for field in fields
    ]
    places = np.full(rows.num_rows, -1, np.int64)
    places[positions] = np.arange(len(positions))
    forms: Any = pc.binary_join_element_wise(*lengths, ",")
    return forms.take(from_numpy(places, places >= 0))


def refuse_shared_keys(keys: Any, forms: Any, names: Any) -> None:
    """Refuse rows of one write that share a record key and are not one record.

    Args:
        keys: what is unique of each row: the record key, maybe with its partition.
        forms: see `key_forms`.
        names: the record key of each row, for the message.

    Raises:
        RecordError: there are such rows.
    """
    odd = np.flatnonzero(valid_mask(forms))
    if not len(odd):
        return
    concerned = np.flatnonzero(to_numpy(pc.is_in(keys, value_set=keys.take(from_numpy(odd)))))
    chosen = from_numpy(concerned)
    first = pc.index_in(keys.take(chosen), value_set=keys.take(chosen).unique())
    forms = pc.fill_null(forms.take(chosen), "")
    firsts = np.unique(to_numpy(first), return_index=True)[1]
    other = forms.take(from_numpy(firsts.astype(np.int64))).take(first)
    wrong = np.flatnonzero(to_numpy(pc.not_equal(forms, other)))
    if len(wrong):
        key = names[int(concerned[wrong[0]])].as_py()
        raise RecordError(
            f"rows of this write have different values in the fields of their record key, and the same key {key!r}, "
            f"as which Hudi joins these: one would replace the other. {_REMEDY}"
        )


def refuse_other_records(old: pa.Table, new: pa.Table, keys: Any, fields: Sequence[str]) -> None:
    """Refuse to merge rows into those of another record, whose key has the same text.

    Args:
        old: rows of the table, with the key columns.
        new: for each of them a row of the write with the same text of its key.
        keys: that text, for the message.
        fields: see `shared_fields`.

    Raises:
        RecordError: there are such rows.
    """
    refuse_other_forms(old, key_forms(new, fields), keys, fields, new)


def refuse_other_forms(
    old: pa.Table, forms: Any | None, keys: Any, fields: Sequence[str], new: pa.Table | None = None
) -> None:
    """As `refuse_other_records`, of new rows of which `key_forms` is left.

    Args:
        old: see `refuse_other_records`.
        forms: of the new rows, see `key_forms`.
        keys: see `refuse_other_records`.
        fields: see `shared_fields`.
        new: the key columns of the new rows, for the message; None where they are not at hand.

    Raises:
        RecordError: there are such rows.
    """
    stored = key_forms(old, fields)
    if stored is None and forms is None:
        return
    left, right = (pa.nulls(len(keys), pa.string()) if form is None else form for form in (stored, forms))
    wrong = np.flatnonzero(to_numpy(pc.not_equal(pc.fill_null(left, ""), pc.fill_null(right, ""))))
    if len(wrong):
        at = int(wrong[0])
        values, others = (None if rows is None else _values(rows, fields, at) for rows in (old, new))
        raise RecordError(
            f"{len(wrong)} row(s) have the record key of another record of the table, such as {keys[at].as_py()!r}: "
            f"the table's row has {', '.join(fields)} = {values}, the new one {others or 'others'}; Hudi joins both to "
            f"one key. Nothing is written, since one would replace the other. {_REMEDY}"
        )


def _values(rows: pa.Table, fields: Sequence[str], at: int) -> tuple[Any, ...]:
    return tuple(_texts_of_all(raw_column(rows, field), field)[at].as_py() for field in fields)


def _labels(fields: Sequence[str]) -> list[str]:
    return [f",{field}:" for field in fields[1:]]


def _is_text(kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _texts(column: Any, field: str) -> Any | None:
    """The texts of a column of texts; None for others, whose texts hold neither words nor labels."""
    return _texts_of_all(column, field) if _is_text(column.type) else None


def _texts_of_all(column: Any, field: str) -> Any:
    return one_chunk(key_texts(column, field))


def _is_odd(texts: Any, label: str | None) -> Any:
    """Where a field's text is read otherwise from a key: it is a word for another value, or has the next label."""
    mask = pc.is_in(texts, value_set=pa.array(_WORDS))
    if label is not None:
        mask = pc.or_(mask, pc.fill_null(pc.match_substring(texts, label), fill_value=False))
    return mask


def _has_more_than_labels(keys: Any, fields: int) -> bool:
    """Whether some key has a word, or a comma that belongs to a value, by a look at all their bytes at once."""
    data, starts, lengths = spans_of(keys)
    part = data[int(starts[0]) : int(starts[-1] + lengths[-1])]
    if np.count_nonzero(part == ord(",")) != len(keys) * (fields - 1):
        return True
    content = part.tobytes()
    return any(word.encode() in content for word in _WORDS)
