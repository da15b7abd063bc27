"""Options of the rewriting of queries, typed and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.scan_options import FOOTER_LIMIT, THREADS, UNIQUE_KEYS, ScanOptions, whole_number
from table_format.errors import OptionError

CATALOGS = "hoodie.catalog.gateway.trino.catalogs"
KEPT_AT_MOST = "hoodie.catalog.gateway.files.kept.most"
PATHS = "hoodie.catalog.gateway.paths.most"
PATHS_LENGTH = "hoodie.catalog.gateway.paths.length"
QUERY_LENGTH = "hoodie.catalog.gateway.query.length"
KEYS = (CATALOGS, KEPT_AT_MOST, PATHS, PATHS_LENGTH, QUERY_LENGTH)
SCAN_KEYS = (FOOTER_LIMIT, THREADS, UNIQUE_KEYS)


@dataclass(frozen=True)
class GatewayOptions:
    """Options of the rewriting.

    Attributes:
        catalogs: Trino's names of the catalogs of its Hive connector that use the metastore, in lower case;
            `hoodie.catalog.gateway.trino.catalogs`, with commas between.
        kept_at_most: a table's place in a query is left as it is when its plan keeps more than this part of the
            table's bytes; `hoodie.catalog.gateway.files.kept.most`.
        paths: so many paths are written into a query for one table; for longer lists a table of their own is made.
            Trino prunes nothing by more than its `hive.domain-compaction-threshold`, 1000 by default;
            `hoodie.catalog.gateway.paths.most`.
        paths_length: so many characters of paths are written into a query; `hoodie.catalog.gateway.paths.length`.
        query_length: of Trino's `query.max-length`; `hoodie.catalog.gateway.query.length`.
        scan: how files are planned: `hoodie.catalog.scan.footer.limit`, `.threads` and `.unique.keys`.
    """

    catalogs: frozenset[str] = frozenset({"hive"})
    kept_at_most: float = 0.8
    paths: int = 1000
    paths_length: int = 200_000
    query_length: int = 1_000_000
    scan: ScanOptions = field(default_factory=ScanOptions)

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> GatewayOptions:
        """Options by their keys.

        Raises:
            OptionError: an unknown key, or a value that does not fit it.
        """
        values = {key: str(value).strip() for key, value in (options or {}).items()}
        unknown = sorted(set(values) - {*KEYS, *SCAN_KEYS})
        if unknown:
            known = ", ".join((*KEYS, *SCAN_KEYS))
            raise OptionError(f"{unknown[0]}: no such option of the gateway; there are {known}")
        catalogs = frozenset(name.strip().lower() for name in values.get(CATALOGS, "hive").split(",") if name.strip())
        if not catalogs:
            raise OptionError(f"{CATALOGS}: name at least one catalog of Trino")
        return cls(
            catalogs=catalogs,
            kept_at_most=_part(values, KEPT_AT_MOST, cls.kept_at_most),
            paths=_number(values, PATHS, cls.paths),
            paths_length=_number(values, PATHS_LENGTH, cls.paths_length),
            query_length=_number(values, QUERY_LENGTH, cls.query_length),
            scan=ScanOptions.parse({key: value for key, value in values.items() if key in SCAN_KEYS}),
        )


def _number(values: Mapping[str, str], key: str, default: int) -> int:
    number = whole_number(values, key, 0)
    return default if number is None else number


def _part(values: Mapping[str, str], key: str, default: float) -> float:
    text = values.get(key)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise OptionError(f"{key}: {text!r} is not a number from 0 to 1")
    return number
