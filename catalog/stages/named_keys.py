"""Record keys and hashed key parts that a filter names, as the texts that a table stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from catalog.snapshots.scan_options import ScanOptions
from catalog.snapshots.snapshot import Snapshot
from catalog.stages.stage import StageInput
from pushdown.columns import ResolvedColumn, resolve_column
from pushdown.errors import UnknownColumnError
from pushdown.evaluation.key_bindings import key_bindings
from pushdown.verdict import CannotPrune
from table_format.config.table_config import KeyGeneratorType, TableConfig
from table_format.keys.bucket_index import EMPTY_KEY_PART, NULL_KEY_PART, BucketHashRule, hash_parts
from table_format.keys.key_text import key_texts
from table_format.meta_columns import RECORD_KEY

MOST_KEYS = 10_000
"""A filter that names more keys counts as naming none."""

PLAIN_KEYS = frozenset({KeyGeneratorType.SIMPLE, KeyGeneratorType.NON_PARTITION, KeyGeneratorType.TIMESTAMP})
"""Generators whose key of one field is its value alone; with others releases differ, and some write `field:value`."""
COMPOSITE_KEYS = PLAIN_KEYS | {KeyGeneratorType.COMPLEX, KeyGeneratorType.CUSTOM}
"""Generators whose key of several fields all releases write alike."""
_UNKNOWN_GENERATOR = CannotPrune("how the table's own key generator makes keys of columns is not known")
HashParts: TypeAlias = "tuple[str | None, ...]"


@dataclass(frozen=True)
class NamedKeys:
    """The record keys that rows of a filter can have.

    Attributes:
        named_by: the columns that the filter names.
        count: number of keys.
        texts: each record key in every form that releases write it; empty when no record can match.
    """

    named_by: str
    count: int
    texts: tuple[str, ...]


def named_keys(stage_input: StageInput, limit: int = MOST_KEYS) -> NamedKeys | CannotPrune:
    """The record keys of all records that can make the filter true; or why the filter does not name them.

    Args:
        stage_input: the snapshot, the bound filter, the files left by earlier stages, and the options.
        limit: with more keys than this the filter counts as naming none.
    """
    known: NamedKeys | CannotPrune | None
    known_limit, known = stage_input.memo.get("named keys", (-1, None))
    if known is None or limit > known_limit or (isinstance(known, NamedKeys) and known.count > limit):
        known = _named_keys(stage_input, limit)
        stage_input.memo["named keys"] = limit, known
    return known


def _named_keys(stage_input: StageInput, limit: int) -> NamedKeys | CannotPrune:
    keys = key_bindings(stage_input.expression, (RECORD_KEY,), limit, simplified=True)
    if keys is not None:
        return NamedKeys(RECORD_KEY, len(keys), tuple(values[0] for values in keys if values[0] is not None))
    config, schema = stage_input.snapshot.config, stage_input.snapshot.data_schema
    fields = config.record_key_fields
    if not fields:
        return CannotPrune("the table has no record key fields")
    if config.key_generator is KeyGeneratorType.OTHER:
        return _UNKNOWN_GENERATOR
    try:
        columns = [resolve_column(field, schema) for field in fields]
    except UnknownColumnError as error:
        return CannotPrune(f"key columns are not in the schema: {error}")
    bindings = key_bindings(stage_input.expression, tuple(column.name for column in columns), limit, simplified=True)
    if bindings is None:
        return CannotPrune(f"the filter does not name the values of {', '.join(fields)}")
    return _texts_of(config, columns, bindings)


def _texts_of(
    config: TableConfig, columns: Sequence[ResolvedColumn], bindings: Sequence[tuple[Any, ...]]
) -> NamedKeys | CannotPrune:
    ambiguous = [column for column in columns if not text_is_certain(column.type)]
    if ambiguous:
        return CannotPrune(f"releases differ in the key text of {ambiguous[0].name}, a {ambiguous[0].type}")
    texts: list[list[Any]] = [
        key_texts(pa.array([values[i] for values in bindings], column.type), column.name).to_pylist()
        for i, column in enumerate(columns)
    ]
    fields = config.record_key_fields
    if len(fields) > 1:
        return NamedKeys(", ".join(fields), len(bindings), tuple(composite_texts(fields, [*zip(*texts, strict=True)])))
    if None in texts[0]:
        return CannotPrune("no writer makes a key of null, so where such a row would be is not known")
    return NamedKeys(fields[0], len(bindings), tuple(single_texts(config, texts[0])))


def single_texts(config: TableConfig, values: Iterable[str]) -> list[str]:
    """The keys of a table with one key field, in both forms where releases differ.

    Args:
        config: of the table.
        values: texts of the key field.
    """
    plain = [*values]
    if config.key_generator in PLAIN_KEYS:
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


@dataclass(frozen=True)
class HashFields:
    """The part of a table's record keys that is hashed.

    Attributes:
        key_fields: the record key fields.
        hashed: those of them that are hashed, in the same order.
        rule: how the table's releases split keys.
    """

    key_fields: tuple[str, ...]
    hashed: tuple[str, ...]
    rule: BucketHashRule


@dataclass(frozen=True)
class HashedKeys:
    """The hashed key parts that rows of a filter can have.

    Attributes:
        named_by: the columns that the filter names.
        parts: what is hashed of each record, in every form that releases make of it; empty when no record can match.
    """

    named_by: str
    parts: frozenset[HashParts]


def hash_fields(config: TableConfig, options: ScanOptions) -> HashFields | CannotPrune:
    """The key fields that a table hashes, by its properties or the scan's options."""
    if config.has_buckets is False:
        return CannotPrune(f"the table's index is {config.index_type}")
    if not config.record_key_fields:
        return CannotPrune("the table has no record key fields")
    hashed = config.bucket_hash_fields or options.bucket_hash_fields or config.record_key_fields
    stray = [field for field in hashed if field not in config.record_key_fields]
    if stray:
        return CannotPrune(f"hash field {stray[0]} is not a record key field")
    # Hudi takes the parts in their order in the key.
    ordered = tuple(field for field in config.record_key_fields if field in hashed)
    return HashFields(config.record_key_fields, ordered, BucketHashRule.of_properties(config.raw))


