"""The record keys that a filter names, as the texts that a table stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from catalog.stages.stage import StageInput
from pushdown.bindings import key_bindings
from pushdown.columns import ResolvedColumn, resolve_column
from pushdown.errors import UnknownColumnError
from pushdown.verdict import CannotPrune
from table_format.config.table_config import KeyGeneratorType, TableConfig
from table_format.keys.bucket_index import EMPTY_KEY_PART, NULL_KEY_PART
from table_format.keys.key_text import key_texts
from table_format.meta_columns import RECORD_KEY

MOST_KEYS = 10_000
"""A filter that names more keys than this is taken not to name any."""

# A key of one field is its value alone; with other generators releases differ, and some write `field:value`.
_PLAIN_KEYS = frozenset({KeyGeneratorType.SIMPLE, KeyGeneratorType.NON_PARTITION, KeyGeneratorType.TIMESTAMP})


@dataclass(frozen=True)
class NamedKeys:
    """The record keys that a filter leaves.

    Attributes:
        named_by: the columns that the filter names.
        texts: each record key in every form that releases write it; empty when no record can match.
    """

    named_by: str
    texts: tuple[str, ...]


def named_keys(given: StageInput, limit: int = MOST_KEYS) -> NamedKeys | CannotPrune:
    """The record keys of all records that can make the filter true; or why the filter does not tell.

    Args:
        given: what came in.
        limit: with more keys than this the filter counts as naming none.
    """
    keys = key_bindings(given.expression, (RECORD_KEY,), limit)
    if keys is not None:
        return NamedKeys(RECORD_KEY, tuple(values[0] for values in keys if values[0] is not None))
    fields, schema = given.snapshot.config.record_key_fields, given.snapshot.data_schema
    if not fields:
        return CannotPrune("the table has no record key fields")
    try:
        columns = [resolve_column(field, schema) for field in fields]
    except UnknownColumnError as error:
        return CannotPrune(f"key columns are not in the schema: {error}")
    bindings = key_bindings(given.expression, tuple(column.name for column in columns), limit)
    if bindings is None:
        return CannotPrune(f"the filter does not name the values of {', '.join(fields)}")
    return _texts_of(given.snapshot.config, columns, bindings)


def _texts_of(
    config: TableConfig, columns: Sequence[ResolvedColumn], bindings: Sequence[tuple[Any, ...]]
) -> NamedKeys | CannotPrune:
    vague = [column for column in columns if not text_is_certain(column.type)]
    if vague:
        return CannotPrune(f"releases differ in the key text of {vague[0].name}, a {vague[0].type}")
    texts: list[list[Any]] = [
        key_texts(pa.array([values[i] for values in bindings], column.type), column.name).to_pylist()
        for i, column in enumerate(columns)
    ]
    fields = config.record_key_fields
    if len(fields) > 1:
        return NamedKeys(", ".join(fields), tuple(composite_texts(fields, [*zip(*texts, strict=True)])))
    if None in texts[0]:
        return CannotPrune("no writer makes a key of null: there is no telling where it would be")
    return NamedKeys(fields[0], tuple(single_texts(config, texts[0])))


def single_texts(config: TableConfig, values: Iterable[str]) -> list[str]:
    """The keys of a table with one key field, in both forms where releases differ.

    Args:
        config: of the table.
        values: texts of the key field.
    """
    plain = [*values]
    if config.key_generator in _PLAIN_KEYS:
        return plain
    return [*plain, *(f"{config.record_key_fields[0]}:{value}" for value in plain)]


def composite_texts(fields: Sequence[str], values: Iterable[Sequence[str | None]]) -> list[str]:
    """Keys of several fields: `a:1,b:x`, with words for null and for the empty string.

    Args:
        fields: the key fields.
        values: for each key, the text of each field.
    """
    return [",".join(f"{field}:{_piece(text)}" for field, text in zip(fields, row, strict=True)) for row in values]


def text_is_certain(kind: pa.DataType) -> bool:
    """Whether all releases write a value of the type alike in a key."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_date(kind))


def _piece(text: str | None) -> str:
    if text is None:
        return NULL_KEY_PART
    return text or EMPTY_KEY_PART
