"""Which files a snapshot's entry lists, under which name, and where the list lies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute

from catalog.slices.slice_set import Rows
from catalog.snapshot.snapshot import Snapshot
from hudi_catalog.metastore import entries
from hudi_catalog.metastore.locations import Locations
from hudi_catalog.metastore.manifests import FOLDER, ManifestFolder, manifest_of
from hudi_catalog.metastore.metastore import HiveTable
from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import MetastoreError, ServiceError
from table_format.storage import Storage

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take


def paths_of(root: str, snapshot: Snapshot, rows: Rows | None = None) -> Any:
    """Paths of base files below a table's root, as an engine spells them.

    Args:
        root: the table's folder.
        snapshot: of the table.
        rows: positions of file slices; None for all that count.

    Returns:
        An array of strings.

    Raises:
        ServiceError: log files change the base files, which alone are not the table.
    """
    at = snapshot.live_rows if rows is None else rows
    if snapshot.has_logs[at].any():
        raise ServiceError(f"{snapshot.config.name}: logs change its files, so they cannot be read by themselves")
    paths = one_chunk(snapshot.take_files(at).column("path"))
    return pc.binary_join_element_wise(pa.scalar(root), paths, "/")


def list_name(root: str, snapshot: Snapshot, rows: Rows | None = None) -> str:
    """The name of a list of files, which tells all that an entry made from it depends on.

    An instant alone would not do: a commit that began before it may complete after it.

    Raises:
        ServiceError: as for `paths_of`.
        UnsupportedTableError: a path cannot be listed.
    """
    digest = hashlib.blake2b(snapshot.schema.serialize().to_pybytes(), digest_size=8)
    digest.update(manifest_of(paths_of(root, snapshot, rows)))
    return f"{snapshot.instant or 0}__{digest.hexdigest()}"


def manifest_folder(
    entry: HiveTable, table: Storage, locations: Locations, storage_options: Mapping[str, Any] | None = None
) -> ManifestFolder:
    """Where the lists of an entry lie: inside the table, or where the entry says.

    Args:
        entry: of the table.
        table: its storage.
        locations: the engine's spelling.
        storage_options: keyword arguments for the `pyarrow.fs` file system, where the lists lie elsewhere.

    Raises:
        MetastoreError: the entry does not say.
    """
    number = entries.entry_id(entry)
    if number is None:
        raise MetastoreError(f"{entry.schema}.{entry.name}: {entries.ENTRY_ID} is missing or odd; sync the table again")
    elsewhere = entry.parameters.get(entries.MANIFESTS)
    storage = Storage(elsewhere, storage_options) if elsewhere else table
    path = number if elsewhere else f"{FOLDER}/{number}"
    return ManifestFolder(storage, path, f"{locations.spelled(storage.full_uri(''))}/{path}")
