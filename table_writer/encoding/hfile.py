"""Writing HFiles for every Hudi reader: HBase's key format, one index level, no checksums besides gzip's own."""

import concurrent.futures
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table_format.base_file.bloom import DYNAMIC, dynamic_bloom, filter_size
from table_format.codecs.arrow_numpy import fixed_rows, join_bytes, one_chunk, spans_of, to_numpy
from table_format.errors import OptionError, RecordError
from table_format.hfile import block
from table_format.hfile.entries import ENTRY_OVERHEAD, KEY_OVERHEAD, SUFFIX
from table_format.hfile.index import write_entry
from table_format.hfile.packed_keys import NAME as PACKED_KEYS
from table_format.hfile.packed_keys import PackedKeys
from table_format.hfile.trailer import BLOOM_NAME, BLOOM_TYPE, Trailer, write_file_info
from table_format.threads import compute_threads

DEFAULT_BLOCK_SIZE = 1024 * 1024
LONGEST_KEY: Final = 32_767
"""Longest key in bytes: HFiles store the length as a signed short."""
_FALSE_POSITIVES = 1e-9
AVERAGE_KEY: Final = b"hfile.AVG_KEY_LEN"
LAST_KEY: Final = b"hfile.LASTKEY"
Values = Sequence[bytes] | pa.BinaryArray


def write_hfile(
    keys: Values,
    values: "Values | pa.DictionaryArray[Any, Any]",
    *,
    schema_json: str,
    codec: str = "GZ",
    block_size: int | None = None,
    bloom: bool = False,
    packed_keys: bool = False,
) -> bytes:
    """Write an HFile of sorted entries.

    Args:
        keys: ascending by their bytes, each once, at most 32,767 bytes.
        values: one for each key; those of a dictionary array are decoded block by block.
        schema_json: the Avro schema of the values; Hudi's readers take it from the file.
        codec: `GZ` or `NONE`; not every reader supports HBase's other codecs.
        block_size: a data block is closed once it has this many uncompressed bytes; None for `DEFAULT_BLOCK_SIZE`.
        bloom: add a bloom filter of the keys, as Apache Hudi's writers always do; 5.4 bytes per key.
        packed_keys: add packed keys for large look-ups (see `packed_keys`) if the keys suit it and fill
            several data blocks; 18 bytes per key for UUIDs.

    Raises:
        RecordError: no entries (Hudi 0.15 fails on an empty HFile), a key that is too long, keys out of order.
        OptionError: an unknown codec.
    """
    if codec not in ("GZ", "NONE"):
        raise OptionError(f"HFile codec {codec!r}: only GZ and NONE can be written")
    key_array = _as_binary(keys)
    value_array: Any = values if isinstance(values, pa.DictionaryArray) else _as_binary(values)
    check_entries(key_array, value_array)
    blocks = data_blocks(key_array, value_array, block_size or DEFAULT_BLOCK_SIZE, codec)
    metas = dict(_meta_contents(key_array, value_array, bloom=bloom, packed_keys=packed_keys and len(blocks) > 1))
    info = _info(key_array, value_array, schema_json, bloom=bloom)
    return assemble(blocks, len(key_array), info, codec=codec, metas=metas)


@dataclass(frozen=True, slots=True)
class DataBlock:
    """A data block.

    Attributes:
        first_key: by which the index names it: not after its first entry, and after all entries of the block before.
        written: its bytes in the file. The offset of the previous block, which is among them, does not count.
        content_size: uncompressed bytes of its entries.
    """

    first_key: bytes
    written: bytes | memoryview
    content_size: int


