"""Reading HFiles: all entries, a range of keys by prefix, or single keys."""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from table_format.base_file.bloom import BloomFilter, parse_bloom
from table_format.codecs.arrow_numpy import DISORDERED_BYTE, Positions
from table_format.codecs.inflation import MEBIBYTE, most_inflated
from table_format.errors import CorruptFileError
from table_format.hfile import block, index, packed_keys, trailer
from table_format.hfile.entries import HFileEntries, find_entries, key_spans, split_entries
from table_format.hfile.packed_keys import PackedKeys
from table_format.hfile.sorted_keys import KeySpans, matches, matches_by_hash
from table_format.threads import compute_threads

# Trailer, index and file info of most files fit into one read of this size: the index has an entry for each data
# block, in the listing one of ten bytes for every five thousand.
_SHORT_TAIL, _LONG_TAIL = 16 * 1024, 64 * 1024
_TAIL_SHARE = 256
_FEW = 4
_READERS = 8
# Share of a file's blocks from which on all of them are read. The cost of a block is constant, so this
# costs a tenth at most; it saves requests, and verifies that no block is missing.
_SCAN_FROM = 0.9
# Share of the blocks from which on packed keys, if present, are faster than decompressing the blocks.
_PACKED_FROM = 0.1
# For fewer blocks, or more keys per block, the bloom filter takes longer.
_MANY_BLOCKS, _KEYS_PER_BLOCK = 8, 4
# Gap between blocks that is read rather than making another request.
_GAP = 256 * 1024
# Limit of the decompressed size of blocks that are read together.
_FLOOR, _RATIO = 512 * MEBIBYTE, 128
# Decompressed bytes that are parsed at a time.
_CHUNK = 4 * MEBIBYTE
# Blocks that a thread decompresses at a time, so that handing them over costs little beside it.
_BLOCKS_AT_ONCE = 16
_TOO_LONG = "an HFile entry reaches past the end of its block; restore the file"
T = TypeVar("T")
R = TypeVar("R")
ReadRange = Callable[[int, int], "bytes | memoryview"]