def uncertain_keys(snapshot: Snapshot, fields: HashFields) -> str | None:
    """Why a row's columns may not tell what is hashed of its key, whatever their values; None if they do.

    Texts with commas or colons are another matter: there releases differ by value.
    """
    if snapshot.schema_history is not None:
        return "columns may have been renamed or changed since files were written"
    generator = snapshot.config.key_generator
    if generator not in (PLAIN_KEYS if len(fields.key_fields) == 1 else COMPOSITE_KEYS):
        name = "none" if generator is None else generator.value
        return f"releases differ in the keys of the key generator {name}"
    kinds = {field.name: field.type for field in snapshot.data_schema}
    for name in fields.hashed:
        kind = kinds.get(name)
        if kind is None or not text_is_certain(kind):
            return f"the text of {name}, {'not a column' if kind is None else f'a {kind}'}, in keys is not certain"
    return None


def parts_of_key(record_key: str, fields: HashFields) -> set[HashParts]:
    """The hashed parts of a record key, as each generation of writers splits it."""
    return {tuple(hash_parts(record_key, fields.hashed, rule)) for rule in BucketHashRule}


def hashed_keys(stage_input: StageInput, fields: HashFields) -> HashedKeys | CannotPrune:
    """The hashed parts of the records that can make the filter true; or why the filter does not name them."""
    keys = key_bindings(stage_input.expression, (RECORD_KEY,), MOST_KEYS, simplified=True)
    if keys is not None:
        texts = [values[0] for values in keys if values[0] is not None]
        return HashedKeys(RECORD_KEY, _union(parts_of_key(text, fields) for text in texts))
    if stage_input.snapshot.config.key_generator is KeyGeneratorType.OTHER:
        return _UNKNOWN_GENERATOR
    return _of_columns(stage_input, fields)


def _of_columns(stage_input: StageInput, fields: HashFields) -> HashedKeys | CannotPrune:
    schema = stage_input.snapshot.data_schema
    try:
        kinds = {field: resolve_column(field, schema).type for field in fields.key_fields}
        names = tuple(resolve_column(field, schema).name for field in fields.hashed)
    except UnknownColumnError as error:
        return CannotPrune(f"key columns are not in the schema: {error}")
    bindings = key_bindings(stage_input.expression, names, MOST_KEYS, simplified=True)
    if bindings is None:
        return CannotPrune(f"the filter does not name the values of {', '.join(fields.hashed)}")
    ambiguous = [field for field in fields.hashed if not text_is_certain(kinds[field])]
    if ambiguous:
        return CannotPrune(f"releases differ in the key text of {ambiguous[0]}, a {kinds[ambiguous[0]]}")
    unhashed = [field for field in fields.key_fields if field not in fields.hashed]
    splitting = [field for field in unhashed if not text_is_plain(kinds[field])]
    if splitting and fields.rule is BucketHashRule.SPLIT:
        return CannotPrune(
            f"{splitting[0]} is part of the key and not of the hash, and releases up to 1.0 let a comma in it "
            "change the bucket"
        )
    if len(fields.key_fields) == 1 and any(values[0] is None for values in bindings):
        return CannotPrune("no writer makes a key of null, so where such a row would be is not known")
    columns = [
        key_texts(pa.array([values[i] for values in bindings], kinds[field]), field).to_pylist()
        for i, field in enumerate(fields.hashed)
    ]
    parts = _union(_all_forms(stage_input, fields, texts) for texts in zip(*columns, strict=True))
    return HashedKeys(", ".join(fields.hashed), parts)


def _all_forms(stage_input: StageInput, fields: HashFields, texts: HashParts) -> set[HashParts]:
    """The hashed parts of one combination of hash field values, for all forms of record keys."""
    if len(fields.key_fields) == 1:
        keys = single_texts(stage_input.snapshot.config, [text for text in texts if text is not None])
    else:
        # The values of fields that are not hashed do not matter, as long as their text is plain.
        known = dict(zip(fields.hashed, texts, strict=True))
        keys = composite_texts(fields.key_fields, [tuple(known.get(field, "0") for field in fields.key_fields)])
    return {texts}.union(*(parts_of_key(key, fields) for key in keys))


def text_is_plain(kind: pa.DataType) -> bool:
    """Whether no value's text can hold a comma, however a release writes it."""
    types = pa.types
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    return bool(number or types.is_date(kind) or types.is_timestamp(kind))


def _union(sets: Iterable[set[Any]]) -> frozenset[Any]:
    return frozenset().union(*sets)
