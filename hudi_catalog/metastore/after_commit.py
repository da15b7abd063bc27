"""The sync that a writer runs after its commits: an entry point of the group `hudi_catalog.after_commit`.

It takes the write's options, which keep Apache's names and meanings.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from catalog.table import Table
from hudi_catalog.metastore.hive_sync import check_statistics_are_kept, sync_to_hive
from hudi_catalog.metastore.metastore_options import AUTH, KERBEROS, KERBEROS_HOST, KERBEROS_SERVICE, TLS, split_options
from hudi_catalog.metastore.open_metastore import open_metastore
from hudi_catalog.metastore.sync_options import SYNC_KEYS, SyncOptions
from table_format.config.option_keys import ALIKE
from table_format.config.option_values import flag, known_options
from table_format.errors import OptionError, did_you_mean
from table_format.table.client import TableClient

URIS = "hoodie.datasource.hive_sync.metastore.uris"
IGNORE = "hoodie.datasource.hive_sync.ignore_exceptions"
WRITER_KEYS = (URIS, IGNORE)
_PREFIX: Final = "hoodie.datasource.hive_sync."
_OUR_PREFIX: Final = "hoodie.catalog.sync."

# our fixed behaviour; other values are refused
_FIXED: Final = {
    "mode": "hms",
    "create_managed_table": "false",
    "use_pre_apache_input_format": "false",
    "assume_date_partitioning": "false",
    "bucket_sync": "false",
    "use_spark_catalog": "false",
    "base_file_format": "parquet",
}

_PASSED_OVER: Final = frozenset(
    # for Apache's other modes; jobs often leave them set
    {"username", "password", "jdbcurl", "use_jdbc", "batching.enabled", "batching.threads"}
    # tuning of Apache's sync that does not affect the result
    | {"enable", "batch_num", "filter_pushdown_enabled", "filter_pushdown_max_size", "bucket_sync_spec"}
    | {"recreate_table_on_error"}
)


@dataclass(frozen=True)
class WriterSyncOptions:
    """Options of the sync after a commit.

    Attributes:
        uris: of the metastore; None for the session's Hadoop configuration;
            `hoodie.datasource.hive_sync.metastore.uris`.
        ignore: warn about a failed sync instead of raising; `hoodie.datasource.hive_sync.ignore_exceptions`.
    """

    uris: str | None = None
    ignore: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> WriterSyncOptions:
        """Parse options by their keys.

        Raises:
            OptionError: an unknown key or an invalid value.
        """
        values = known_options(options, WRITER_KEYS, "the sync after a commit")
        return cls(uris=values.get(URIS) or None, ignore=flag(values, IGNORE))


def check_known(options: Mapping[str, str], known: frozenset[str]) -> None:
    """Refuse unknown sync options, except those that have no effect here.

    Apache's sync has options for its other modes, and for behaviour that is fixed here.

    Args:
        options: of a write.
        known: keys that are read.

    Raises:
        OptionError: an unknown option or an unsupported value; the message names it.
    """
    if f"{_PREFIX}mode" not in options:
        # Apache then syncs by JDBC, which its other options do not point at the metastore
        for name in ("jdbcurl", "use_jdbc"):
            if options.get(_PREFIX + name, "false").lower() != "false":
                raise OptionError(
                    f"{_PREFIX}{name}: the sync speaks to the metastore itself; give {_PREFIX}mode=hms and {URIS}"
                )
    for key, value in options.items():
        name = key.removeprefix(_PREFIX)
        if key in known or not key.startswith((_PREFIX, _OUR_PREFIX)) or name in _PASSED_OVER:
            continue
        wanted = _FIXED.get(name)
        if wanted is None:
            hint = did_you_mean(key, known, ALIKE) or f"; there are {', '.join(sorted(known))}"
            raise OptionError(f"{key}: no such option of the sync{hint}")
        if value.strip().lower() != wanted:
            raise OptionError(f"{key}: {value!r} is not supported; leave it out or give {wanted}")


_HADOOP_URIS: Final = "hive.metastore.uris"
_DEFAULT_URI: Final = "thrift://localhost:9083"  # Apache's


def prepare(
    client: TableClient, options: Mapping[str, str], hadoop: Callable[[str], str | None]
) -> Callable[[str], str]:
    """Check the sync's options before the write.

    Args:
        client: the table.
        options: all of the job's.
        hadoop: looks up a setting of Hadoop's configuration.

    Returns:
        The sync, to be called with the commit's instant; returns a summary.

    Raises:
        OptionError: an invalid option.
    """
    known = frozenset((*SYNC_KEYS, *WRITER_KEYS))
    of_store, _ = split_options(options)
    check_known(options, known)
    own = WriterSyncOptions.parse(_of(options, WRITER_KEYS))
    parsed = SyncOptions.parse(_of(options, SYNC_KEYS))
    uri = own.uris or hadoop(_HADOOP_URIS) or _DEFAULT_URI
    # connects on first use
    store = open_metastore(uri, options=of_store or _session_options(hadoop))
    check_statistics_are_kept(store, parsed)
    storage = client.storage

    def follow(instant: str) -> str:
        try:
            done = sync_to_hive(
                Table.open(storage.uri, storage.options), store, parsed, storage_options=storage.options
            )
        except Exception as error:
            if not own.ignore:
                raise
            warnings.warn(f"the commit {instant} is complete, but its sync to {uri} failed: {error}", stacklevel=2)
            return f"sync to {uri} failed: {error}"
        finally:
            store.close()
        for warning in done.warnings:
            warnings.warn(warning, stacklevel=2)
        changed = f"{len(done.changes)} change{'' if len(done.changes) == 1 else 's'}" if done.changes else "up to date"
        return f"{', '.join(f'{done.schema}.{name}' for name in done.names)} in {uri}: {changed}"

    return follow


def _session_options(hadoop: Callable[[str], str | None]) -> dict[str, str]:
    """Our options for connecting as Hadoop's configuration tells its clients to."""
    options = {}
    if (hadoop("hive.metastore.sasl.enabled") or "").lower() == "true":
        options[AUTH] = KERBEROS
        service, _, host = (hadoop("hive.metastore.kerberos.principal") or "").partition("@")[0].partition("/")
        # _HOST is Hadoop's placeholder for the server's host
        kerberos = {KERBEROS_SERVICE: service, KERBEROS_HOST: "" if host == "_HOST" else host}
        options |= {key: value for key, value in kerberos.items() if value}
    if (hadoop("hive.metastore.use.SSL") or "").lower() == "true":
        options[TLS] = "true"
    return options


def _of(options: Mapping[str, str], keys: tuple[str, ...]) -> dict[str, str]:
    return {key: options[key] for key in keys if key in options}
