"""Rows in files: Parquet, Arrow IPC (Feather), CSV and JSON lines, of a storage or from standard input."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet
from pyarrow import fs

from hudi_catalog.sources.rows import RowStream, zoned_rows
from hudi_catalog.sources.types import (
    LONG_NUMBER,
    has_leading_zeros,
    has_long_numbers,
    refuse_rounded,
    texts_to_keep,
    type_in,
)
from table_format.errors import (
    ArgumentError,
    CorruptFileError,
    HudiError,
    MissingFileError,
    NoSpaceError,
    OptionError,
    RecordError,
    SchemaError,
    StorageError,
)
from table_format.schema.evolution import conform, merge_schemas, refuse_duplicates, storage_schema
from table_format.storage import stream_errors

arrow: Any = pa
types = pa.types

STDIN: Final = "-"
_BLOCK: Final = 16 << 20
_BEGINNING: Final = 1 << 10
_SHOWN: Final = 40
_TAIL: Final = 1 << 12
_OTHER_DELIMITERS: Final = ";|\t,"
_UTC: Final = pa.timestamp("us", "UTC")
_CLOCK: Final = pa.timestamp("us")
_ENDINGS: Final = {
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "arrows": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    "csv": "csv",
    "tsv": "tsv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
}
_COMPRESSIONS: Final = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}
_PACKED: Final = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zst", b"\x04\x22\x4d\x18": "lz4"}
_MAGIC: Final = {b"PAR1": "parquet", b"ARRO": "arrow", b"\xff\xff\xff\xff": "arrow"}


@dataclass
class _File:
    """A file of rows.

    Attributes:
        name: as the user wrote it.
        path: local path or URI.
        format: one of `FORMATS`.
        columns: the columns of the table to write to; None if it has none yet.
        keys: columns of its record key and partition path.
        texts: columns of guessed types that stay texts; None before the file was looked at.
    """

    name: str
    path: str
    format: str
    columns: pa.Schema | None
    keys: Sequence[str] = ()
    texts: set[str] | None = None

    @contextlib.contextmanager
    def open(self) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        """The columns and the record batches; these are readable inside the `with` statement."""
        try:
            with _stream(self.path) as stream:
                yield _READERS[self.format](self, stream)
        except FileNotFoundError as error:
            raise MissingFileError(f"{self.name}: there is no such file") from error
        except UnicodeDecodeError as error:
            raise self.not_utf8() from error
        except pa.ArrowInvalid as error:
            raise self._unreadable(str(error)) from error
        except HudiError:
            raise
        except OSError as error:  # also of what does not decompress
            raise StorageError(f"{self.name} cannot be read: {error}") from error

    def rows(self) -> RowStream:
        """The file's rows; only the beginning is read at once."""
        with self.open() as (schema, _):
            pass

        def read() -> Iterator[pa.RecordBatch]:
            with self.open() as (_, batches):
                yield from batches

        return RowStream(schema, lambda: arrow.RecordBatchReader.from_batches(schema, read()), repeatable=True)

    def type_of(self, name: str) -> pa.DataType | None:
        """The type that a column has in the table; None if the table has no such column.

        Raises:
            SchemaError: text files cannot hold the type.
        """
        kind = type_in(self.columns, name)
        if kind is None:
            return None
        nested = types.is_nested(kind) and (types.is_map(kind) or self.format != "json")
        if nested or types.is_binary(kind):
            raise SchemaError(
                f"{self.name}: column {name!r} is {kind}, which {self.format} files cannot hold; use Parquet"
            )
        return kind

    def _unreadable(self, reason: str) -> Exception:
        if self.format in ("parquet", "arrow"):
            return CorruptFileError(
                self.name, 0, f"not a file of the format {self.format} that pyarrow reads: {reason}"
            )
        hint = ""
        if self.format == "json" and self.starts_with(b"["):
            hint = ". The file is an array; JSON lines have one object per line; jq -c '.[]' converts it"
        elif (packed := self._compression()) is not None:
            hint = f". The file is compressed: give it a name that ends in .{packed}"
        elif self.columns is None and ("onversion error" in reason or "changed from" in reason):
            hint = (
                f". The types of new columns come from the first {_BLOCK >> 20} MiB; if those mislead, create the "
                "table first: hudi-catalog create PATH --key id --schema 'id bigint, name string'"
            )
        return RecordError(f"{self.name}: {reason}{hint}")

    def _compression(self) -> str | None:
        """The ending of compressed files that begin like this one; None where they do not."""
        with _stream(self.path) as stream:
            beginning = stream.read(_BEGINNING)
        return next((ending for first, ending in _PACKED.items() if beginning.startswith(first)), None)

    def not_utf8(self) -> RecordError:
        """The error for a text file in another encoding."""
        packed = self._compression()
        if packed is not None:
            return RecordError(f"{self.name}: the file is compressed: give it a name that ends in .{packed}")
        return RecordError(
            f"{self.name}: the text is not UTF-8; convert it, such as by iconv -f latin1 -t utf-8, or use Parquet"
        )

    def starts_with(self, text: bytes) -> bool:
        """Whether the file begins with a text, white space left out."""
        with _stream(self.path) as stream:
            return bool(stream.read(_BEGINNING).lstrip().startswith(text))


