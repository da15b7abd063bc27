"""New versions of one Parquet file by row-group surgery, beside a copy of its bytes and beside a whole rewrite.

The files are base files of 16 columns behind Hudi's five: one of 1 GB of payments, made of random numbers and texts,
and a small one of TPC-H lineitem. An update sets a hundredth of the values of some columns in some row groups, and with
them what a write has to set: the commit's time and sequence numbers of these rows, and the file's own name in all rows.
Reading what is changed is part of each run, that of the keys included.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import keyed, lineitem
from table_format.codecs.arrow_numpy import from_numpy
from table_format.meta_columns import COMMIT_SEQNO, COMMIT_TIME, FILE_NAME, META_COLUMNS, RECORD_KEY
from table_format.storage import Storage
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.encoding.meta_columns import add_meta_columns
from table_writer.surgery.splice import FileEdit, NewColumns, SpliceResult, splice

GROUPS = 20
PAYMENTS, LINES = 345_000, 250_000  # rows of a row group
COLUMNS = 16
SHARES = (1, 5, 10, 20)  # row groups touched
WIDTHS = (1, 2, 4, 8, 16)  # columns touched of lineitem, from the last one on, which is the widest
BOOKED = ["balance", "state"]  # columns touched of payments
OLD, NEW = "20260101000000000", "20260102000000000"
COPY, SPLICE, WIDER, WHOLE = "copy of the bytes", "surgery, 2 columns", "surgery, 16 columns", "whole rewrite"


@dataclass
class Figures:
    """What was measured.

    Attributes:
        sizes: bytes of the large and the small file.
        seconds: of each run on the large file, by what was done.
        encoded: bytes that each encoded.
        copied: bytes that each copied.
        whole: seconds of the whole rewrites of the small file.
        cells: seconds of surgery on the small file, by row groups and columns touched.
    """

    sizes: tuple[int, int] = (0, 0)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    encoded: dict[str, int] = field(default_factory=dict)
    copied: dict[str, int] = field(default_factory=dict)
    whole: list[float] = field(default_factory=list)
    cells: dict[tuple[int, int], float] = field(default_factory=dict)


def build(path: Path, group: Callable[[int], pa.Table]) -> Path:
    """Write the file where it is not there yet, out of what `group` gives for the number of a row group."""
    if path.exists():
        return path
    making = path.with_suffix(".making")
    first = group(0)
    with pq.ParquetWriter(making, first.schema, store_schema=False, **BaseFileOptions().writer_arguments(first)) as out:
        for number in range(GROUPS):
            table = group(number)
            out.write_table(table, row_group_size=table.num_rows)
    making.rename(path)
    return path


def lines(folder: Path, rows: int) -> Path:
    """The file of lineitem."""
    table = pq.read_table(lineitem.source(folder / "data"))
    types = {pa.string_view(): pa.string()}
    table = table.cast(pa.schema([f.with_type(types.get(f.type, f.type)).remove_metadata() for f in table.schema]))

    def group(number: int) -> pa.Table:
        # where the source is used up, it starts again under other order numbers
        part = table.slice(number * rows % (table.num_rows - rows + 1), rows).combine_chunks()
        part = part.set_column(0, part.schema.field(0), pc.add(part["l_orderkey"], number * 10_000_000))
        texts = (pc.cast(part[key], pa.string()) for key in lineitem.KEY)
        return _with_meta(
            part, pc.binary_join_element_wise("l_orderkey:", next(texts), ",l_linenumber:", *texts, ""), number
        )

    return build(folder / f"lines-{rows}.parquet", group)


def payments(folder: Path, rows: int) -> Path:
    """The file of payments."""
    currencies = pa.array(["EUR", "USD", "CHF", "GBP", "JPY", "SEK", "NOK", "PLN"])

    def group(number: int) -> pa.Table:
        random = np.random.default_rng(number)
        numbers = {name: random.integers(0, 1 << 62, rows) for name in ("account", "merchant", "order", "device")}
        names = ("amount", "fee", "tax", "score", "latitude", "longitude")
        columns: dict[str, Any] = {name: from_numpy(values) for name, values in numbers.items()}
        columns |= {name: from_numpy(random.random(rows) * 1000) for name in names}
        columns["at"] = from_numpy(1_767_225_600_000_000 + random.integers(0, 10**12, rows)).cast(pa.timestamp("us"))
        columns["token"] = keyed.keys_of_file(GROUPS + number, rows).take(from_numpy(random.permutation(rows)))
        columns["currency"] = currencies.take(from_numpy(random.integers(0, len(currencies), rows)))
        columns["balance"] = from_numpy(random.random(rows) * 1000)
        columns["state"] = from_numpy(random.integers(0, 5, rows).astype(np.int32))
        keys = keyed.keys_of_file(number, rows)
        return _with_meta(pa.table({"id": keys, **columns}), keys, number)

    return build(folder / f"payments-{rows}.parquet", group)


def _with_meta(rows: pa.Table, keys: Any, number: int) -> pa.Table:
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    first = number * rows.num_rows
    name = f"00000000-0000-4000-8000-000000000000-0_0-0-0_{OLD}.parquet"
    return add_meta_columns(rows, instant=OLD, task=0, keys=keys, partition="", file_name=name, first_row=first)


def update(source: Path, target: Path, groups: int, names: list[str]) -> SpliceResult:
    """A new version in which some columns of some row groups, spread over the file, differ, by surgery."""
    step = GROUPS // groups
    with pq.ParquetFile(source) as file:
        chosen = range(step // 2, GROUPS, step)
        edits = {number: NewColumns(changed(_read(file, number, names), names)) for number in chosen}
    edit = FileEdit(groups=edits, constants={FILE_NAME: target.name})
    return splice(Storage(str(source.parent)), source.name, target.name, edit, BaseFileOptions())


def _read(file: Any, number: int, names: list[str]) -> pa.Table:
    # the keys tell which rows are meant
    table = file.read_row_group(number, columns=[COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, *names])
    return table.drop_columns([RECORD_KEY])


def changed(table: pa.Table, names: list[str]) -> pa.Table:
    """Other values of some columns in a hundredth of the rows: those of the neighbours."""
    place = np.arange(table.num_rows)
    place[::100] -= 1
    hit: Any = from_numpy(np.arange(table.num_rows) % 100 == 0)
    for name in names:
        position = table.schema.get_field_index(name)
        column = table[name].combine_chunks().take(from_numpy(place % table.num_rows))
        table = table.set_column(position, table.schema.field(position), column)
    for name, text in ((COMMIT_TIME, NEW), (COMMIT_SEQNO, f"{NEW}_0_0")):
        position = table.schema.get_field_index(name)
        table = table.set_column(position, table.schema.field(position), pc.if_else(hit, text, table[name]))
    return table


def rewrite(source: Path, target: Path) -> None:
    """A new version of all rows, decoded and encoded, row group by row group."""
    with pq.ParquetFile(source) as file:
        writer = None
        for number in range(file.num_row_groups):
            table = file.read_row_group(number)
            table = changed(table, [name for name in table.column_names if name not in META_COLUMNS])
            position = table.schema.get_field_index(FILE_NAME)
            names = pa.repeat(pa.scalar(target.name), table.num_rows).dictionary_encode()
            table = table.set_column(position, FILE_NAME, names)
            if writer is None:
                arguments = BaseFileOptions().writer_arguments(table)
                writer = pq.ParquetWriter(target, table.schema, store_schema=False, **arguments)
            writer.write_table(table, row_group_size=table.num_rows)
        if writer is not None:
            writer.close()


def copy(source: Path, target: Path) -> None:
    """The same bytes under another name, copied by the kernel."""
    with source.open("rb") as old, target.open("wb") as new:
        left = source.stat().st_size
        while left:
            left -= os.copy_file_range(old.fileno(), new.fileno(), min(left, 1 << 30))


def run(folder: Path, repeats: int, large: int = PAYMENTS, small: int = LINES) -> Figures:
    """Measure all of it; the pages of both files are in memory."""
    figures = Figures()
    files = payments(folder, large), lines(folder, small)
    figures.sizes = (files[0].stat().st_size, files[1].stat().st_size)
    _measure_large(files[0], repeats, figures)
    _measure_cells(files[1], repeats, figures)
    return figures


def _measure_large(source: Path, repeats: int, figures: Figures) -> None:
    target = source.with_name("surgery-target.parquet")
    names = pq.read_schema(source).names[-COLUMNS:]
    jobs: dict[str, Callable[[], SpliceResult | None]] = {
        COPY: lambda: copy(source, target),
        SPLICE: lambda: update(source, target, 1, BOOKED),
        WIDER: lambda: update(source, target, 1, names),
    }
    for name in jobs:
        figures.seconds[name] = []
    for attempt in range(2 * repeats + 2):
        for name, job in jobs.items():
            seconds, result = _timed(job, target)
            if attempt:  # the first round brings the file into memory
                figures.seconds[name].append(seconds)
            if result is not None:
                figures.encoded[name], figures.copied[name] = result.bytes_encoded, result.bytes_copied
    figures.seconds[WHOLE] = [_timed(lambda: rewrite(source, target), target)[0]]
    figures.encoded[WHOLE], figures.copied[WHOLE] = figures.sizes[0], 0
    figures.encoded[COPY], figures.copied[COPY] = 0, figures.sizes[0]


def _measure_cells(source: Path, repeats: int, figures: Figures) -> None:
    target = source.with_name("surgery-target.parquet")
    names = pq.read_schema(source).names
    seconds_of: dict[tuple[int, int], list[float]] = {(g, c): [] for g in SHARES for c in WIDTHS}
    for attempt in range(min(repeats, 2) + 1):
        seconds = [_timed(lambda: rewrite(source, target), target)[0]]
        for (groups, columns), runs in seconds_of.items():
            if attempt:
                runs.append(_timed(partial(update, source, target, groups, names[-columns:]), target)[0])
        if attempt:
            figures.whole += seconds
    figures.cells = {cell: statistics.median(runs) for cell, runs in seconds_of.items()}


def _timed(job: Callable[[], SpliceResult | None], target: Path) -> tuple[float, SpliceResult | None]:
    start = time.perf_counter()
    result = job()
    seconds = time.perf_counter() - start
    target.unlink()
    return seconds, result


def table(figures: Figures) -> Iterator[str]:
    """The figures as Markdown tables."""
    yield f"A file of payments of {figures.sizes[0] / 1e9:.2f} GB and {GROUPS} row groups; surgery touches one of them."
    yield ""
    yield "| new version by | runs (s) | median (s) | times the copy | MB encoded | MB copied |"
    yield "|---|---|---|---|---|---|"
    own = statistics.median(figures.seconds[COPY])
    for name, seconds in figures.seconds.items():
        median = statistics.median(seconds)
        runs = ", ".join(f"{second:.2f}" for second in seconds)
        moved = f"{figures.encoded[name] / 1e6:.1f} | {figures.copied[name] / 1e6:.1f}"
        yield f"| {name} | {runs} | {median:.2f} | {median / own:.2f} | {moved} |"
    whole = statistics.median(figures.whole)
    yield ""
    yield (
        f"How many times as fast as the whole rewrite ({whole:.2f} s) of a file of lineitem of "
        f"{figures.sizes[1] / 1e6:.0f} MB and {GROUPS} row groups, by what is touched (seconds):"
    )
    yield ""
    yield "| row groups | " + " | ".join(f"{columns} of {COLUMNS} columns" for columns in WIDTHS) + " |"
    yield "|---|" + "---|" * len(WIDTHS)
    for groups in SHARES:
        cells = (figures.cells[groups, columns] for columns in WIDTHS)
        yield f"| {groups} of {GROUPS} | " + " | ".join(f"{whole / s:.1f} ({s:.2f})" for s in cells) + " |"
