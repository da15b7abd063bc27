"""Options of the rewriting of queries, typed and checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from catalog.snapshot import scan_options
from catalog.snapshot.scan_options import ScanOptions
from hudi_catalog.gateway.access_rules import NONE, AccessRules
from table_format.config.option_values import fraction, known_options, names, whole_number
from table_format.errors import OptionError

CATALOGS = "hoodie.catalog.gateway.trino.catalogs"
KEPT_AT_MOST = "hoodie.catalog.gateway.files.kept.most"
PATHS = "hoodie.catalog.gateway.paths.most"
PATHS_LENGTH = "hoodie.catalog.gateway.paths.length"
QUERY_LENGTH = "hoodie.catalog.gateway.query.length"
RULES = "hoodie.catalog.gateway.trino.rules"
KEYS = (CATALOGS, KEPT_AT_MOST, PATHS, PATHS_LENGTH, QUERY_LENGTH, RULES)
SCAN_KEYS = scan_options.SERVICE_KEYS


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
        rules: Trino's access rules: a table whose rules are not those of its snapshots is left as it is; None where
            nobody has said whether there are any; `hoodie.catalog.gateway.trino.rules`, files with commas between, or
            `none`.
        scan: how files are planned: `hoodie.catalog.scan.footer.limit`, `.threads` and `.unique.keys`.
    """

    catalogs: frozenset[str] = frozenset({"hive"})
    kept_at_most: float = 0.8
    paths: int = 1000
    paths_length: int = 200_000
    query_length: int = 1_000_000
    rules: AccessRules | None = None
    scan: ScanOptions = field(default_factory=ScanOptions)

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> GatewayOptions:
        """Options by their keys.

        Raises:
            OptionError: an unknown key, or a value that does not fit it.
        """
        values = known_options(options, (*KEYS, *SCAN_KEYS), "the gateway")
        catalogs = frozenset(name.lower() for name in names(values, CATALOGS)) if CATALOGS in values else cls.catalogs
        if not catalogs:
            raise OptionError(f"{CATALOGS}: name at least one catalog of Trino")
        return cls(
            catalogs=catalogs,
            kept_at_most=fraction(values, KEPT_AT_MOST, cls.kept_at_most),
            paths=whole_number(values, PATHS, cls.paths, 0),
            paths_length=whole_number(values, PATHS_LENGTH, cls.paths_length, 0),
            query_length=whole_number(values, QUERY_LENGTH, cls.query_length, 0),
            rules=_rules(names(values, RULES)) if RULES in values else None,
            scan=ScanOptions.parse({key: value for key, value in values.items() if key in SCAN_KEYS}),
        )


def _rules(given: Sequence[str]) -> AccessRules:
    if not given:
        raise OptionError(f"{RULES}: name the files of Trino's access rules, or {NONE}")
    return AccessRules([] if list(given) == [NONE] else given)