class HFileReader:
    """An HFile of version 3, written by HBase (Hudi up to 1.0) or Hudi's own writer (from 1.1 on).

    Verifies checksums if the file has them (CRC-32, CRC-32C, and gzip's own), and lengths.

    Args:
        data: the whole file.
        name: the file, for messages.

    Raises:
        CorruptFileError: the bytes are not a whole HFile.
        UnsupportedTableError: another version, codec, or encryption.
    """

    def __init__(self, data: bytes | memoryview, name: str) -> None:
        view = memoryview(data)
        self._start(lambda offset, length: view[offset : offset + length], len(view), name)

    @classmethod
    def open(cls, read_range: ReadRange, size: int, name: str) -> HFileReader:
        """Open a large file, of which only the needed blocks are read.

        Args:
            read_range: returns up to `length` bytes from `offset` on.
            size: bytes of the whole file.
            name: the file, for messages.

        Raises:
            CorruptFileError: the bytes are not a whole HFile.
            UnsupportedTableError: another version, codec, or encryption.
        """
        reader = cls.__new__(cls)
        reader._start(read_range, size, name)  # noqa: SLF001  # its own constructor
        return reader

    def _start(self, read_range: ReadRange, size: int, name: str) -> None:
        self.name = name
        self._read_range = read_range
        tail_start = max(size - min(max(size // _TAIL_SHARE, _SHORT_TAIL), _LONG_TAIL), 0)
        tail = memoryview(read_range(tail_start, size - tail_start))
        if len(tail) != size - tail_start:
            raise CorruptFileError(name, tail_start + len(tail), "the file is shorter than its size in the storage")
        self._trailer_offset = size - trailer.SIZE
        self.trailer = trailer.read_trailer(bytes(tail[-trailer.SIZE :]), self._trailer_offset, name)
        load_offset = self.trailer.root_index_offset
        if load_offset < tail_start:
            tail_start, tail = load_offset, memoryview(read_range(load_offset, size - load_offset))
        self._load_offset = load_offset
        self._tail_start, self._tail = tail_start, tail
        self._loaded = tail[load_offset - tail_start : self._trailer_offset - tail_start]
        self.file_info = self._read_file_info()

    @property
    def entry_count(self) -> int:
        """Number of entries in the file, by its trailer."""
        return self.trailer.entry_count

    @property
    def schema_json(self) -> str | None:
        """The Avro schema of the values, from the file info."""
        text = self.file_info.get(b"schema")
        if text is None:
            return None
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise CorruptFileError(self.name, self.trailer.file_info_offset, "the Avro schema is not text") from error

    @functools.cached_property
    def block_index(self) -> index.BlockIndex:
        """The data blocks."""
        place, count = self._load_offset, self.trailer.data_index_count
        content = self._loaded_block(place, block.ROOT_INDEX)
        root = index.read_root(content, count, place, self.name, rows=True)
        blocks = index.expand_levels(root, self.trailer.index_levels, self._read_lower_index, place, self.name)
        if blocks and (
            blocks.offsets[0] != self.trailer.first_data_offset or blocks.offsets[-1] != self.trailer.last_data_offset
        ):
            raise CorruptFileError(self.name, place, "the HFile's index and trailer name different data blocks")
        return blocks

    def entries(self) -> HFileEntries:
        """All entries.

        Raises:
            CorruptFileError: a broken block, or another number of entries than in the trailer.
        """
        entries = self._read_blocks(range(len(self.block_index)))
        self.check_count(len(entries))
        return entries

    def check_count(self, count: int) -> None:
        """Compare the number of entries of all blocks with that in the trailer.

        Raises:
            CorruptFileError: they differ.
        """
        if count != self.entry_count:
            counts = f"the trailer counts {self.entry_count} entries, the blocks hold {count}"
            raise CorruptFileError(self.name, self._trailer_offset, counts)

    def entries_of(self, blocks: Sequence[int]) -> HFileEntries:
        """Entries of some data blocks, by their rising numbers in `block_index`.

        Raises:
            CorruptFileError: one of these blocks is broken.
        """
        return self._read_blocks(blocks)

    def check_packed_keys(self, entries: HFileEntries) -> None:
        """Compare the packed keys, if present, with all entries of the file.

        Raises:
            CorruptFileError: they differ.
        """
        packed = self._packed_keys()
        if packed is not None and not packed.agree(entries.keys(), entries.values()):
            raise CorruptFileError(self.name, 0, "its packed keys are not those of its entries; rebuild the index")

    def prefix(self, prefix: bytes) -> HFileEntries:
        """Entries whose keys start with a prefix; reads only the blocks that can contain them.

        Raises:
            CorruptFileError: one of these blocks is broken.
        """
        if index.order_is_doubtful(prefix):
            return self.entries().prefix(prefix)
        return self._read_blocks(self.block_index.blocks_of_prefix(prefix)).prefix(prefix)

    def chunks(self, prefix: bytes = b"") -> list[Callable[[], HFileEntries]]:
        """As `prefix`, in chunks that fit into a core's cache, each decompressed and parsed when it is called.

        Raises:
            CorruptFileError: the index or the header of a block is broken; and the calls, if the content is.
        """
        if index.order_is_doubtful(prefix):
            return [lambda: self.prefix(prefix)]
        raw = self._raw_blocks(self.block_index.blocks_of_prefix(prefix))
        places = [self.block_index.offsets[number] for number in raw]
        blocks = list(raw.values())
        sizes = self._content_sizes(blocks, places)
        groups = np.cumsum(sizes, dtype=np.int64) // _CHUNK
        cuts = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(blocks)]
        return [
            functools.partial(self._chunk, blocks[begin:end], places[begin:end], prefix)
            for begin, end in itertools.pairwise(cuts)
            if begin < end
        ]

    def _chunk(self, raw: list[memoryview], places: list[int], prefix: bytes) -> HFileEntries:
        return self._parse(raw, places).prefix(prefix)

    def get(self, keys: Sequence[bytes]) -> HFileEntries:
        """Entries with one of these keys, in file order; absent keys are left out.

        Raises:
            CorruptFileError: a block that can hold one of the keys is broken.
        """
        if any(index.order_is_doubtful(key) for key in keys):
            return self.entries().get(keys)
        blocks = sorted({self.block_index.block_of(key) for key in keys} - {-1})
        return self._read_blocks(blocks).get(keys)

    def find(self, keys: KeySpans, *, scan: bool | None = None, bloom: bool = False) -> tuple[Positions, Any]:
        """Look up the values of some keys.

        Args:
            keys: ascending by their bytes, each once.
            scan: true to read the packed keys, or all blocks at once if the file has none; false to read only blocks
                that can contain one of the keys; None to decide by the share of needed blocks.
            bloom: check the file's bloom filter, if present, before many blocks are read for few keys.

        Returns:
            Rows of `keys`, unordered, and the value of each, a chunked array (dictionary-encoded if it comes from
            packed keys); the last value of a repeated key. Rows of absent keys are left out.

        Raises:
            CorruptFileError: a block that was read is broken.
        """
        odd = keys_of_doubtful_order(keys)
        if not odd.size:
            return self._find(keys, scan, bloom=bloom)
        usual = np.setdiff1d(np.arange(len(keys)), odd, assume_unique=True)
        rows, values = self._find(keys.take(usual), scan, bloom=bloom)
        entries = self.entries()
        odd_rows, hits = matches_by_hash(entries.key_spans(), keys.take(odd))
        more: Any = entries.take(hits).values()
        both = pa.chunked_array([*values.cast(pa.binary()).chunks, more], pa.binary())
        return np.concatenate([usual[rows], odd[odd_rows]]), both

    def _find(self, keys: KeySpans, scan: bool | None, *, bloom: bool) -> tuple[Positions, Any]:
        blocks = self.block_index
        cuts = self._cuts(keys)
        needed = np.flatnonzero(np.diff(cuts)).tolist()
        if scan or (scan is None and len(needed) >= _PACKED_FROM * len(blocks)):
            packed = self._packed_keys()
            if packed is not None:
                rows, values = packed.find(keys)
                return rows, pa.chunked_array([values])
        if bloom and not scan and len(needed) >= _MANY_BLOCKS and len(keys) <= len(needed) * _KEYS_PER_BLOCK:
            rows = self._possible(keys)
            if len(rows) < len(keys):
                some, values = self._find(keys.take(rows), scan, bloom=False)
                return rows[some], values
        scan = len(needed) >= _SCAN_FROM * len(blocks) if scan is None else scan
        raw = self._raw_blocks(range(len(blocks)) if scan else needed, _GAP)

        def look(number: int) -> tuple[int, Positions, pa.BinaryArray]:
            first, last = int(cuts[number]), int(cuts[number + 1])
            count, rows, values = self._look_into(number, raw[number], keys.take(slice(first, last)))
            return count, rows + first, values

        matches_by_block = _map(look, list(raw))
        if scan and sum(count for count, _, _ in matches_by_block) != self.entry_count:
            raise CorruptFileError(self.name, self._trailer_offset, "the trailer counts other entries than there are")
        values = pa.chunked_array([part for _, _, part in matches_by_block], pa.binary())
        return np.concatenate([np.empty(0, np.int64), *(rows for _, rows, _ in matches_by_block)]), values

    def _possible(self, keys: KeySpans) -> Positions:
        """Rows of the keys that may be in the file by its bloom filter."""
        if self._bloom is None:
            return np.arange(len(keys))
        return np.flatnonzero(self._bloom.may_contain(keys.to_arrow()))

    def _packed_keys(self) -> PackedKeys | None:
        location = self._find_meta(packed_keys.NAME)
        if location is None:
            return None
        place, size = location
        codec = self.trailer.codec
        content = block.read_stored_block(self._fetch(place, size), place, self.name, codec, (block.META,))
        return PackedKeys.from_bytes(content, self.entry_count, self.name, place)

    @functools.cached_property
    def _bloom(self) -> BloomFilter | None:
        text = self.meta_block(trailer.BLOOM_NAME)
        if text is None:
            return None
        bloom = parse_bloom(
            text, self.file_info.get(trailer.BLOOM_TYPE, b"").decode(errors="replace") or None, self.name
        )
        # an overfull filter contains nearly everything
        room = bloom.records_per_vector * len(bloom.vectors)
        return None if room and room < self.entry_count else bloom

    def _cuts(self, keys: KeySpans) -> Positions:
        """For each data block the row of the first key that it or a later block can contain; then the key count."""
        blocks = self.block_index
        if len(keys) < len(blocks):
            owners = np.array([blocks.block_of(keys.key(row)) for row in range(len(keys))], dtype=np.int64)
            return np.searchsorted(owners, np.arange(len(blocks) + 1))
        return np.append(keys.first_from_each(blocks.first_keys), len(keys))

    def _look_into(self, number: int, raw: memoryview, keys: KeySpans) -> tuple[int, Positions, pa.BinaryArray]:
        """Number of entries of a block, rows of the keys in it, and their values."""
        place = self.block_index.offsets[number]
        content = block.read_block(raw, place, self.name, self.trailer.codec, (block.DATA,))
        buffer = np.frombuffer(content, dtype=np.uint8)
        starts, wrong = find_entries(buffer, np.zeros(1, np.int64), np.array([len(buffer)], np.int64))
        if wrong is not None:
            raise CorruptFileError(self.name, place, _TOO_LONG)
        try:
            rows, entries = matches(key_spans(buffer, starts), keys)
            hits = split_entries(buffer, starts[entries], self.name, lambda _: place)
            return len(starts), rows, hits.values()
        except IndexError as error:
            raise CorruptFileError(self.name, place, _TOO_LONG) from error

    def meta_block(self, name: str) -> bytes | None:
        """Content of a meta block, e.g. `bloomFilter`; None if the file has none of that name.

        Raises:
            CorruptFileError: the block or its index is broken.
        """
        location = self._find_meta(name)
        return None if location is None else self._read_meta(*location)

    def _find_meta(self, name: str) -> tuple[int, int] | None:
        """Offset and size of a meta block."""
        if not self.trailer.meta_index_count:
            return None
        start = self._load_offset + block.read_header(self._loaded, self._load_offset, self.name).size
        content = self._loaded_block(start, block.ROOT_INDEX)
        names = index.read_root(content, self.trailer.meta_index_count, start, self.name, rows=False)
        if name.encode() not in names.first_keys:
            return None
        place = names.first_keys.index(name.encode())
        return names.offsets[place], names.sizes[place]

    def _read_meta(self, place: int, size: int) -> bytes:
        return block.read_block(self._fetch(place, size), place, self.name, self.trailer.codec, (block.META,))

    def _read_file_info(self) -> dict[bytes, bytes]:
        place = self.trailer.file_info_offset
        return trailer.read_file_info(self._loaded_block(place, block.FILE_INFO), place, self.name)

    def _loaded_block(self, place: int, magic: bytes) -> bytes:
        part = self._loaded[place - self._load_offset :]
        return block.read_block(part, place, self.name, self.trailer.codec, (magic,))

    def _read_lower_index(self, above: index.BlockIndex) -> list[bytes]:
        """Index blocks that a level of the index points to; leaf blocks are among the data blocks."""
        magics = (block.LEAF_INDEX, block.INTERMEDIATE_INDEX)

        places = above.offsets
        raw = _map(lambda span: self._fetch(*span), list(zip(places, above.sizes, strict=True)), _READERS)
        headers = [block.read_header(data, place, self.name) for data, place in zip(raw, places, strict=True)]
        self._check_growth(raw, [header.uncompressed_size for header in headers], places)
        return [
            block.read_block(data, place, self.name, self.trailer.codec, magics)
            for data, place in zip(raw, places, strict=True)
        ]

    def _check_growth(self, raw: Sequence[memoryview], sizes: Sequence[int], places: Sequence[int]) -> None:
        """Limit the decompressed size of several blocks together, since each alone may grow to a fixed size."""
        compressed, size = sum(map(len, raw)), sum(sizes)
        if size > most_inflated(compressed, floor=_FLOOR, ratio=_RATIO):
            reason = f"{len(raw)} HFile blocks of {compressed} bytes promise {size} decompressed ones; restore the file"
            raise CorruptFileError(self.name, places[0], reason)

    def _fetch(self, place: int, size: int) -> memoryview:
        if place + size > self._trailer_offset:
            raise CorruptFileError(self.name, place, "an HFile block reaches past the end of the file")
        if place >= self._tail_start:  # small files are read whole when they are opened
            return self._tail[place - self._tail_start :][:size]
        data = memoryview(self._read_range(place, size))
        if len(data) != size:
            raise CorruptFileError(self.name, place + len(data), "the file is shorter than its size in the storage")
        return data

    def _read_blocks(self, numbers: Sequence[int]) -> HFileEntries:
        """Entries of some data blocks, in file order."""
        raw = self._raw_blocks(numbers)
        return self._parse(list(raw.values()), [self.block_index.offsets[number] for number in raw])

    def _raw_blocks(self, numbers: Sequence[int], gap: int = 0) -> dict[int, memoryview]:
        """Read data blocks; blocks at most `gap` bytes apart in one request."""
        places, sizes = self.block_index.offsets, self.block_index.sizes
        runs: list[list[int]] = []
        for number in numbers:
            last = runs[-1][-1] if runs else None
            if last is not None and 0 <= places[number] - places[last] - sizes[last] <= gap:
                runs[-1].append(number)
            else:
                runs.append([number])

        def read(run: list[int]) -> list[tuple[int, memoryview]]:
            begin, last = places[run[0]], run[-1]
            data = self._fetch(begin, places[last] + sizes[last] - begin)
            return [(number, data[places[number] - begin :][: sizes[number]]) for number in run]

        return dict(itertools.chain.from_iterable(_map(read, runs, _READERS)))

    def _content_sizes(self, raw: Sequence[memoryview], places: Sequence[int]) -> list[int]:
        """Decompressed size of each of some data blocks, checked before memory is allocated for it."""
        codec = self.trailer.codec
        sizes = [
            block.content_size(data, place, self.name, codec, block.DATA)
            for data, place in zip(raw, places, strict=True)
        ]
        self._check_growth(raw, sizes, places)
        return sizes

    def _parse(self, raw: list[memoryview], places: list[int]) -> HFileEntries:
        """Decompress data blocks into one buffer and find their entries."""
        codec = self.trailer.codec
        sizes = self._content_sizes(raw, places)
        ends = np.cumsum(sizes, dtype=np.int64)
        buffer = np.empty(sum(sizes), dtype=np.uint8)

        def load(number: int) -> int:
            place, start = places[number], int(ends[number]) - sizes[number]
            content = block.read_block(raw[number], place, self.name, codec, (block.DATA,))
            buffer[start : start + len(content)] = np.frombuffer(content, dtype=np.uint8)
            return start + len(content)

        runs = [range(len(raw))[first : first + _BLOCKS_AT_ONCE] for first in range(0, len(raw), _BLOCKS_AT_ONCE)]
        reached = list(itertools.chain.from_iterable(_map(lambda run: [load(number) for number in run], runs)))
        starts, wrong = find_entries(buffer, ends - np.array(sizes, np.int64), np.array(reached, np.int64))
        if wrong is not None:
            raise CorruptFileError(self.name, places[wrong], _TOO_LONG)
        return split_entries(
            buffer, starts, self.name, lambda position: places[int(np.searchsorted(ends, position, side="right"))]
        )


def keys_of_doubtful_order(keys: KeySpans) -> Positions:
    """Rows of the keys for which `index.order_is_doubtful`."""
    places = np.flatnonzero(keys.buffer >= DISORDERED_BYTE)
    if not places.size:
        return np.empty(0, np.int64)
    begins = np.searchsorted(places, keys.starts)
    return np.flatnonzero(np.searchsorted(places, keys.starts + keys.lengths) > begins)


def _map(function: Callable[[T], R], items: Sequence[T], threads: int | None = None) -> list[R]:
    count = threads or compute_threads()
    if len(items) <= _FEW or count == 1:
        return [function(item) for item in items]
    # Decompression, numpy and storage release the interpreter lock.
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(function, items))
