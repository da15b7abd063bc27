"""Second stage: the bucket of a record is a hash of its key, so a filter that names keys names buckets.

What a filter binds is turned into the text that record keys have, and hashed as each generation of Hudi's releases
does it. Any doubt about which bucket that is keeps all buckets.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.scan_options import BUCKET_COUNT
from catalog.snapshot import Snapshot
from catalog.stages.stage import StageInput
from pushdown.bindings import key_bindings
from pushdown.columns import resolve_column
from pushdown.errors import UnknownColumnError
from pushdown.verdict import Candidates, CannotPrune, Verdict
from table_format.base_file import footer
from table_format.bucket_index import EMPTY_KEY_PART, NULL_KEY_PART, BucketHashRule, possible_buckets
from table_format.errors import CorruptFileError, MissingFileError
from table_format.java_hash import bucket_id_one
from table_format.key_text import key_text
from table_format.meta_columns import RECORD_KEY
from table_format.table_config import KeyGeneratorType

_MOST_KEYS = 10_000
_CHECKED_FILES = 4
# A key of one field is its value alone; with other generators releases differ, and some write `field:value`.
_PLAIN_KEYS = frozenset({KeyGeneratorType.SIMPLE, KeyGeneratorType.NON_PARTITION, KeyGeneratorType.TIMESTAMP})


@dataclass(frozen=True)
class _Layout:
    """How a table's buckets are made."""

    count: int
    key_fields: tuple[str, ...]
    hash_fields: tuple[str, ...]
    rule: BucketHashRule
    plain_keys: bool


def prune_by_bucket(given: StageInput) -> Verdict:
    """Keep the files of the buckets in which the keys that the filter names can lie (RFC-29 hash index).

    Args:
        given: what came in.

    Returns:
        The files kept, or why the filter or the table does not tell buckets.
    """
    layout = _layout(given)
    if isinstance(layout, CannotPrune):
        return layout
    wanted = _wanted_buckets(given, layout)
    if isinstance(wanted, CannotPrune):
        return wanted
    buckets = _bucket_numbers(given, layout)
    if isinstance(buckets, CannotPrune):
        return buckets
    named, found = wanted
    keep = np.isin(buckets[given.rows], np.fromiter(found, np.int64, len(found)))
    return Candidates(keep, f"{len(found):,} of {layout.count:,} buckets can hold the keys named by {named}")


def _layout(given: StageInput) -> _Layout | CannotPrune:
    config, options = given.snapshot.config, given.options
    if config.index_type is not None and config.index_type.upper() not in {"BUCKET", "BUCKET_INDEX"}:
        return CannotPrune(f"the table's index is {config.index_type}")
    count = config.bucket_count or options.bucket_count
    if count is None:
        return CannotPrune(f"how many buckets there are is not in hoodie.properties; {BUCKET_COUNT} can say it")
    if config.bucket_count and options.bucket_count and config.bucket_count != options.bucket_count:
        return CannotPrune(f"hoodie.properties say {config.bucket_count} buckets, the options {options.bucket_count}")
    if not config.record_key_fields:
        return CannotPrune("the table has no record key fields")
    hashed = config.bucket_hash_fields or options.bucket_hash_fields or config.record_key_fields
    stray = [field for field in hashed if field not in config.record_key_fields]
    if stray:
        return CannotPrune(f"hash field {stray[0]} is not a record key field")
    # Hudi takes the parts in the order in which they stand in the key.
    ordered = tuple(field for field in config.record_key_fields if field in hashed)
    plain = config.key_generator in _PLAIN_KEYS
    return _Layout(count, config.record_key_fields, ordered, BucketHashRule.of_properties(config.raw), plain)


def _bucket_numbers(given: StageInput, layout: _Layout) -> NDArray[np.int64] | CannotPrune:
    """The bucket of each file of the snapshot, which must fit the layout as a whole, not only what came in."""
    snapshot = given.snapshot
    if snapshot.has_partition_bucket_counts():
        return CannotPrune("bucket counts differ between partitions")
    buckets = snapshot.bucket_numbers()
    if buckets is None:
        return CannotPrune("a file group's id does not begin with a bucket number: there is no simple bucket index")
    largest = int(buckets.max(initial=-1))
    if largest >= layout.count:
        return CannotPrune(f"there is a bucket {largest}, although the bucket count is said to be {layout.count}")
    if layout not in snapshot.checked_buckets:
        snapshot.checked_buckets[layout] = _contradiction(snapshot, layout, buckets)
    doubt = snapshot.checked_buckets[layout]
    return buckets if doubt is None else CannotPrune(doubt)