def file_rows(
    paths: Sequence[str],
    file_format: str | None = None,
    columns: pa.Schema | None = None,
    *,
    keys: Sequence[str] = (),
    time_zone: str | None = None,
) -> RowStream:
    """The rows of some files, whose columns may differ: missing ones are null.

    Args:
        paths: local paths, URIs, and `-` for standard input, which is copied to a temporary file first.
        file_format: one of `FORMATS`; None to go by each file's ending, or by the first bytes of standard input.
        columns: the columns of the table to write to; columns of CSV and JSON get these types.
        keys: columns of its record key and partition path; of CSV, each text of these stays a value of its own.
        time_zone: of timestamps that have none.

    Raises:
        MissingFileError: there is no such file.
        CorruptFileError: a Parquet or Arrow file that cannot be read.
        RecordError: a value or line that does not fit the columns; the message names the file.
        OptionError: the format is neither given nor recognized.
        SchemaError: columns that contradict each other, or that the format cannot hold.
    """
    if not paths:
        raise ArgumentError("there are no files to read rows from")
    if list(paths).count(STDIN) > 1:
        raise ArgumentError("standard input (-) can be read once: name it once")
    files = [replace(_file(path, file_format, columns), keys=keys) for path in paths]
    rows = [file.rows() for file in files]
    texts = {name for file in files for name in file.texts or ()}
    if any(texts != file.texts for file in files):
        rows = [replace(file, texts=texts).rows() for file in files]
    parts = [zoned_rows(one, columns, time_zone) for one in rows]
    schema = parts[0].schema
    if len(parts) > 1:
        schema = functools.reduce(merge_schemas, (part.schema for part in parts[1:]), storage_schema(schema))

    def opened() -> Any:
        batches = (batch for part in parts for batch in _conformed(part, schema))
        return arrow.RecordBatchReader.from_batches(schema, batches)

    return RowStream(schema, opened, repeatable=True)


