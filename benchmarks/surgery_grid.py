"""Updates of base files by row-group surgery beside whole rewrites, over width, size, and what an update touches.

Each cell is one base file. An update sets some columns in a hundredth of the rows of some of its row groups; by the
writer's choice, by surgery and by a whole rewrite, in turns, each the writer's own merge of a file, statistics and key
look-up included. Figures are processor time of all threads, the least of the runs, so that other work of the machine
weighs little. The same run fits the figures of `table_writer/surgery/cost.py` (`fitted`).
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from table_format.codecs.arrow_numpy import from_numpy
from table_format.codecs.avro_schema import schema_text
from table_format.meta_columns import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY
from table_format.storage import Storage
from table_format.threads import within_threads
from table_writer.files.file_change import EncodedWork
from table_writer.metadata.column_statistics import indexable_columns
from table_writer.plan.plan import BUCKET_COLUMN, CURRENT_SCHEMA, FilePlan, ListedFiles, TaskIdentity
from table_writer.slots.slot import groups_of_rows, write_groups
from table_writer.surgery.cost import EditSize, FileChunks

WIDTHS = (4, 40, 400)  # user columns
SIZES = (1 << 17, 1 << 20, 1 << 22, 1 << 24)  # bytes of rows in memory
GROUPS = (1, 4, 8)
SHARES = (0.0, 0.5, 1.0)  # of the row groups touched; one at least
CHANGED = (0.0, 0.5, 1.0)  # of the columns changed; one at least
LEAST_ROWS = 1024  # of a row group
BYTES_A_CELL = 9  # of a value, on average
BEFORE, AFTER = "20260101000000000", "20260102000000000"


@dataclass(frozen=True)
class Cell:
    """One case.

    Attributes:
        columns: user columns of the file, key included.
        size: bytes of the file.
        groups: its row groups.
        touched: row groups with changed rows.
        changed: user columns with changed values.
        auto: seconds of processor time by the writer's choice.
        spliced: the same by surgery.
        whole: the same by the whole rewrite.
        chosen: whether the writer chose surgery.
        edit: what surgery handles.
    """

    columns: int
    size: int
    groups: int
    touched: int
    changed: int
    auto: float
    spliced: float
    whole: float
    chosen: bool
    edit: EditSize


class BaseFile:
    """A base file of one file group, to be merged with other rows again and again."""

    def __init__(self, folder: Path, columns: int, rows: int, groups: int) -> None:
        self._random = np.random.default_rng(columns * rows)
        self._folder = folder
        self.rows = self._rows(rows, columns)
        self._options = {"hoodie.parquet.block.size": str(self._block(rows, groups))}
        self._current = CURRENT_SCHEMA.empty_table()
        self.write(self.rows, BEFORE, "never")
        path = next(folder.glob("*.parquet")).name
        row = {"partition": "", "bucket": 0, "file_id": path.partition("_")[0], "instant": BEFORE, "path": path}
        self._current = pa.Table.from_pylist([row], CURRENT_SCHEMA)
        self.size = (folder / path).stat().st_size
        self.metadata = pq.read_metadata(folder / path)
        self.groups = int(self.metadata.num_row_groups)

    def _block(self, rows: int, groups: int) -> int:
        meta = 130  # bytes of the meta columns of a row, by which the writer counts too
        return (self.rows.nbytes + rows * meta) // groups

    def _rows(self, rows: int, columns: int) -> pa.Table:
        table = {"id": pa.array([f"key-{number:012d}" for number in range(rows)])}
        for number in range(columns - 1):
            table[f"c{number}"] = self._column(number, rows)
        return pa.table(table)

    def _column(self, number: int, rows: int) -> Any:
        match number % 4:
            case 0:
                return from_numpy(self._random.integers(0, 1 << 40, rows))
            case 1:
                return from_numpy(self._random.random(rows))
            case 2:
                return pa.array([f"city-{value}" for value in self._random.integers(0, 50, rows).tolist()])
            case _:
                return from_numpy(self._random.integers(0, 1000, rows).astype(np.int32))

    def batch(self, touched: int, changed: int) -> pa.Table:
        """A hundredth of the rows of some row groups spread over the file, with other values in some columns."""
        bounds = np.linspace(0, self.rows.num_rows, self.groups + 1).astype(np.int64)
        positions = np.concatenate([np.arange(bounds[g] + 7, bounds[g + 1] - 7, 100) for g in self._chosen(touched)])
        rows = self.rows.take(from_numpy(positions))
        # the neighbours' values; the last columns change
        others = self.rows.take(from_numpy(positions - 3))
        for name in rows.column_names[1:][-changed:]:
            rows = rows.set_column(rows.schema.get_field_index(name), name, others[name])
        return rows

    def edit(self, touched: int, changed: int) -> EditSize:
        """What surgery handles to write such a batch."""
        user, stamps = self.rows.column_names, [COMMIT_TIME, COMMIT_SEQNO]
        return FileChunks(self.metadata).edit(
            updated=self._chosen(touched),
            compared=[*stamps, *user],
            changed=[*stamps, *user[1:][-changed:]],
            statistics=[field.name for field in self.rows.schema if pa.types.is_floating(field.type)],
        )

    def _chosen(self, touched: int) -> list[int]:
        """Row groups spread over the file."""
        chosen: list[int] = np.linspace(0, self.groups - 1, touched).round().astype(np.int64).tolist()
        return chosen

    def write(self, rows: pa.Table, instant: str, surgery: str) -> EncodedWork:
        """Merge rows into the file; the new version stands beside it."""
        keyed = rows.append_column(RECORD_KEY, rows["id"])
        keyed = keyed.append_column(BUCKET_COLUMN, from_numpy(np.zeros(len(rows), np.int32))).combine_chunks()
        plan = FilePlan(
            storage=Storage(str(self._folder)),
            instant=instant,
            schema=self.rows.schema,
            footer_schema=schema_text(self.rows.schema, "grid", meta_fields=True),
            current=ListedFiles(self._current),
            unique=True,
            indexed=tuple(indexable_columns(self.rows.schema)),
            file_options={**self._options, "hoodie.catalog.write.surgery": surgery},
        )
        (written,) = write_groups(plan, groups_of_rows(keyed), TaskIdentity(0, f"0-0-{surgery}"))
        return written.work

    def timed(self, rows: pa.Table, surgery: str) -> tuple[float, EncodedWork]:
        """Processor time of one merge, and its work."""
        start = time.process_time()
        work = self.write(rows, AFTER, surgery)
        seconds = time.process_time() - start
        for path in self._folder.glob(f"*_{AFTER}.parquet"):
            path.unlink()
        return seconds, work


def run(
    repeats: int,
    widths: Sequence[int] = WIDTHS,
    sizes: Sequence[int] = SIZES,
    groups: Sequence[int] = GROUPS,
) -> list[Cell]:
    """Measure all cells whose row groups have the least number of rows.

    Args:
        repeats: runs of each cell by each way.
        widths: user columns of the files.
        sizes: bytes of their rows in memory.
        groups: their row groups.
    """
    cells: list[Cell] = []
    for columns, size, count in itertools.product(widths, sizes, groups):
        rows = size // (columns * BYTES_A_CELL)
        if rows // count >= (LEAST_ROWS if count > 1 else 100):
            with tempfile.TemporaryDirectory() as folder, within_threads(1):
                cells += _cells(BaseFile(Path(folder), columns, rows, count), columns, repeats)
    return cells


def _cells(file: BaseFile, columns: int, repeats: int) -> Iterator[Cell]:
    groups = file.groups
    cases = {
        (max(1, int(share * groups)), max(1, int(part * (columns - 1))))
        for share, part in itertools.product(SHARES, CHANGED)
    }
    for touched, changed in sorted(cases):
        batch = file.batch(touched, changed)
        seconds: dict[str, list[float]] = {"auto": [], "always": [], "never": []}
        works = {}
        for _ in range(repeats):
            for way, runs in seconds.items():
                duration, works[way] = file.timed(batch, way)
                runs.append(duration)
        auto, spliced, whole = (min(runs) for runs in seconds.values())
        chosen, edit = works["auto"].spliced > 0, file.edit(touched, changed)
        yield Cell(columns, file.size, groups, touched, changed, auto, spliced, whole, chosen, edit)


def table(cells: Sequence[Cell]) -> Iterator[str]:
    """The figures as Markdown tables: one row for a file and a number of row groups touched."""
    yield "Processor time by the writer's choice divided by that of the whole rewrite, in brackets where it chose this."
    yield ""
    yield from _rows(cells, lambda cell: _ratio(cell, cell.auto / cell.whole))
    yield ""
    yield "By surgery everywhere, in brackets where the writer does not take it:"
    yield ""
    yield from _rows(cells, lambda cell: _ratio(cell, cell.spliced / cell.whole))
    yield ""
    yield "Estimates that fit this run best:"
    yield ""
    yield from fitted(cells)


def _ratio(cell: Cell, ratio: float) -> str:
    return f"{ratio:.2f}" if cell.chosen else f"({ratio:.2f})"


def _rows(cells: Sequence[Cell], text: Callable[[Cell], str]) -> Iterator[str]:
    yield "| columns | file (MB) | row groups touched | one column changed | half of them | all but the key |"
    yield "|---|---|---|---|---|---|"
    for key, several in itertools.groupby(cells, key=lambda c: (c.columns, c.size, c.groups, c.touched)):
        columns, size, groups, touched = key
        by_count = {cell.changed: cell for cell in several}
        counts = [max(1, int(part * (columns - 1))) for part in CHANGED]
        ratios = " | ".join(text(by_count[count]) for count in counts)
        yield f"| {columns} | {size / 1e6:.2f} | {touched} of {groups} | {ratios} |"


def fitted(cells: Sequence[Cell]) -> Iterator[str]:
    """Least squares of the relative error: what each part of an edit, and of a rewrite, costs in this run."""
    edits = [cell.edit for cell in cells]
    surgery = {
        "file (µs)": [1.0 for _ in edits],
        "chunk (µs)": [edit.file.count for edit in edits],
        "chunk decoded (µs)": [edit.read.count for edit in edits],
        "chunk encoded (µs)": [edit.encoded.count for edit in edits],
        "byte decoded (ns)": [edit.read.load / 1000 for edit in edits],
        "byte encoded (ns)": [edit.encoded.load / 1000 for edit in edits],
        "byte copied (ns)": [max(0, edit.file.load - edit.encoded.load) / 1000 for edit in edits],
    }
    rewrite = {
        "file (µs)": [1.0 for _ in edits],
        "column (µs)": [edit.columns for edit in edits],
        "chunk (µs)": [edit.file.count for edit in edits],
        "byte (ns)": [edit.file.load / 1000 for edit in edits],
    }
    yield "| way | part | cost | of the cells within 30 % |"
    yield "|---|---|---|---|"
    sides = (("surgery", surgery, [c.spliced for c in cells]), ("rewrite", rewrite, [c.whole for c in cells]))
    for way, parts, seconds in sides:
        measured = np.array(seconds) * 1e6
        relative = np.array(list(parts.values()), float).T / measured[:, None]
        costs = _not_negative(relative)
        near = np.mean(np.abs(relative @ costs - 1) <= 0.3)
        for name, cost in zip(parts, costs, strict=True):
            yield f"| {way} | {name} | {cost:.3g} | {near:.0%} |"


def _not_negative(relative: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Costs by least squares; parts that would come out negative cost nothing."""
    used = np.ones(relative.shape[1], bool)
    costs = np.zeros(relative.shape[1])
    while used.any():
        solution, *_ = np.linalg.lstsq(relative[:, used], np.ones(len(relative)), rcond=None)
        if (solution >= 0).all():
            costs[used] = solution
            break
        used[np.flatnonzero(used)[solution.argmin()]] = False
    return costs
