"""Some record keys of a base file, which tell how its writer divided them."""

from __future__ import annotations

from typing import Final

from table_format.base_file.footer import footer_of, named_corruption, parquet
from table_format.meta_columns import RECORD_KEY
from table_format.storage import Storage

_READ_BYTES: Final = 1 << 18


def some_keys(storage: Storage, path: str, wanted: int) -> list[str]:
    """The least and the greatest key, by the footer, and those of the first rows; some may come twice.

    Args:
        storage: of the table.
        path: of the file.
        wanted: rows whose keys are read, page by page; none where the two of the footer are enough.

    Raises:
        CorruptFileError: the file is no Parquet file, or it is cut off.
        MissingFileError: there is no such file.
    """
    with storage.open_input(path) as stream, named_corruption(path, stream):
        file = parquet.ParquetFile(stream, buffer_size=_READ_BYTES)
        footer = footer_of(file, path, stream.size())
        keys = [key for key in (footer.min_key, footer.max_key) if key]
        if wanted > len(keys) and RECORD_KEY in footer.names:
            batch = next(file.iter_batches(batch_size=wanted, columns=[RECORD_KEY]), None)
            keys += [] if batch is None else batch.column(0).to_pylist()
    return [key for key in keys if key]
