"""Options of the connector service for Trino, typed and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.scan_options import whole_number
from catalog.trino.types import TYPE_KEYS, TypeMapping
from table_format.errors import OptionError

INDEX_JOINS = "hoodie.catalog.trino.index.joins"
SPLIT_SIZE = "hoodie.catalog.trino.split.size"
SPLIT_LIFETIME = "hoodie.catalog.trino.split.lifetime"
LEASE_IDLE = "hoodie.catalog.trino.lease.idle"
LEASE_MOST = "hoodie.catalog.trino.lease.most"
PAGE_SIZE = "hoodie.catalog.trino.page.size"
BATCH_ROWS = "hoodie.catalog.trino.batch.rows"
CURSOR_MEMORY = "hoodie.catalog.trino.cursor.memory"
CURSOR_IDLE = "hoodie.catalog.trino.cursor.idle"
KEYS = (
    *TYPE_KEYS,
    INDEX_JOINS,
    SPLIT_SIZE,
    SPLIT_LIFETIME,
    LEASE_IDLE,
    LEASE_MOST,
    PAGE_SIZE,
    BATCH_ROWS,
    CURSOR_MEMORY,
    CURSOR_IDLE,
)


@dataclass(frozen=True)
class TrinoOptions:
    """Options of the connector service.

    Attributes:
        types: the forms of types that the connector does not carry; `hoodie.catalog.trino.type.*`.
        index_joins: tables that may answer joins by their keys, as ``schema.table`` or ``*``;
            `hoodie.catalog.trino.index.joins`.
        split_size: base files beyond so many bytes are divided by row groups; `hoodie.catalog.trino.split.size`.
        split_lifetime: seconds that a split id is good for; `hoodie.catalog.trino.split.lifetime`.
        lease_idle: seconds without a call after which index look-ups no longer share a snapshot;
            `hoodie.catalog.trino.lease.idle`.
        lease_most: seconds that they share one at most; `hoodie.catalog.trino.lease.most`.
        page_size: bytes of a page at most, where Trino allows more; `hoodie.catalog.trino.page.size`.
        batch_rows: rows that are decoded at once; `hoodie.catalog.trino.batch.rows`.
        cursor_memory: bytes that files read in part may hold between two pages; `hoodie.catalog.trino.cursor.memory`.
        cursor_idle: seconds after which such a file is closed; `hoodie.catalog.trino.cursor.idle`.
    """

    types: TypeMapping = field(default_factory=TypeMapping)
    index_joins: tuple[str, ...] = ()
    split_size: int = 32 << 20
    split_lifetime: float = 86_400.0
    lease_idle: float = 1.0
    lease_most: float = 30.0
    page_size: int = 8 << 20
    batch_rows: int = 65_536
    cursor_memory: int = 256 << 20
    cursor_idle: float = 60.0

    @classmethod
    def parse(cls, options: Mapping[str, str] | None = None) -> TrinoOptions:
        """Options by their keys.

        Raises:
            OptionError: an unknown key, or a value that does not fit it.
        """
        values = {key: str(value) for key, value in (options or {}).items()}
        unknown = sorted(set(values) - set(KEYS))
        if unknown:
            raise OptionError(f"{unknown[0]}: no such option of the service for Trino; there are {', '.join(KEYS)}")
        standard = cls()
        return cls(
            types=TypeMapping.of(values),
            index_joins=tuple(name.strip() for name in values.get(INDEX_JOINS, "").split(",") if name.strip()),
            split_size=whole_number(values, SPLIT_SIZE, 1) or standard.split_size,
            split_lifetime=_seconds(values, SPLIT_LIFETIME, standard.split_lifetime),
            lease_idle=_seconds(values, LEASE_IDLE, standard.lease_idle),
            lease_most=_seconds(values, LEASE_MOST, standard.lease_most),
            page_size=whole_number(values, PAGE_SIZE, 1) or standard.page_size,
            batch_rows=whole_number(values, BATCH_ROWS, 1) or standard.batch_rows,
            cursor_memory=whole_number(values, CURSOR_MEMORY, 1) or standard.cursor_memory,
            cursor_idle=_seconds(values, CURSOR_IDLE, standard.cursor_idle),
        )


def _seconds(values: Mapping[str, str], key: str, default: float) -> float:
    text = values.get(key)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise OptionError(f"{key}: {text!r} is not a number of seconds")
    return number