def assemble(
    blocks: Sequence[DataBlock],
    entry_count: int,
    info: Mapping[bytes, bytes],
    *,
    codec: str = "GZ",
    metas: Mapping[str, bytes] | None = None,
) -> bytes:
    """The file of some data blocks, at least one.

    Args:
        blocks: by rising keys.
        entry_count: entries in them.
        info: the file's.
        codec: by which they are compressed.
        metas: contents of meta blocks by name, sorted.
    """
    metas = metas or {}
    offsets = np.cumsum([0, *(len(one.written) for one in blocks)]).tolist()
    root = b"".join(
        write_entry(offset, len(one.written), internal_key(one.first_key))
        for offset, one in zip(offsets, blocks, strict=False)
    )
    info_content = write_file_info(dict(info))
    sizes = [*(one.content_size for one in blocks), *map(len, metas.values()), len(root), len(info_content)]
    meta_blocks, meta_index = _meta_blocks(metas, offsets[-1], codec)
    root_offset = offsets[-1] + sum(map(len, meta_blocks))
    root_block = block.write_block(block.ROOT_INDEX, root, -1, codec)
    meta_block = block.write_block(block.ROOT_INDEX, meta_index, -1, codec)
    info_block = block.write_block(block.FILE_INFO, info_content, -1, codec)
    end = Trailer(
        file_info_offset=root_offset + len(root_block) + len(meta_block),
        root_index_offset=root_offset,
        index_size=len(root) + block.HEADER_SIZE,
        uncompressed_size=sum(sizes) + len(meta_index) + block.HEADER_SIZE * (len(sizes) + 1),
        data_index_count=len(blocks),
        meta_index_count=len(metas),
        entry_count=entry_count,
        index_levels=1,
        first_data_offset=0,
        last_data_offset=offsets[-2],
        codec=block.CODEC_IDS[codec],
    )
    return b"".join((*_chained(blocks), *meta_blocks, root_block, meta_block, info_block, end.to_bytes()))


def _chained(blocks: Sequence[DataBlock]) -> Iterator[bytes | memoryview]:
    """Bytes of the blocks, each with the offset of the previous one."""
    previous, offset = -1, 0
    for one in blocks:
        view = memoryview(one.written)
        yield from (view[:16], previous.to_bytes(8, "big", signed=True), view[24:])
        previous, offset = offset, offset + len(view)


def _meta_contents(
    keys: pa.BinaryArray, values: pa.BinaryArray, *, bloom: bool, packed_keys: bool
) -> Iterator[tuple[str, bytes]]:
    """Contents of meta blocks, sorted by name."""
    if bloom:
        yield BLOOM_NAME, _bloom(keys)
    packed = PackedKeys.of(keys, values) if packed_keys else None
    if packed is not None:
        yield PACKED_KEYS, packed.to_bytes()


def _meta_blocks(metas: Mapping[str, bytes], offset: int, codec: str) -> tuple[list[bytes], bytes]:
    """Meta blocks from an offset on, and the content of their index."""
    written, entries = [], []
    for name, content in metas.items():
        written.append(block.write_block(block.META, content, -1, codec, stored=name == PACKED_KEYS))
        entries.append(write_entry(offset, len(written[-1]), name.encode()))
        offset += len(written[-1])
    return written, b"".join(entries)


def _bloom(keys: pa.BinaryArray) -> bytes:
    """Text of a bloom filter of one vector, with Apache Hudi's default false-positive rate."""
    return dynamic_bloom(keys, *filter_size(len(keys), _FALSE_POSITIVES), len(keys), len(keys)).to_text().encode()


def _as_binary(values: Values) -> pa.BinaryArray:
    array: Any = values
    if isinstance(array, pa.ChunkedArray):
        array = one_chunk(array)
    if not isinstance(array, pa.Array):
        array = pa.array(array, pa.binary())
    binary: pa.BinaryArray = array.cast(pa.binary())
    return binary


