"""Buckets that Trino may join and group by: only where the number of each file is surely the hash of its rows' values.

A wrong number would give wrong rows without an error, so what is said here is checked again: by the bounds of all files
where statistics have them, and by the connector, row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from catalog.concurrency.caches import memoize
from catalog.snapshots.scan_options import ScanOptions
from catalog.snapshots.snapshot import Snapshot
from catalog.stages.bucket import CountedBuckets, simple_buckets
from catalog.stages.named_keys import HashFields, hash_fields, uncertain_keys
from hudi_catalog.trino.connector.types import ConnectorColumn
from pushdown.verdict import CannotPrune
from table_format.codecs.arrow_numpy import from_numpy, valid_mask
from table_format.errors import StorageError
from table_format.keys.java_hash import bucket_ids
from table_format.keys.key_text import key_texts

PLAIN_TEXTS: Final = "hoodie.catalog.trino.plain.keys"
"""The option by which an operator says that text keys hold no comma and no colon."""

types = pa.types


def announced_buckets(
    snapshot: Snapshot, columns: Sequence[ConnectorColumn], options: ScanOptions, *, plain_texts: bool
) -> dict[str, Any]:
    """The buckets of a table as Trino's connector learns of them.

    Args:
        snapshot: of the table.
        columns: of the table in Trino.
        options: of the scan.
        plain_texts: keys of one text column hold no comma and no colon, as the service's operator says.

    Returns:
        `count` of the buckets and `columns`, names in Trino in the order in which they are hashed; or `reason`, why
        there are none.
    """
    layout = memoize(snapshot, ("announced buckets", plain_texts), lambda: _layout(snapshot, options, plain_texts))
    if isinstance(layout, CannotPrune):
        return {"reason": layout.reason}
    count, fields = layout
    names = {column.source: column.name for column in columns}
    return {"count": count, "columns": [names[field] for field in fields]}


def _layout(snapshot: Snapshot, options: ScanOptions, plain_texts: bool) -> tuple[int, tuple[str, ...]] | CannotPrune:
    fields = hash_fields(snapshot.config, options)
    if isinstance(fields, CannotPrune):
        return fields
    doubt = _doubtful_keys(snapshot, fields, plain_texts)
    if doubt is not None:
        return CannotPrune(doubt)
    hashed = simple_buckets(snapshot, options)
    if isinstance(hashed, CannotPrune):
        return hashed
    buckets = hashed[1]
    stray = _stray_bounds(snapshot, fields.hashed, buckets)
    return CannotPrune(stray) if stray is not None else (buckets.count, fields.hashed)


def _doubtful_keys(snapshot: Snapshot, fields: HashFields, plain_texts: bool) -> str | None:
    """Why the hash of a row is not that of its columns' texts; None if it is, in all releases."""
    doubt, single = uncertain_keys(snapshot, fields), len(fields.key_fields) == 1
    if doubt is not None:
        return doubt
    kinds = {field.name: field.type for field in snapshot.data_schema}
    for name in fields.key_fields:
        kind = kinds.get(name)
        if kind is not None and (_is_exact(kind) or (single and plain_texts and types.is_string(kind))):
            continue
        if kind is not None and single and types.is_string(kind):
            return f"a colon in {name} would change the bucket, unless {PLAIN_TEXTS} says there is none"
        return f"the text of {name}, {'not a column' if kind is None else f'a {kind}'}, in keys is not certain"
    return None


def _is_exact(kind: pa.DataType) -> bool:
    return bool(types.is_signed_integer(kind) or types.is_date32(kind))


def _stray_bounds(snapshot: Snapshot, hashed: Sequence[str], buckets: CountedBuckets) -> str | None:
    """A file whose least or greatest value belongs to another bucket; None if there is none, or nothing is known."""
    if len(hashed) != 1:
        return None
    kind = snapshot.data_schema.field(hashed[0]).type
    try:
        indexed = snapshot.indexed_column(hashed[0], kind)
    except StorageError:
        return None
    if isinstance(indexed, CannotPrune) or types.is_string(kind):  # bounds of texts may be cut
        return None
    rows = snapshot.live_rows
    for bounds in (indexed.statistics.lower, indexed.statistics.upper):
        values = bounds.take(from_numpy(rows))
        known = np.flatnonzero(valid_mask(values))
        hashes = bucket_ids([key_texts(values.take(from_numpy(known)), hashed[0])], buckets.count)
        wrong = np.flatnonzero(hashes != buckets.numbers[rows[known]])
        if len(wrong):
            at = known[wrong[0]]
            return f"{hashed[0]} = {values[int(at)]} is in {snapshot.path(int(rows[at]))}, which is of another bucket"
    return None
