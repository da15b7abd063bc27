"""Which columns of which base files Hive would misread."""

from __future__ import annotations

import threading
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from catalog.snapshot.snapshot import Snapshot
from hudi_catalog.metastore.reading_rules import HIVE
from hudi_catalog.metastore.stored_names import differing_names
from hudi_catalog.metastore.stored_types import StoredTypes
from hudi_catalog.server.recent import Recent

_MOST_TABLES: Final = 1000


class MisreadColumns:
    """Tells by the instant that wrote a base file what Hive would get wrong of it. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._types: Recent[StoredTypes] = Recent(_MOST_TABLES)
        self._names: WeakKeyDictionary[Snapshot, dict[str, list[str]]] = WeakKeyDictionary()

    def of(self, snapshot: Snapshot, rows: NDArray[np.int64]) -> dict[str, dict[str, str]]:
        """What Hive would misread in the base files of some slices.

        Args:
            snapshot: of the table.
            rows: positions of slices.

        Returns:
            By instant that wrote such files: by column, in lower case, what is wrong with it.

        Raises:
            UnsupportedTableError: columns were renamed or dropped, and nothing tells which ones the files have.
        """
        config = snapshot.config
        absent = config.partition_fields if config.drop_partition_columns else ()
        found = {}
        for instant, types in self._stored_types(snapshot).misread(snapshot, rows).items():
            if types is None:  # whoever makes copies of these files will find out why
                found[instant] = {name.lower(): "cannot be looked at" for name in snapshot.schema.names}
                continue
            wrong = {name: f"have it as {kind}" for name, kind in types.items()}
            wrong |= dict.fromkeys(
                self._differing_names(snapshot, instant), "have it otherwise, or have another of its name"
            )
            wrong |= dict.fromkeys(absent, "lack it, because it is a partition column")
            found[instant] = {name.lower(): why for name, why in wrong.items()}
        return {instant: wrong for instant, wrong in found.items() if wrong}

    def _differing_names(self, snapshot: Snapshot, instant: str) -> list[str]:
        with self._lock:
            known = self._names.setdefault(snapshot, {})
        if instant not in known:
            known[instant] = differing_names(snapshot, instant)
        return known[instant]

    def _stored_types(self, snapshot: Snapshot) -> StoredTypes:
        uri = snapshot.client.storage.uri
        return self._types.get(uri) or self._types.put_first(uri, StoredTypes(HIVE))