def check_entries(keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
    """Refuse what `write_hfile` does."""
    if len(keys) == 0:
        raise RecordError("an HFile needs at least one entry; Hudi's readers fail on an empty one")
    if len(keys) != len(values) or keys.null_count or values.null_count:
        raise RecordError("an HFile needs one key and one value for each entry")
    longest = pc.max(pc.binary_length(keys)).as_py()
    if longest > LONGEST_KEY:
        raise RecordError(f"a key of {longest} bytes is too long for an HFile, at most {LONGEST_KEY} are possible")
    if len(keys) > 1 and not pc.all(pc.less(keys[:-1], keys[1:])).as_py():
        raise RecordError("the keys of an HFile must ascend by their bytes, each only once")


def internal_key(row: bytes) -> bytes:
    """HBase's form of a key."""
    return len(row).to_bytes(2, "big") + row + SUFFIX


def data_blocks(keys: pa.BinaryArray, values: Any, block_size: int, codec: str = "GZ") -> list[DataBlock]:
    """Data blocks of sorted entries; a block is closed once it has that many uncompressed bytes.

    An entry that fills a block has one to itself, so that look-ups of its neighbours do not read it: the list of all
    partitions is such an entry of large tables. So that keys that would come next after it do not read it either, such
    as a partition that is not compacted yet, the index names the next block by the least key after this entry's. HBase
    gives its blocks keys between two entries as well.
    """
    sizes = to_numpy(pc.binary_length(keys)) + _lengths(values)
    ends = np.cumsum(sizes.astype(np.int64) + ENTRY_OVERHEAD + KEY_OVERHEAD)
    contents: list[bytes] = []
    names: list[bytes] = []
    first = 0
    filled = False
    while first < len(keys):
        before = int(ends[first - 1]) if first else 0
        after = min(int(np.searchsorted(ends, before + block_size)) + 1, len(keys))
        if after - first > 1 and int(ends[after - 1] - ends[after - 2]) >= block_size:
            after -= 1
        contents.append(_entries(keys[first:after], _as_binary(values[first:after])))
        names.append(_least_after(keys[first - 1].as_py()) if filled else keys[first].as_py())
        alone = after - first == 1 and int(ends[first]) - before >= block_size
        filled = alone and len(keys[first].as_py()) < LONGEST_KEY
        first = after
    return [
        DataBlock(name, written, len(content))
        for name, written, content in zip(names, _compressed(contents, codec), contents, strict=True)
    ]


def _least_after(key: bytes) -> bytes:
    """The least key after another one."""
    return key + b"\x00"


def _lengths(values: Any) -> npt.NDArray[np.int32]:
    """Bytes of each value."""
    encoded = isinstance(values, pa.DictionaryArray)
    lengths: npt.NDArray[np.int32] = to_numpy(pc.binary_length(values.dictionary if encoded else values))
    return lengths[to_numpy(values.indices)] if encoded else lengths


def _entries(keys: pa.BinaryArray, values: pa.BinaryArray) -> bytes:
    """Concatenated entries: lengths, key, value, and MVCC version 0."""
    key_lengths = to_numpy(pc.binary_length(keys))
    head = np.empty(len(keys), dtype=[("key", ">u4"), ("value", ">u4"), ("row", ">u2")])
    head["key"] = key_lengths + KEY_OVERHEAD
    head["value"] = to_numpy(pc.binary_length(values))
    head["row"] = key_lengths
    heads = fixed_rows(head.view(np.uint8).reshape(len(keys), head.itemsize))
    data, starts, lengths = spans_of(join_bytes(heads, keys, SUFFIX, values, b"\x00"))
    return data[int(starts[0]) : int(starts[-1] + lengths[-1])].tobytes()


def _compressed(contents: Sequence[bytes], codec: str) -> list[bytes]:
    if codec == "GZ" and len(contents) > 1 and compute_threads() > 1:
        with concurrent.futures.ThreadPoolExecutor(compute_threads()) as pool:
            return list(pool.map(lambda content: block.write_block(block.DATA, content, -1, codec), contents))
    return [block.write_block(block.DATA, content, -1, codec) for content in contents]


def _info(keys: pa.BinaryArray, values: pa.BinaryArray, schema_json: str, *, bloom: bool) -> dict[bytes, bytes]:
    key_bytes = int(pc.sum(pc.binary_length(keys)).as_py()) + len(keys) * KEY_OVERHEAD
    value_bytes = int(_lengths(values).sum(dtype=np.int64))
    extra = {BLOOM_TYPE: DYNAMIC.encode(), b"minRecordKey": keys[0].as_py(), b"maxRecordKey": keys[-1].as_py()}
    lengths = key_bytes // len(keys), value_bytes // len(keys)
    return {**file_info(keys[-1].as_py(), *lengths, schema_json), **(extra if bloom else {})}


def file_info(last_key: bytes, key_length: int, value_length: int, schema_json: str) -> dict[bytes, bytes]:
    """The file info entries that every HFile written here has.

    Args:
        last_key: of its entries.
        key_length: bytes of a key on average, `KEY_OVERHEAD` among them.
        value_length: of a value.
        schema_json: see `write_hfile`.
    """
    return {
        b"KEY_VALUE_VERSION": (1).to_bytes(4, "big"),
        b"MAX_MEMSTORE_TS_KEY": bytes(8),
        AVERAGE_KEY: key_length.to_bytes(4, "big"),
        b"hfile.AVG_VALUE_LEN": value_length.to_bytes(4, "big"),
        b"hfile.CREATE_TIME_TS": int(time.time() * 1000).to_bytes(8, "big"),
        LAST_KEY: internal_key(last_key),
        b"schema": schema_json.encode(),
    }
