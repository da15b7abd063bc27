"""Checks every page of a Parquet file against all that the footer and the indexes say about it, as parquet-cli does.

It shares no code with the product but the reader of Thrift's compact protocol; levels and sizes are counted here.
"""

import zlib
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from table_format.codecs.thrift_compact import read_struct

CODECS = {0: None, 1: "snappy", 2: "gzip", 4: "brotli", 5: "lz4", 6: "zstd", 7: "lz4_raw"}
DATA, INDEX, DICTIONARY, DATA_V2 = range(4)


@dataclass
class PageReport:
    """Counts of what was checked in a file without faults."""

    rows: int = 0
    groups: int = 0
    chunks: int = 0
    pages: int = 0
    dictionary_pages: int = 0
    checksums: int = 0
    column_indexes: int = 0
    offset_indexes: int = 0
    blooms: int = 0
    bytes_of_chunks: int = 0
    kinds: Counter = field(default_factory=Counter)


def check_pages(data: bytes) -> PageReport:
    """Check all of a file; an AssertionError says what is wrong."""
    assert data[:4] == data[-4:] == b"PAR1", "magic"
    size = int.from_bytes(data[-8:-4], "little")
    start = len(data) - 8 - size
    footer, end = read_struct(data[start:-8])
    assert end == size, "bytes after the footer"
    return _File(data, start, footer).check()


