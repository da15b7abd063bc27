"""Deleting the file slices of the metadata table that compactions have superseded."""

from __future__ import annotations

import contextlib

from table_format.actions.clean import CleanerPlan, CleanMetadata, CleanPartition
from table_format.errors import AlreadyExistsError
from table_format.instant import Action
from table_format.metadata_table import layout
from table_format.metadata_table.validity import ValidInstants
from table_format.slices.table_client import TableClient
from table_format.storage import Storage
from table_writer.metadata import instants
from table_writer.metadata.recovery import metadata_partitions

_POLICY = "KEEP_LATEST_FILE_VERSIONS"
_KEPT_SLICES = 2
"""Readers that opened the table before the last compaction still find their files."""


def clean_metadata_table(client: TableClient) -> str | None:
    """Delete all but the newest two file slices of each file group. Callers hold the table's lock.

    Returns:
        The clean's instant, or None when there is nothing to delete.
    """
    storage = client.storage
    metadata = instants.load_metadata_timeline(storage)
    pending = [instant.time for instant in metadata.pending if instant.action == Action.CLEAN]
    for time in pending:  # of a writer that died; what it deleted is gone, the rest is found again
        instants.remove(storage, time, Action.CLEAN)
    valid = ValidInstants(client.timeline(), metadata)
    superseded = {name: _superseded(storage, name, valid) for name in metadata_partitions(storage)}
    superseded = {name: paths for name, paths in superseded.items() if paths}
    deltas = [instant.time for instant in metadata.completed if instant.action == Action.DELTACOMMIT]
    if not superseded or not deltas:
        return None
    time = f"{deltas[-1]}{layout.CLEAN_SUFFIX}"
    if metadata.find(time) is not None and time not in pending:
        return None
    _execute(storage, time, deltas[-1], superseded)
    return time


def _superseded(storage: Storage, partition: str, valid: ValidInstants) -> list[str]:
    paths = []
    for group in layout.list_file_groups(storage, partition):
        done = [base.instant for base in group.base_files if valid.committed_in_metadata(base.instant)]
        if len(done) < _KEPT_SLICES:
            continue
        oldest_kept = done[-_KEPT_SLICES]
        paths += [base.path for base in group.base_files if base.instant < oldest_kept]
        paths += [log.path for log in group.log_files if log.base_instant < oldest_kept]
    return paths


def _execute(storage: Storage, time: str, last_commit: str, superseded: dict[str, list[str]]) -> None:
    absolute = {name: [storage.full_uri(path) for path in paths] for name, paths in superseded.items()}
    plan = CleanerPlan(_POLICY, absolute, last_completed_commit=last_commit).to_avro()
    instants.start(storage, time, Action.CLEAN, plan=plan, inflight=plan)
    partitions = {}
    for name, paths in superseded.items():
        for path in paths:
            storage.delete(path)
        names = [path.rsplit("/", 1)[-1] for path in paths]
        partitions[name] = CleanPartition(_POLICY, patterns=names, deleted=names)
    result = CleanMetadata(time, 0, last_completed_commit=last_commit, partitions=partitions)
    with contextlib.suppress(AlreadyExistsError):
        instants.complete(storage, time, Action.CLEAN, result.to_avro())