def _conformed(rows: RowStream, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in rows.open():
        if batch.schema.equals(schema):
            yield batch
        else:
            yield from conform(pa.Table.from_batches([batch]), schema).to_batches()


def _file(path: str, file_format: str | None, columns: pa.Schema | None) -> _File:
    if path != STDIN:
        return _File(path, path, file_format or _format_of(path), columns)
    copy, name = _temporary_file()
    atexit.register(copy.close)
    try:
        with stream_errors(tempfile.gettempdir()):
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
    except NoSpaceError as error:
        error.add_note("standard input is copied there first: name a folder with more space by the variable TMPDIR")
        raise
    copy.seek(0)
    first = copy.read(16)
    known = _MAGIC.get(first[:4]) or ("json" if first.lstrip()[:1] == b"{" else None)
    if file_format is None and known is None:
        raise OptionError(f"standard input: unknown format; give --format, one of {', '.join(FORMATS)}")
    return _File("standard input", name, file_format or str(known), columns)


def _temporary_file() -> tuple[Any, str]:
    """A file that goes with the process, also if it is killed where Linux opens files by their number; and its path."""
    copy = tempfile.TemporaryFile()  # noqa: SIM115  # its path is that of an open file
    name = f"/proc/self/fd/{copy.fileno()}"
    if os.path.exists(name):
        return copy, name
    copy.close()
    named = tempfile.NamedTemporaryFile(prefix="hudi-catalog-")  # noqa: SIM115  # likewise
    return named, named.name


def _format_of(path: str) -> str:
    stem, _, ending = path.rsplit("/", 1)[-1].lower().rpartition(".")
    if ending in _COMPRESSIONS:
        ending = stem.rpartition(".")[2]
    if ending not in _ENDINGS:
        raise OptionError(f"{path}: its ending is not that of a format; give --format, one of {', '.join(FORMATS)}")
    return _ENDINGS[ending]


@contextlib.contextmanager
def _stream(path: str) -> Iterator[Any]:
    if "://" in path:
        try:
            file_system, place = fs.FileSystem.from_uri(path)
        except pa.ArrowInvalid as error:
            raise OptionError(f"{path}: no file is read from there: {error}") from error
    else:
        file_system, place = fs.LocalFileSystem(), os.path.abspath(path)
    compression = _COMPRESSIONS.get(path.rpartition(".")[2].lower())
    if compression is None:
        with file_system.open_input_file(place) as file:
            yield file
    else:
        with file_system.open_input_stream(place, compression=compression) as stream:
            yield stream


def _parquet(_: _File, stream: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    file = pa.parquet.ParquetFile(stream)
    return file.schema_arrow.remove_metadata(), file.iter_batches()


def _arrow(_: _File, stream: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    seekable = stream.seekable()
    if seekable and stream.read(4) == b"ARRO":
        file = pa.ipc.open_file(stream)
        return file.schema, (file.get_batch(index) for index in range(file.num_record_batches))
    if seekable:
        stream.seek(0)
    reader = pa.ipc.open_stream(stream)
    return reader.schema, iter(reader)


def _csv(file: _File, stream: Any, *, delimiter: str = ",") -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    def reader(source: Any, hints: dict[Any, Any], names: Iterable[str] = ()) -> Any:
        return pa.csv.open_csv(
            source,
            pa.csv.ReadOptions(block_size=_BLOCK),
            pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            # as in DuckDB: an empty field is null, "" is an empty string
            pa.csv.ConvertOptions(
                column_types=hints,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                include_columns=list(names),
            ),
        )

    if _is_empty(stream) and file.columns is not None:
        return file.columns, iter(())
    with _stream(file.path) as beginning, reader(beginning, {}) as guess:
        _check_csv(file, guess.schema)
        guessed = guess.schema
    hints = {field.name: _csv_type(file.type_of(field.name), field.type) for field in guessed}
    doubles = _guessed_doubles(file, guessed)
    keys = {f.name: f.type for f in guessed if f.name in file.keys and file.type_of(f.name) is None}
    numbers = [*doubles, *(f.name for f in guessed if types.is_int64(f.type) and file.type_of(f.name) is None)]

    def texts(names: Iterable[str]) -> Iterator[pa.RecordBatch]:
        with _stream(file.path) as source, reader(source, dict.fromkeys(names, pa.string()), names) as batches:
            yield from batches

    if file.texts is None:
        first = next(texts(numbers), None) if numbers else None
        if first is not None:
            refuse_rounded(file.name, (name for name in doubles if has_long_numbers(first.column(name))))
        codes = {name for name in numbers if first is not None and has_leading_zeros(first.column(name))}
        file.texts = codes | texts_to_keep(keys, texts(keys))
    hints |= {name: pa.string() for name in guessed.names if name in file.texts and file.type_of(name) is None}
    batches = reader(stream, hints)
    return batches.schema, _with_closed_quotes(file, batches)


def _guessed_doubles(file: _File, guess: pa.Schema) -> list[str]:
    """Columns that the table lacks, and that are read as doubles."""
    return [field.name for field in guess if types.is_float64(field.type) and file.type_of(field.name) is None]


def _with_closed_quotes(file: _File, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of a CSV file; pyarrow takes what follows a quote that is not closed for a part of the last value.

    Raises:
        RecordError: the last value is such one.
    """
    last: pa.RecordBatch | None = None
    for batch in batches:
        last = batch if batch.num_rows else last
        yield batch
    value = None if last is None else last.column(last.num_columns - 1)[-1].as_py()
    if isinstance(value, str) and "\n" in value and not _closes_its_last_quote(file, value):
        start = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
        raise RecordError(f"{file.name}: the quote before {start!r} is not closed; close it, or leave it out")


def _closes_its_last_quote(file: _File, value: str) -> bool:
    """Whether a file whose last value has several lines ends with the quote that closes it."""
    text = _tail(file).rstrip(b"\r\n")
    quotes = len(text) - len(text.rstrip(b'"'))
    if not text or value.endswith("\n"):
        return not text or (quotes == 1 and text[-2:-1] in b"\r\n")
    # those of the value stand twice
    return quotes == 2 * (len(value) - len(value.rstrip('"'))) + 1


def _tail(file: _File) -> bytes:
    """The last bytes of a file, decompressed."""
    tail = b""
    with _stream(file.path) as stream:
        if stream.seekable():
            stream.seek(max(0, stream.size() - _TAIL))
        while block := stream.read(_BLOCK):
            tail = (tail + block)[-_TAIL:]
    return tail


def _is_empty(stream: Any) -> bool:
    return bool(stream.seekable() and stream.size() == 0)


def _check_csv(file: _File, schema: pa.Schema) -> None:
    """Refuse a file in another encoding than UTF-8, with another delimiter than its format's, or with a name twice."""
    refuse_duplicates(schema.names)
    if any(types.is_binary(field.type) for field in schema):
        raise file.not_utf8()
    name = schema.names[0]
    delimiter = next((each for each in _OTHER_DELIMITERS if each in name), None)
    if len(schema.names) == 1 and delimiter is not None:
        raise RecordError(
            f"{file.name}: the only column is {name!r}: its values seem to be separated by {delimiter!r}; give a file "
            "with commas (csv), or with tabs (tsv, or --format tsv)"
        )


def _csv_type(target: pa.DataType | None, guess: pa.DataType) -> pa.DataType:
    """The type in which to read a column, given its type in the table and the type guessed from its first values."""
    if types.is_null(guess):
        return target or pa.string()
    if types.is_timestamp(guess) or (target is not None and types.is_timestamp(target)):
        zone = guess.tz if types.is_timestamp(guess) else None
        return pa.timestamp("us", zone) if target is None or types.is_timestamp(target) else target
    return target or guess


def _json(file: _File, stream: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    def reader(source: Any, columns: pa.Schema | None) -> Any:
        options = pa.json.ParseOptions(explicit_schema=columns, newlines_in_values=False)
        return pa.json.open_json(source, pa.json.ReadOptions(block_size=_BLOCK), options)

    if _is_empty(stream) and file.columns is not None:
        return file.columns, iter(())
    if file.starts_with(b"null"):  # pyarrow crashes
        raise RecordError(f"{file.name}: the first line is null; JSON lines have one object per line")
    with _stream(file.path) as beginning, reader(beginning, None) as guess:
        guessed = guess.schema
    doubles = _guessed_doubles(file, guessed)
    if doubles:
        with _stream(file.path) as beginning:
            start = beginning.read(_BLOCK)
        refuse_rounded(file.name, (n for n in doubles if re.search(_json_pattern(n), start)))
    targets = {field.name: file.type_of(field.name) for field in guessed}
    # pyarrow parses some strings as timestamps and drops their zones, so they are read as strings first
    texts = [field.name for field in guessed if _may_be_time(targets[field.name], field.type)]
    columns = [
        pa.field(field.name, pa.string() if field.name in texts else targets[field.name] or _json_type(field.type))
        for field in guessed
    ]
    batches = iter(reader(stream, pa.schema(columns)))
    first = next(batches, None)
    if first is None:
        return pa.schema(columns), iter(())
    kinds = {name: _time_type(first.column(name), targets[name]) for name in texts}
    schema = pa.schema([pa.field(field.name, kinds.get(field.name, field.type)) for field in first.schema])

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [batch.column(name).cast(kinds.get(name, batch.schema.field(name).type)) for name in schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return schema, map(change, itertools.chain([first], batches))


def _json_pattern(name: str) -> bytes:
    """Finds a long whole number in a column of JSON lines."""
    return rf"{re.escape(json.dumps(name, ensure_ascii=False))}\s*:\s*{LONG_NUMBER}\s*[,}}]".encode()


def _may_be_time(target: pa.DataType | None, guess: pa.DataType) -> bool:
    if target is None:
        return types.is_timestamp(guess) or types.is_string(guess)
    return types.is_timestamp(target) or types.is_date(target)


def _json_type(guess: pa.DataType) -> pa.DataType:
    return pa.string() if types.is_null(guess) else guess


def _time_type(texts: Any, target: pa.DataType | None) -> Any:
    """What the strings are: dates, instants, timestamps without a zone, or plain strings."""
    if target is not None and types.is_date(target):
        return target
    for kind in (*(() if target is not None else (pa.date32(),)), _UTC, _CLOCK):
        try:
            texts.cast(kind)
        except pa.ArrowInvalid:
            continue
        return kind
    return pa.string()


_READERS: Final[dict[str, Callable[[_File, Any], tuple[pa.Schema, Iterator[pa.RecordBatch]]]]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "csv": _csv,
    "tsv": functools.partial(_csv, delimiter="\t"),
    "json": _json,
}
FORMATS: Final = tuple(_READERS)
