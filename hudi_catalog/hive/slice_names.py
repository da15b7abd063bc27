"""Names for copies of file slices: two slices have one name only if a query sees the same rows of both."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from catalog.snapshot.snapshot import Snapshot
from catalog.splits.slice_rows import SliceFiles
from hudi_catalog.server.recent import Recent
from table_format.log.blocks import read_log_blocks
from table_format.storage import Storage

_FORM: Final = 1
"""Goes up when copies of the same slices come to be written otherwise."""
# What a table's properties say that no row depends on, and that changes while the table is used.
_IRRELEVANT: Final = ("hoodie.table.metadata.", "hoodie.table.checksum", "hoodie.table.index.")
_MOST_LOGS: Final = 100_000
_DIGITS: Final = 20


def folder_name(snapshot: Snapshot) -> str:
    """A name for what all slices of a snapshot have in common: their columns, and how they are merged."""
    columns = [(field.name, str(field.type), field.nullable) for field in snapshot.schema]
    properties = sorted(item for item in snapshot.config.raw.items() if not item[0].startswith(_IRRELEVANT))
    history = snapshot.schema_history
    return _digest(_FORM, columns, properties, None if history is None else history.current)


class SliceNames:
    """Names slices. Threads may share it."""

    def __init__(self) -> None:
        self._instants: Recent[tuple[str, ...]] = Recent(_MOST_LOGS)

    def name(self, snapshot: Snapshot, files: SliceFiles) -> str:
        """A name for the rows of one slice, to be used together with the folder's.

        Raises:
            CorruptFileError: a log file breaks the format.
            MissingFileError: a log file is not there.
        """
        counted: Sequence[str] = ()
        if files.logs and snapshot.timeline.layout == 1:
            # there, blocks of several writes lie in one file, and which of them count can be different later
            found = {instant for log in files.logs for instant in self._block_instants(snapshot.client.storage, *log)}
            as_of, timeline = snapshot.as_of, snapshot.timeline
            counted = sorted(one for one in found if timeline.is_committed(one) and (as_of is None or one <= as_of))
        return _digest(files.partition, files.base, files.instant, files.logs, counted)

    def _block_instants(self, storage: Storage, path: str, size: int | None) -> tuple[str, ...]:
        key = (storage.uri, path, size)
        known = self._instants.get(key)
        if known is None:
            blocks = read_log_blocks(storage.read(path), path)
            known = tuple({block.instant for block in blocks if block.instant is not None})
            if size is not None:  # else nothing would tell that the file has grown
                self._instants.put(key, known)
        return known


def _digest(*content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:_DIGITS]
