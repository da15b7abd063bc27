"""Look-ups in one shard (file group) of the record index, by reading single blocks or whole files ("scan vs seek")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Column, binaries, from_numpy, one_chunk, to_numpy
from table_format.codecs.avro_schema_tree import Node
from table_format.config.option_values import choice, flag
from table_format.errors import CorruptFileError
from table_format.hfile.entries import HFileEntries
from table_format.hfile.reader import HFileReader
from table_format.hfile.sorted_keys import KeySpans
from table_format.keys.key_order import sorted_order
from table_format.metadata_table.record_index_entries import (
    LOCATIONS_SCHEMA,
    PLACES_SCHEMA,
    decode_places,
    decode_values,
)
from table_format.metadata_table.records import SourceRecords, newest_versions
from table_format.metadata_table.sources import Source

DYNAMIC_KEY: Final = "hoodie.catalog.record.index.dynamic.lookup"
LOOKUP_KEY: Final = "hoodie.catalog.record.index.lookup"
SCAN: Final = "scan"
SEEK: Final = "seek"
BLOOM_KEY: Final = "hoodie.metadata.bloom.filter.enable"


@dataclass(frozen=True, slots=True)
class LookupStrategy:
    """How look-ups read HFiles (RFC-8).

    Attributes:
        scan: whether to read packed keys, or else all blocks of a file; None to decide by file, by the share of
            its blocks that can contain one of the keys (few where the keys are adjacent).
        bloom: whether to check the bloom filters of files before reading many blocks for few keys; off by default,
            as in Apache Hudi.
    """

    scan: bool | None = None
    bloom: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LookupStrategy:
        """Read the strategy from options.

        Raises:
            OptionError: an option has an unknown value.
        """
        fixed = choice(options, LOOKUP_KEY, SEEK, (SCAN, SEEK))
        dynamic = flag(options, DYNAMIC_KEY, default=True)
        return cls(None if dynamic else fixed == SCAN, flag(options, BLOOM_KEY))


DYNAMIC: Final = LookupStrategy()
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Found:
    """Keys that are in the index.

    Attributes:
        rows: of the keys that were asked for, unordered; of equal keys the first.
        codes: for each the row of its place in `places`.
        places: of these keys, of `PLACES_SCHEMA`; a place may occur in several rows.
    """

    rows: Rows
    codes: Rows
    places: pa.Table

    @classmethod
    def total(cls, parts: Sequence[Found]) -> Self:
        """Several parts as one."""
        firsts = np.cumsum([0, *(part.places.num_rows for part in parts)])
        codes = [part.codes + first for part, first in zip(parts, firsts, strict=False)]
        places = pa.concat_tables([PLACES_SCHEMA.empty_table(), *(part.places for part in parts)])
        return cls(np.concatenate([NO_ROWS, *(part.rows for part in parts)]), np.concatenate([NO_ROWS, *codes]), places)

    def part(self, chosen: Any) -> Found:
        """Some of the keys, by their positions or a mask."""
        return Found(self.rows[chosen], self.codes[chosen], self.places)

    def with_keys(self, keys: Column) -> pa.Table:
        """The keys and their places, in `LOCATIONS_SCHEMA`."""
        texts: Any = one_chunk(keys).take(from_numpy(self.rows)).cast(pa.string())
        return self.places.take(from_numpy(self.codes)).add_column(0, LOCATIONS_SCHEMA.field("key"), texts)


_DELETED = "deleted"
_FIRST_FEW = 1_000
NO_ROWS = np.empty(0, np.int64)


def look_up(sources: Sequence[Source], keys: Column, strategy: LookupStrategy = DYNAMIC) -> pa.Table:
    """Look up keys in one file group.

    Args:
        sources: of the file group, in the order in which they apply.
        keys: strings or their UTF-8 bytes, without nulls; repetitions are ignored.
        strategy: how to read HFiles.

    Returns:
        Schema `LOCATIONS_SCHEMA`, unordered; keys that are not in the file group have no row.

    Raises:
        CorruptFileError: a file is damaged.
    """
    texts = one_chunk(keys)
    return find(sources, texts, strategy).with_keys(texts)


def find(sources: Sequence[Source], keys: Column, strategy: LookupStrategy = DYNAMIC) -> Found:
    """As `look_up`, with the rows of `keys` (of equal keys the first) in place of the keys.

    Raises:
        CorruptFileError: a file is damaged.
    """
    return decoded(matches(sources, keys, strategy))


@dataclass(frozen=True, slots=True)
class Matches:
    """Keys that a file has.

    Attributes:
        rows: of the keys that were asked for; of equal keys the first.
        values: for each its entry, as Avro bytes, dictionary-encoded or not.
        schema: of the values.
        name: the file, for messages.
    """

    rows: Rows
    values: Any
    schema: Node
    name: str


def matches(sources: Sequence[Source], keys: Column, strategy: LookupStrategy = DYNAMIC) -> list[Matches]:
    """Look up keys in the files of one file group, without decoding their entries.

    Args:
        sources: see `look_up`.
        keys: see `look_up`.
        strategy: how to read HFiles.

    Raises:
        CorruptFileError: a file is damaged.
    """
    wanted, order = _ascending(one_chunk(keys).cast(pa.binary()))
    spans = KeySpans.of(wanted)
    left = np.arange(len(wanted))
    parts = []
    # From the newest source back: the first source with a key decides.
    for source in reversed(sources):
        if not left.size:
            break
        if source.reader is None or source.schema is None:
            unresolved: Any = wanted.take(from_numpy(left))
            settled = np.flatnonzero(to_numpy(pc.is_in(unresolved, value_set=binaries(source.deleted_keys))))
        else:
            asked_spans = spans if len(left) == len(spans) else spans.take(left)
            settled, values = source.reader.find(asked_spans, scan=strategy.scan, bloom=strategy.bloom)
            rows = left[settled] if order is None else order[left[settled]]
            parts.append(Matches(rows, values, source.schema, source.name))
        left = np.delete(left, settled)
    return parts


def decoded(parts: Sequence[Matches]) -> Found:
    """The places of some matches.

    Files of an index name the same few places; each is decoded once for all files, since decoding a few values costs
    nearly as much as decoding many.

    Raises:
        CorruptFileError: a file has something else.
    """
    by_schema: list[list[Matches]] = []
    for part in parts:
        alike = next((others for others in by_schema if others[0].schema == part.schema), None)
        if alike is None:
            by_schema.append([part])
        else:
            alike.append(part)
    return Found.total([_decoded(alike) for alike in by_schema])


def _decoded(parts: Sequence[Matches]) -> Found:
    """The places of matches whose values have one schema."""
    first = parts[0]
    chunks: list[Any] = [chunk for part in parts for chunk in part.values.dictionary_encode().chunks]
    kind: Any = pa.dictionary(pa.int32(), pa.binary())
    values: Any = pa.chunked_array(chunks, kind)
    try:
        codes, places = decode_places(values, first.schema, first.name)
    except CorruptFileError:
        for part in parts:
            decode_places(part.values, part.schema, part.name)  # raises for the file that has the broken entry
        raise
    return Found(np.concatenate([part.rows for part in parts]), codes, places)


def _ascending(keys: pa.BinaryArray) -> tuple[Any, Rows | None]:
    """Distinct keys in byte order, and the row of each, of equal keys the first; None for all in their order."""
    begin = keys[:_FIRST_FEW]  # which mostly shows that keys have no order
    if all(pc.all(pc.less(some[:-1], some[1:]), min_count=0).as_py() for some in (begin, keys)):
        return keys, None
    order = sorted_order(keys)
    ordered: Any = keys.take(from_numpy(order))
    first = np.append(True, ~to_numpy(pc.equal(ordered[1:], ordered[:-1])).astype(np.bool_))
    return (ordered, order) if first.all() else (ordered.filter(from_numpy(first)), order[first])


def live_entries(sources: Sequence[Source]) -> pa.Table:
    """All live entries of a file group; schema `LOCATIONS_SCHEMA`, unordered.

    Raises:
        CorruptFileError: a file is damaged, or look-ups of many keys would return something else.
    """
    first, *later = [source.select(_checked_entries, lambda _: True) for source in sources] or [_NOTHING]
    if first.schema is None or _repeats(first.entries):
        return newest([first, *later])
    entries = first.entries
    if later:  # log blocks, few beside the base file, decide about the keys that they have
        again: Any = pc.is_in(entries.keys(), value_set=pa.concat_arrays([piece.keys() for piece in later]))
        entries = entries.take(~to_numpy(again).astype(np.bool_))
    return pa.concat_tables([_table(entries, first.schema, first.name), newest(later)])


def _checked_entries(reader: HFileReader) -> HFileEntries:
    entries = reader.entries()
    reader.check_packed_keys(entries)
    return entries


def _repeats(entries: HFileEntries) -> bool:
    """Whether neighbouring entries have the same key."""
    keys: Any = entries.keys()
    return len(keys) > 1 and bool(pc.any(pc.equal(keys[1:], keys[:-1])).as_py())


def newest(pieces: Sequence[SourceRecords]) -> pa.Table:
    """Merge versions of entries, as in `live_entries`.

    Args:
        pieces: in the order in which they apply.
    """
    rows = pa.concat_tables([_EMPTY, *(_versions(piece) for piece in pieces)])
    versions = newest_versions(rows["key"], to_numpy(one_chunk(rows[_DELETED])).astype(np.bool_))
    return rows.take(from_numpy(versions.newest())).select(LOCATIONS_SCHEMA.names)


_NOTHING = SourceRecords("", HFileEntries.empty(), None)
_EMPTY = LOCATIONS_SCHEMA.empty_table().append_column(_DELETED, pa.array([], pa.bool_()))


def _versions(piece: SourceRecords) -> pa.Table:
    if piece.schema is None:
        keys = binaries(piece.deleted_keys).cast(pa.string())
        nothing = pa.nulls(len(keys), pa.string())
        columns = {name: keys if name == "key" else nothing for name in LOCATIONS_SCHEMA.names}
        return _flagged(pa.table(columns).cast(LOCATIONS_SCHEMA), np.ones(len(keys), np.bool_))
    rows = _table(piece.entries, piece.schema, piece.name)
    return _flagged(rows, np.zeros(rows.num_rows, np.bool_))


def _flagged(rows: pa.Table, deleted: NDArray[np.bool_]) -> pa.Table:
    return rows.append_column(_DELETED, from_numpy(deleted))


def _table(entries: HFileEntries, schema: Any, name: str) -> pa.Table:
    try:
        keys = entries.keys().cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptFileError(
            name, 0, f"a key of the record index is not UTF-8 ({error}); rebuild the index"
        ) from error
    return decode_values(entries.values(), schema, name).add_column(0, LOCATIONS_SCHEMA.field("key"), keys)
