"""The record keys of a row group page by page, as the column index of a Parquet file tells them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from table_format.meta_columns import RECORD_KEY
from table_writer.surgery.compact import CompactError, read_struct
from table_writer.surgery.footer import MAGIC, ChunkField, Footer, chunks_of
from table_writer.surgery.locate import KeyRange
from table_writer.surgery.source import Source

_NULL_PAGES, _LEAST, _GREATEST = 1, 2, 3  # fields of ColumnIndex


def key_pages(source: Source, footer: Footer) -> Callable[[int], Sequence[KeyRange] | None]:
    """A look-up of the pages of a row group by its number; None where the column index does not tell all of them.

    Bounds of pages may be cut, but they hold (Parquet's `ColumnIndex`).
    """
    leaf = next((i for i, found in enumerate(footer.leaves) if found.path == (RECORD_KEY.encode(),)), None)

    def pages(group: int) -> Sequence[KeyRange] | None:
        if leaf is None:
            return None
        chunk = chunks_of(footer.groups[group])[leaf]
        if ChunkField.COLUMN_INDEX not in chunk or ChunkField.COLUMN_INDEX_SIZE not in chunk:
            return None
        start, size = chunk[ChunkField.COLUMN_INDEX][1], chunk[ChunkField.COLUMN_INDEX_SIZE][1]
        if start < len(MAGIC) or size < 0 or start + size > footer.start:
            return None
        return _ranges(source.read(start, size))

    return pages


def _ranges(data: bytes) -> list[KeyRange] | None:
    try:
        index, _ = read_struct(data)
        empty, least, greatest = (index[field][1][1] for field in (_NULL_PAGES, _LEAST, _GREATEST))
        firsts, lasts = [text.decode() for text in least], [text.decode() for text in greatest]
    except (CompactError, LookupError, TypeError, AttributeError, UnicodeDecodeError):
        return None
    # an empty text is what some writers give for a bound that they left out
    told = len(firsts) == len(lasts) == len(empty) > 0 and not any(empty) and all(lasts)
    if not told or any(first > last for first, last in zip(firsts, lasts, strict=True)):
        return None
    return [KeyRange(0, first, last) for first, last in zip(firsts, lasts, strict=True)]
