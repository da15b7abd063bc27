"""What a table or a session of Hive says about a scan: the settings that its storage handler sends along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.table import QUERY_TYPES, READ_OPTIMIZED
from table_format.config.option_values import flag, known_options
from table_format.errors import OptionError

QUERY_TYPE = "hoodie.catalog.hive.query.type"
AS_OF = "hoodie.catalog.hive.as.of"
MATERIALIZE = "hoodie.catalog.hive.materialize"
COLUMNS = "hoodie.catalog.hive.columns"
COLUMN_TYPES = "hoodie.catalog.hive.columns.types"
SERVICE = "hoodie.catalog.hive.service"
TIMEOUT = "hoodie.catalog.hive.timeout.seconds"
TLS = "hoodie.catalog.hive.tls"
TLS_CA = "hoodie.catalog.hive.tls.ca"
TLS_KEYSTORE = "hoodie.catalog.hive.tls.keystore"
TLS_KEYSTORE_PASSWORD_FILE = "hoodie.catalog.hive.tls.keystore.password.file"  # noqa: S105  # a key's name
SECRET_FILE = "hoodie.catalog.hive.secret.file"  # noqa: S105  # a key's name
SCAN_KEYS = (QUERY_TYPE, AS_OF, MATERIALIZE)
ENTRY_KEYS = (COLUMNS, COLUMN_TYPES)
"""Those that nobody sets: what the entry in the metastore says of columns."""
CONNECTION_KEYS = (SERVICE, TIMEOUT, TLS, TLS_CA, TLS_KEYSTORE, TLS_KEYSTORE_PASSWORD_FILE, SECRET_FILE)
"""Those that the storage handler alone uses."""
KEYS = (*SCAN_KEYS, *ENTRY_KEYS, *CONNECTION_KEYS)


@dataclass(frozen=True)
class ScanSettings:
    """Settings of a scan.

    Attributes:
        query_type: of a merge-on-read table, its base files alone or with the log files that changed them since;
            `hoodie.catalog.hive.query.type`.
        as_of: an instant or a time of the past, None for now; `hoodie.catalog.hive.as.of`.
        materialize: whether files that Hive cannot read as they are, are written anew for it;
            `hoodie.catalog.hive.materialize`.
        columns: names of the entry's columns, as Hive lists them; None when it does not say.
        column_types: their types; None when it does not say.
    """

    query_type: str = READ_OPTIMIZED
    as_of: str | None = None
    materialize: bool = True
    columns: str | None = None
    column_types: str | None = None

    @classmethod
    def parse(cls, settings: Mapping[str, str] | None = None) -> ScanSettings:
        """Settings by their keys.

        Raises:
            OptionError: an unknown key, or a value that does not fit it.
        """
        values = known_options(settings, KEYS, "a table in Hive")
        query_type = values.get(QUERY_TYPE, cls.query_type).lower()
        if query_type not in QUERY_TYPES:
            raise OptionError(f"{QUERY_TYPE}: {values[QUERY_TYPE]!r} is neither {' nor '.join(QUERY_TYPES)}")
        return cls(
            query_type=query_type,
            as_of=values.get(AS_OF) or None,
            materialize=flag(values, MATERIALIZE) if MATERIALIZE in values else cls.materialize,
            columns=values.get(COLUMNS),
            column_types=values.get(COLUMN_TYPES),
        )
