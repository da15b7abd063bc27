"""Which values of the hash fields lie in which bucket, as far as a join or a group-by may rely on it.

A look-up by key asks for every bucket that any release could have chosen. A join of buckets needs more: that equal
values are in equal buckets, of both tables, whatever wrote them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from catalog.snapshots.scan_options import ScanOptions
from catalog.snapshots.snapshot import Snapshot
from catalog.stages.bucket import CountedBuckets, simple_buckets
from catalog.stages.named_keys import PLAIN_KEYS, HashFields, hash_fields, text_is_certain, text_is_plain
from pushdown.verdict import CannotPrune
from table_format.keys.bucket_index import EMPTY_KEY_PART, NULL_KEY_PART

#: Files whose footers are compared with the buckets: a join reads them all, and none of its rows can be read elsewhere.
_CHECKED_FILES = 256
#: Values that stand for another one in a composite key, and for themselves in a key of one field.
WORDS = (NULL_KEY_PART, EMPTY_KEY_PART)


@dataclass(frozen=True, eq=False)
class KeyPlacement:
    """A table whose bucket is one function of the values of its hash fields.

    Attributes:
        buckets: their count, and the bucket of each file.
        fields: the hash fields, in the order in which they are hashed.
        kinds: their types.
        separators: characters that releases split keys at: texts without them, and other than `WORDS`, are hashed alike
            by every release and in every table.
    """

    buckets: CountedBuckets
    fields: tuple[str, ...]
    kinds: tuple[pa.DataType, ...]
    separators: str

    @property
    def texts(self) -> tuple[str, ...]:
        """The hash fields whose values may hold separators."""
        return tuple(name for name, kind in zip(self.fields, self.kinds, strict=True) if pa.types.is_string(kind))


def key_placement(snapshot: Snapshot, options: ScanOptions) -> KeyPlacement | CannotPrune:
    """The placement of a table's rows, or why it is not certain enough.

    Args:
        snapshot: of the table.
        options: of the scan, which may name the bucket count and the hash fields.
    """
    fields = hash_fields(snapshot.config, options)
    if isinstance(fields, CannotPrune):
        return fields
    kinds = _kinds(snapshot, fields)
    if isinstance(kinds, CannotPrune):
        return kinds
    hashed = simple_buckets(snapshot, options, _CHECKED_FILES)
    if isinstance(hashed, CannotPrune):
        return hashed
    separators = ":" if len(fields.key_fields) == 1 else ":,"
    return KeyPlacement(hashed[1], fields.hashed, kinds, separators)


def _kinds(snapshot: Snapshot, fields: HashFields) -> tuple[pa.DataType, ...] | CannotPrune:
    """The types of the hash fields, if equal values are hashed alike."""
    schema = snapshot.data_schema
    missing = next((name for name in fields.key_fields if schema.get_field_index(name) < 0), None)
    if missing is not None:
        return CannotPrune(f"key field {missing} is not a column of its own")
    if len(fields.key_fields) == 1 and snapshot.config.key_generator not in PLAIN_KEYS:
        return CannotPrune("releases differ in what this key generator makes of a key of one field")
    for name in fields.key_fields:
        kind = schema.field(name).type
        if name in fields.hashed and not text_is_certain(kind):
            return CannotPrune(f"equal values of {name}, a {kind}, may be hashed in different forms")
        if name not in fields.hashed and not text_is_plain(kind):
            return CannotPrune(f"{name} is part of the key and not of the hash, and a comma in it changes the bucket")
    return tuple(schema.field(name).type for name in fields.hashed)
