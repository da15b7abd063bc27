"""The sync that a writer runs after its commits: an entry point of the group `hudi_catalog.after_commit`.

The writer gives the options of its job, which keep Apache's names and meanings.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Final

from catalog.table import Table
from hudi_catalog.metastore.hive_target import sync
from hudi_catalog.metastore.metastore_options import AUTH, KERBEROS, KERBEROS_HOST, KERBEROS_SERVICE, TLS, parted
from hudi_catalog.metastore.open_metastore import open_metastore
from hudi_catalog.metastore.options import KEYS as SYNC_KEYS
from hudi_catalog.metastore.options import SyncOptions
from hudi_catalog.metastore.writer_options import KEYS as WRITER_KEYS
from hudi_catalog.metastore.writer_options import WriterSyncOptions, check_known
from table_format.table.client import TableClient

_HADOOP_URIS: Final = "hive.metastore.uris"
_DEFAULT_URI: Final = "thrift://localhost:9083"  # Apache's


def prepare(
    client: TableClient, options: Mapping[str, str], hadoop: Callable[[str], str | None]
) -> Callable[[str], str]:
    """Check the options of a sync before the write.

    Args:
        client: the table.
        options: all of the job's.
        hadoop: a setting of Hadoop's configuration by its name.

    Returns:
        The sync, to be called with the instant of the commit; it tells what it did.

    Raises:
        OptionError: an option that cannot be used.
    """
    known = frozenset((*SYNC_KEYS, *WRITER_KEYS))
    of_store, _ = parted(options)
    check_known(options, known)
    own = WriterSyncOptions.parse(_of(options, WRITER_KEYS))
    parsed = SyncOptions.parse(_of(options, SYNC_KEYS))
    uri = own.uris or hadoop(_HADOOP_URIS) or _DEFAULT_URI
    # connects when it is first asked
    store = open_metastore(uri, options=of_store or _session_options(hadoop))
    storage = client.storage

    def follow(instant: str) -> str:
        try:
            done = sync(Table.open(storage.uri, storage.options), store, parsed, storage_options=storage.options)
        except Exception as error:
            if not own.ignore:
                raise
            warnings.warn(f"the commit {instant} is complete, but its sync to {uri} failed: {error}", stacklevel=2)
            return f"sync to {uri} failed: {error}"
        finally:
            store.close()
        for danger in done.warnings:
            warnings.warn(danger, stacklevel=2)
        changed = f"{len(done.changes)} change{'' if len(done.changes) == 1 else 's'}" if done.changes else "up to date"
        return f"{', '.join(f'{done.schema}.{name}' for name in done.names)} in {uri}: {changed}"

    return follow


def _session_options(hadoop: Callable[[str], str | None]) -> dict[str, str]:
    """How Hadoop's configuration has its clients connect to a metastore, in our options."""
    options = {}
    if (hadoop("hive.metastore.sasl.enabled") or "").lower() == "true":
        options[AUTH] = KERBEROS
        service, _, host = (hadoop("hive.metastore.kerberos.principal") or "").partition("@")[0].partition("/")
        # _HOST is Hadoop's word for the host that is connected to
        told = {KERBEROS_SERVICE: service, KERBEROS_HOST: "" if host == "_HOST" else host}
        options |= {key: value for key, value in told.items() if value}
    if (hadoop("hive.metastore.use.SSL") or "").lower() == "true":
        options[TLS] = "true"
    return options


def _of(options: Mapping[str, str], keys: tuple[str, ...]) -> dict[str, str]:
    return {key: options[key] for key in keys if key in options}
