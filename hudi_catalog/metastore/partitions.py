"""Partitions in a metastore: the partitions of a table, and the changes that make the metastore's match.

Each sync compares all partitions, whatever was synced before, so that missed ones are found, and ones dropped and
rewritten between two syncs are not lost. Locations and columns are compared as well if anything else about the entry
changed. The partitions handled by the last sync are recorded in the entry's parameters, to tell partitions that
somebody dropped from ones never registered.

Values are derived from paths by the table's own settings. A job may name one of Apache Hudi's extractor classes; it is
refused if it would derive other values, since Hive would then look for rows under values that they do not have.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.metastore.changes import ALTER, CREATE, DROP, Change
from hudi_catalog.metastore.metastore import HivePartition, HiveTable, Metastore
from hudi_catalog.metastore.sync_options import EXTRACTOR
from pushdown.verdict import CannotPrune
from table_format.codecs.inflation import MEBIBYTE, inflate, most_inflated
from table_format.errors import OptionError, UnsupportedTableError
from table_format.keys.partition_values import DEFAULT_PARTITION

RECORD_PREFIX: Final = "hoodie.catalog.sync.partitions."
_PART: Final = 4000
_BETWEEN: Final = "\0"

# Bounds for inflating: paths of numbered partitions compress twentyfold.
_FLOOR: Final = 8 * MEBIBYTE
_RATIO: Final = 128


def record_of(paths: Collection[str]) -> dict[str, str]:
    """Parameters that record partitions: their paths, compressed, in parts of a length that any metastore accepts.

    >>> sorted(record_of(["a/b", "c"])) == [RECORD_PREFIX + "0"]
    True
    """
    packed = zlib.compress(_BETWEEN.join(sorted(paths)).encode(), 9)
    text = base64.b64encode(packed).decode()
    return {f"{RECORD_PREFIX}{start // _PART}": text[start : start + _PART] for start in range(0, len(text), _PART)}


def recorded(parameters: Mapping[str, str]) -> frozenset[str]:
    """The paths recorded in an entry's parameters; empty if there is no record or it is damaged.

    >>> sorted(recorded(record_of(["a/b", "c"]))), recorded({})
    (['a/b', 'c'], frozenset())
    """
    numbered = {
        key.removeprefix(RECORD_PREFIX): value for key, value in parameters.items() if key.startswith(RECORD_PREFIX)
    }
    text = "".join(numbered[str(number)] for number in range(len(numbered)) if str(number) in numbered)
    try:
        packed = base64.b64decode(text, validate=True)
        most = most_inflated(len(packed), floor=_FLOOR, ratio=_RATIO)
        paths = inflate("zlib", packed, most).decode() if text else ""
    except ValueError:
        return frozenset()
    return frozenset(paths.split(_BETWEEN)) if paths else frozenset()


_DAY: Final = re.compile(r"(?:\w+=)?(\d{4})/(?:\w+=)?(\d{1,2})/(?:\w+=)?(\d{1,2})", re.ASCII)
_HOUR: Final = re.compile(r"(?:\w+=)?(\d{4})/(?:\w+=)?(\d{1,2})/(?:\w+=)?(\d{1,2})/(?:\w+=)?(\d{1,2})", re.ASCII)
_Values = tuple[str, ...] | None


def check_extractor(class_name: str | None, partitions: Mapping[str, HivePartition]) -> None:
    """Refuse an extractor class that derives other values than the table's own settings.

    Args:
        class_name: with or without its package; None for none.
        partitions: of the table, by path.

    Raises:
        OptionError: an unknown class, or one that derives other values; the message names a path and both values.
    """
    if class_name is None:
        return
    name = class_name.rsplit(".", 1)[-1]
    extract = _EXTRACTORS.get(name)
    if extract is None:
        raise OptionError(f"{EXTRACTOR}: {class_name} is unknown; leave it out, or name {', '.join(_EXTRACTORS)}")
    for path, partition in partitions.items():
        values = extract(path)
        if values != partition.values:
            wrong = "no values" if values is None else _text(values)
            raise OptionError(
                f"{EXTRACTOR}: {name} derives {wrong} from partition {path!r}, but the table's own settings derive "
                f"{_text(partition.values)}; leave the option out"
            )


def _text(values: tuple[str, ...]) -> str:
    return f"[{', '.join(values)}]"


def _multiple(path: str) -> _Values:
    """One value per path segment, after `column=` if present."""
    return tuple(part.partition("=")[2] if "=" in part else part for part in path.split("/")) if path else ()


def _hive_style(path: str) -> _Values:
    """A single segment, `column=value`."""
    _, equals, value = path.partition("=")
    return (value,) if equals and "=" not in value else None


def _day(path: str) -> _Values:
    match = _DAY.fullmatch(path)
    return None if match is None else (f"{int(match[1]):04}-{int(match[2]):02}-{int(match[3]):02}",)


def _hour(path: str) -> _Values:
    match = _HOUR.fullmatch(path)
    if match is None:
        return None
    return (f"{int(match[1]):04}-{int(match[2]):02}-{int(match[3]):02}-{int(match[4]):02}",)


_EXTRACTORS: Final[Mapping[str, Callable[[str], _Values]]] = {
    "MultiPartKeysValueExtractor": _multiple,
    "HiveStylePartitionValueExtractor": _hive_style,
    "SinglePartPartitionValueExtractor": lambda path: (path,),
    "SlashEncodedDayPartitionValueExtractor": _day,
    "SlashEncodedHourPartitionValueExtractor": _hour,
    "NonPartitionedExtractor": lambda _: (),
}


def live_partitions(snapshot: Snapshot) -> list[str]:
    """Paths of the partitions that contain files, sorted."""
    live = pc.unique(pa.array(snapshot.partition_index[snapshot.live_rows]))
    numbers: list[Any] = live.to_pylist()
    return sorted(snapshot.partitions[number] for number in numbers)


def partitions_of(snapshot: Snapshot, location: str, reader: str, otherwise: str = "") -> dict[str, HivePartition]:
    """The partitions of a table by path, with values derived from the paths.

    Args:
        snapshot: of the table.
        location: of the table, as the engine writes it.
        reader: the engine's reader, for messages.
        otherwise: the alternative, for messages.

    Raises:
        UnsupportedTableError: values cannot be derived from a path; the reader takes them from the metastore.
    """
    fields = snapshot.config.partition_fields
    if not fields:
        return {}
    path_values = snapshot.path_values()
    refused, hint = f"{snapshot.config.name}: cannot be registered for {reader}", f"; {otherwise}" if otherwise else ""
    if isinstance(path_values, CannotPrune):
        raise UnsupportedTableError(f"{refused}: {path_values.reason}{hint}")
    by_name = {column.lower(): values for column, values in path_values.values.items()}
    missing = [field for field in fields if field.lower() not in by_name]
    live = {path: number for number, path in enumerate(snapshot.partitions)}
    live = {path: live[path] for path in live_partitions(snapshot)}
    unknown = [path for path, number in live.items() if not path_values.known[number]]
    if missing or unknown:
        what = f"partition column {missing[0]}" if missing else f"partition {unknown[0]!r}"
        raise UnsupportedTableError(f"{refused}: paths do not give the values of {what}{hint}")
    texts = [pc.cast(by_name[field.lower()], "string").fill_null(DEFAULT_PARTITION).to_pylist() for field in fields]
    return {
        path: HivePartition(tuple(column[number] or DEFAULT_PARTITION for column in texts), f"{location}/{path}")
        for path, number in live.items()
    }


class PartitionChanges:
    """The changes that make a metastore's partitions match a table's.

    Args:
        metastore: to change.
        table: the entry as it should be.
        wanted: its partitions.
        existing: its current partitions by their values; None for one whose details are unknown.
    """

    def __init__(
        self,
        metastore: Metastore,
        table: HiveTable,
        wanted: Collection[HivePartition],
        existing: Mapping[tuple[str, ...], HivePartition | None],
    ) -> None:
        self._metastore = metastore
        self._table = table
        self._existing = existing
        columns = [(column.name, column.type) for column in table.columns]
        self._put = [one for one in wanted if one.values not in existing or self._differs(one, columns)]
        self._drop = sorted(existing.keys() - {one.values for one in wanted})

    def changes(self) -> list[Change]:
        """The changes, for printing."""
        put = [self._change(one) for one in self._put]
        return put + [Change(DROP, self._partition_name(values), self._location(values)) for values in self._drop]

    def make(self) -> None:
        """Apply the changes."""
        if self._put:
            self._metastore.put_partitions(self._table, self._put)
        if self._drop:
            self._metastore.drop_partitions(self._table, self._drop)

    def _differs(self, wanted: HivePartition, columns: list[tuple[str, str]]) -> bool:
        """Whether a partition must be updated; metastores store columns and classes per partition."""
        old = self._existing[wanted.values]
        if old is None:
            return False
        if old.location != wanted.location:
            return True
        if old.columns is not None and [(column.name, column.type) for column in old.columns] != columns:
            return True
        form = replace(self._table.format, serde_parameters={})
        return old.format is not None and replace(old.format, serde_parameters={}) != form

    def _change(self, one: HivePartition) -> Change:
        name = self._partition_name(one.values)
        if one.values not in self._existing:
            return Change(CREATE, name, "", one.location)
        before = self._location(one.values)
        if before != one.location:
            return Change(ALTER, name, before, one.location)
        return Change(ALTER, f"columns of {name}")

    def _location(self, values: tuple[str, ...]) -> str:
        old = self._existing[values]
        return "" if old is None else old.location

    def _partition_name(self, values: tuple[str, ...]) -> str:
        columns = self._table.partition_columns
        path = "/".join(f"{column.name}={value}" for column, value in zip(columns, values, strict=True))
        return f"partition {path} of {self._table.schema}.{self._table.name}"


def registered(
    metastore: Metastore, before: HiveTable | None, after: HiveTable
) -> dict[tuple[str, ...], HivePartition]:
    """The partitions that an entry has and keeps, by their values.

    Args:
        metastore: with the entry.
        before: the existing entry; None if there is none.
        after: the entry as it should be.
    """
    if before is None or not keeps_partitions(before, after):
        return {}
    return {one.values: one for one in metastore.partitions(before)}


def keeps_partitions(before: HiveTable, after: HiveTable) -> bool:
    """Whether an entry has partitions and keeps them: not if its partition columns change."""
    old, new = ([(c.name, c.type) for c in table.partition_columns] for table in (before, after))
    return bool(new) and old == new