class _File:
    def __init__(self, data, start, footer):
        self.data, self.start, self.footer = data, start, footer
        self.report = PageReport()
        self.taken = [(0, 4, "magic"), (start, len(data), "footer")]
        self.leaves = list(_leaves(_list(footer, 2)))

    def check(self):
        report = self.report
        for ordinal, group in enumerate(_list(self.footer, 4)):
            self._group(group, ordinal)
        assert self.footer[3][1] == report.rows, "rows of the file"
        self._check_overlaps()
        return report

    def _check_overlaps(self):
        self.taken.sort()
        for before, after in zip(self.taken, self.taken[1:], strict=False):
            assert before[1] <= after[0], f"{before} overlaps {after}"

    def _group(self, group, ordinal):
        chunks, rows = _list(group, 1), group[3][1]
        assert len(chunks) == len(self.leaves), "columns"
        firsts, compressed, plain = [], 0, 0
        for chunk, leaf in zip(chunks, self.leaves, strict=True):
            first = self._chunk(chunk, leaf, rows)
            firsts.append(first)
            compressed += chunk[3][1][7][1]
            plain += chunk[3][1][6][1]
        assert group[2][1] == plain, f"total_byte_size of row group {ordinal}"
        if 5 in group:
            assert group[5][1] == firsts[0], f"file_offset of row group {ordinal}"
        if 6 in group:
            assert group[6][1] == compressed, f"total_compressed_size of row group {ordinal}"
        if 7 in group:
            assert group[7][1] == ordinal, f"ordinal of row group {ordinal}"
        self.report.rows += rows
        self.report.groups += 1

    def _chunk(self, chunk, leaf, rows):
        path, max_definition, max_repetition, physical = leaf
        metadata = chunk[3][1]
        assert tuple(metadata[3][1][1]) == path, f"path {metadata[3]} of {path}"
        assert metadata[1][1] == physical, f"physical type of {path}"
        first, dictionary = metadata[9][1], metadata[11][1] if 11 in metadata else 0
        begin = dictionary if 0 < dictionary < first else first
        pages, position = [], begin
        while position < begin + metadata[7][1]:
            page = self._page(position, metadata, max_definition, max_repetition)
            pages.append(page)
            position = page.end
        assert position == begin + metadata[7][1], f"total_compressed_size of {path}"
        self.taken.append((begin, position, f"chunk {path}"))
        assert sum(page.plain for page in pages) == metadata[6][1], f"total_uncompressed_size of {path}"
        data = [page for page in pages if page.kind in (DATA, DATA_V2)]
        assert data, f"data pages of {path}"
        assert data[0].start == first, f"data_page_offset of {path}"
        assert [page.kind == DICTIONARY for page in pages].count(True) == (begin != first), f"dictionary of {path}"
        assert sum(page.values for page in data) == metadata[5][1], f"num_values of {path}"
        assert sum(page.rows for page in data) == rows, f"rows of {path}"
        used = {page.encoding for page in data}  # DuckDB leaves out that of the dictionary
        assert used <= set(metadata[2][1][1]), f"encodings of {path}: {used}"
        self._indexes(chunk, path, data)
        self._bloom(metadata, path)
        self.report.chunks += 1
        self.report.pages += len(data)
        self.report.dictionary_pages += len(pages) - len(data)
        self.report.bytes_of_chunks += metadata[7][1]
        return begin

    def _page(self, position, metadata, max_definition, max_repetition):
        header, end = read_struct(self.data[position : position + (1 << 16)])
        content = position + end
        kind, plain, size = header[1][1], header[2][1], header[3][1]
        body = self.data[content : content + size]
        assert len(body) == size, "page beyond the end of the file"
        if 4 in header:
            assert zlib.crc32(body) & 0xFFFFFFFF == header[4][1] & 0xFFFFFFFF, f"checksum of the page at {position}"
            self.report.checksums += 1
        self.report.kinds[kind] += 1
        page = _Page(position, content + size, kind, plain + end)
        if kind == DICTIONARY:
            page.values, page.encoding = header[7][1][1][1], header[7][1][2][1]
            self._unpacked(body, metadata, plain)
        elif kind == DATA:
            v1 = header[5][1]
            page.values, page.encoding = v1[1][1], v1[2][1]
            unpacked = self._unpacked(body, metadata, plain)
            page.rows = page.values
            if max_repetition:
                length = int.from_bytes(unpacked[:4], "little")
                levels = rle(unpacked[4 : 4 + length], max_repetition.bit_length(), page.values)
                page.rows = levels.count(0)
        else:
            assert kind == DATA_V2, f"page of kind {kind} at {position}"
            v2 = header[8][1]
            page.values, page.encoding, page.rows = v2[1][1], v2[4][1], v2[3][1]
            levels = v2[5][1] + v2[6][1]
            if v2.get(7, (1, True))[1]:
                self._unpacked(body[levels:], metadata, plain - levels)
            if max_repetition:
                counted = rle(body[: v2[6][1]], max_repetition.bit_length(), page.values)
                assert counted.count(0) == page.rows, f"rows of the page at {position}"
        return page

    def _unpacked(self, body, metadata, plain):
        codec = CODECS[metadata[4][1]]
        if codec is None:
            assert len(body) == plain, "size of a page that is not compressed"
            return body
        if plain == 0:
            return b""
        unpacked = pa.Codec(codec).decompress(body, plain, asbytes=True)
        assert len(unpacked) == plain, "uncompressed size of a page"
        return unpacked

    def _indexes(self, chunk, path, data):
        if 4 in chunk:
            offset, size = chunk[4][1], chunk[5][1]
            self.taken.append((offset, offset + size, f"offset index {path}"))
            index, end = read_struct(self.data[offset : offset + size])
            assert end == size, f"size of the offset index of {path}"
            row = 0
            locations = _list(index, 1)
            assert len(locations) == len(data), f"pages in the offset index of {path}"
            for location, page in zip(locations, data, strict=True):
                assert location[1][1] == page.start, f"a page's place in the offset index of {path}"
                assert location[2][1] == page.end - page.start, f"a page's size in the offset index of {path}"
                assert location[3][1] == row, f"a page's first row in the offset index of {path}"
                row += page.rows
            self.report.offset_indexes += 1
        if 6 in chunk:
            assert 4 in chunk, f"column index without an offset index of {path}"
            offset, size = chunk[6][1], chunk[7][1]
            self.taken.append((offset, offset + size, f"column index {path}"))
            index, end = read_struct(self.data[offset : offset + size])
            assert end == size, f"size of the column index of {path}"
            for part in (1, 2, 3):
                assert len(_list(index, part)) == len(data), f"pages in the column index of {path}"
            if 5 in index:
                nulls = _list(index, 5)
                for only_nulls, count, page in zip(_list(index, 1), nulls, data, strict=True):
                    assert count <= page.values, f"nulls in the column index of {path}"
                    assert not only_nulls or count == page.values, f"null pages in the column index of {path}"
                statistics = chunk[3][1].get(12)
                if statistics and 3 in statistics[1]:
                    assert statistics[1][3][1] == sum(nulls), f"null_count of {path}"
            self.report.column_indexes += 1

    def _bloom(self, metadata, path):
        if 14 not in metadata:
            return
        offset = metadata[14][1]
        header, end = read_struct(self.data[offset : offset + 64])
        size = end + header[1][1]
        if 15 in metadata:
            assert metadata[15][1] == size, f"size of the bloom filter of {path}"
        assert header[1][1] % 32 == 0, f"bloom filter of {path}"
        self.taken.append((offset, offset + size, f"bloom filter {path}"))
        self.report.blooms += 1


@dataclass
class _Page:
    start: int
    end: int
    kind: int
    plain: int
    values: int = 0
    rows: int = 0
    encoding: int = -1


def rle(data: bytes, width: int, count: int) -> list[int]:
    """Levels in the hybrid of run lengths and packed bits."""
    result, position, size = [], 0, (width + 7) // 8
    while len(result) < count:
        head = shift = 0
        while True:
            byte = data[position]
            position += 1
            head |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if head & 1:
            length = (head >> 1) * width
            bits = int.from_bytes(data[position : position + length], "little")
            result += [bits >> (width * at) & ((1 << width) - 1) for at in range((head >> 1) * 8)]
            position += length
        else:
            result += [int.from_bytes(data[position : position + size], "little")] * (head >> 1)
            position += size
    return result[:count]


def _leaves(elements):
    position = 1

    def walk(count, path, definition, repetition):
        nonlocal position
        for _ in range(count):
            element = elements[position]
            position += 1
            kind = element[3][1]
            levels = (*path, element[4][1]), definition + (kind > 0), repetition + (kind == 2)
            if 5 in element and element[5][1]:
                yield from walk(element[5][1], *levels)
            else:
                yield *levels, element[1][1]

    yield from walk(elements[0][5][1], (), 0, 0)


def _list(struct, number):
    return struct[number][1][1] if number in struct else []