def _contradiction(snapshot: Snapshot, layout: _Layout, buckets: NDArray[np.int64]) -> str | None:
    """What in a few footers speaks against the layout; None for nothing.

    Apache's writers do not read a bucket count from the table: who gave another one has made other buckets.
    """
    paths: Any = snapshot.files.column("path")
    last = max(len(buckets) - 1, 0)
    for row in np.unique(np.linspace(0, last, _CHECKED_FILES).astype(np.int64))[: len(buckets)]:
        path = str(paths[int(row)].as_py())
        try:
            found = footer(snapshot.client.storage, path)
        except (MissingFileError, CorruptFileError):
            continue
        for key in (found.min_key, found.max_key):
            if key and int(buckets[row]) not in possible_buckets(key, layout.hash_fields, layout.count):
                fields = ", ".join(layout.hash_fields)
                return f"{layout.count} buckets hashed by {fields} cannot be: key {key!r} is in {path}"
    return None


def _wanted_buckets(given: StageInput, layout: _Layout) -> tuple[str, set[int]] | CannotPrune:
    keys = key_bindings(given.expression, (RECORD_KEY,), _MOST_KEYS)
    if keys is not None:
        texts = [values[0] for values in keys if values[0] is not None]
        return RECORD_KEY, _union(possible_buckets(text, layout.hash_fields, layout.count) for text in texts)
    return _buckets_of_columns(given, layout)


def _buckets_of_columns(given: StageInput, layout: _Layout) -> tuple[str, set[int]] | CannotPrune:
    schema = given.snapshot.data_schema
    try:
        kinds = {field: resolve_column(field, schema).type for field in layout.key_fields}
        names = [resolve_column(field, schema).name for field in layout.hash_fields]
    except UnknownColumnError as error:
        return CannotPrune(f"key columns are not in the schema: {error}")
    bindings = key_bindings(given.expression, tuple(names), _MOST_KEYS)
    if bindings is None:
        return CannotPrune(f"the filter does not name the values of {', '.join(layout.hash_fields)}")
    vague = [field for field in layout.hash_fields if not _text_is_certain(kinds[field])]
    if vague:
        return CannotPrune(f"releases differ in the key text of {vague[0]}, a {kinds[vague[0]]}")
    free = [field for field in layout.key_fields if field not in layout.hash_fields]
    splitting = [field for field in free if not _text_is_plain(kinds[field])]
    if splitting and layout.rule is BucketHashRule.SPLIT:
        return CannotPrune(
            f"{splitting[0]} is part of the key and not of the hash, and releases up to 1.0 let a comma in it "
            "change the bucket"
        )
    types = [kinds[field] for field in layout.hash_fields]
    found = _union(_buckets_of_values(values, types, layout) for values in bindings)
    return ", ".join(layout.hash_fields), found


def _buckets_of_values(values: Sequence[Any], kinds: Sequence[pa.DataType], layout: _Layout) -> set[int]:
    """The buckets of one combination of hash field values, over all forms that a record key may have."""
    texts = [key_text(value, kind) for value, kind in zip(values, kinds, strict=True)]
    found = {bucket_id_one(texts, layout.count)}
    if len(layout.key_fields) == 1:
        text = texts[0]
        if text is None:  # no writer makes such a key: no telling where it would be
            return set(range(layout.count))
        named = f"{layout.key_fields[0]}:{text}"
        forms: Iterable[str] = (text,) if layout.plain_keys else (text, named)
    else:
        pieces = dict(zip(layout.hash_fields, (_piece(text) for text in texts), strict=True))
        forms = (",".join(f"{field}:{pieces.get(field, '0')}" for field in layout.key_fields),)
    return found.union(*(possible_buckets(form, layout.hash_fields, layout.count) for form in forms))


def _piece(text: str | None) -> str:
    if text is None:
        return NULL_KEY_PART
    return text or EMPTY_KEY_PART


def _text_is_certain(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_date(kind))


def _text_is_plain(kind: pa.DataType) -> bool:
    """Whether no value's text can hold a comma, in whichever way a release writes it."""
    types = pa.types
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    return bool(number or types.is_date(kind) or types.is_timestamp(kind))


def _union(sets: Iterable[set[int]]) -> set[int]:
    return set(itertools.chain.from_iterable(sets))
