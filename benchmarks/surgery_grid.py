"""Updates of base files by row-group surgery beside whole rewrites, over width, size, and what an update touches.

Each cell is one base file. An update sets some columns in a hundredth of the rows of some of its row groups; both ways
run the writer's own merge of a file, statistics and key look-up included, in turns. Figures are processor time of all
threads, the least of the runs, so that other work of the machine weighs little.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from table_format.codecs.arrow_numpy import from_numpy
from table_format.codecs.avro_schema import schema_text
from table_format.meta_columns import RECORD_KEY
from table_format.storage import Storage
from table_format.threads import within_threads
from table_writer.files.file_change import EncodedWork
from table_writer.metadata.column_statistics import indexable_columns
from table_writer.plan.plan import BUCKET_COLUMN, CURRENT_SCHEMA, FilePlan, ListedFiles, TaskIdentity
from table_writer.slots.slot import groups_of_rows, write_groups

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
        spliced: seconds of processor time by surgery.
        whole: the same by the whole rewrite.
        work: what surgery did.
    """

    columns: int
    size: int
    groups: int
    touched: int
    changed: int
    spliced: float
    whole: float
    work: EncodedWork


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
        self.groups = int(pq.read_metadata(folder / path).num_row_groups)

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
        chosen = np.linspace(0, self.groups - 1, touched).round().astype(np.int64)
        positions = np.concatenate([np.arange(bounds[g] + 7, bounds[g + 1] - 7, 100) for g in chosen])
        rows = self.rows.take(from_numpy(positions))
        # the neighbours' values; the last columns change
        others = self.rows.take(from_numpy(positions - 3))
        for name in rows.column_names[1:][-changed:]:
            rows = rows.set_column(rows.schema.get_field_index(name), name, others[name])
        return rows

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
    mode: str = "auto",
) -> list[Cell]:
    """Measure all cells whose row groups have the least number of rows.

    Args:
        repeats: runs of each cell by each way.
        widths: user columns of the files.
        sizes: bytes of their rows in memory.
        groups: their row groups.
        mode: value of `hoodie.catalog.write.surgery` that is compared with `never`.
    """
    cells = []
    for columns, size, count in itertools.product(widths, sizes, groups):
        rows = size // (columns * BYTES_A_CELL)
        if rows // count >= (LEAST_ROWS if count > 1 else 100):
            with tempfile.TemporaryDirectory() as folder, within_threads(1):
                cells += _cells(BaseFile(Path(folder), columns, rows, count), columns, repeats, mode)
    return cells


def _cells(file: BaseFile, columns: int, repeats: int, mode: str) -> Iterator[Cell]:
    groups = file.groups
    cases = {
        (max(1, int(share * groups)), max(1, int(part * (columns - 1))))
        for share, part in itertools.product(SHARES, CHANGED)
    }
    for touched, changed in sorted(cases):
        batch = file.batch(touched, changed)
        seconds: dict[str, list[float]] = {mode: [], "never": []}
        works = {}
        for _ in range(repeats):
            for way, runs in seconds.items():
                duration, works[way] = file.timed(batch, way)
                runs.append(duration)
        yield Cell(columns, file.size, groups, touched, changed, min(seconds[mode]), min(seconds["never"]), works[mode])


def table(cells: Sequence[Cell]) -> Iterator[str]:
    """The figures as a Markdown table: one row for a file and a number of row groups touched."""
    yield "Processor time divided by that of the whole rewrite; in brackets where the file was rewritten whole."
    yield ""
    yield "| columns | file (MB) | row groups touched | one column changed | half of them | all but the key |"
    yield "|---|---|---|---|---|---|"
    for key, several in itertools.groupby(cells, key=lambda c: (c.columns, c.size, c.groups, c.touched)):
        columns, size, groups, touched = key
        by_count = {cell.changed: cell for cell in several}
        counts = [max(1, int(part * (columns - 1))) for part in CHANGED]
        ratios = " | ".join(_ratio(by_count[count]) for count in counts)
        yield f"| {columns} | {size / 1e6:.2f} | {touched} of {groups} | {ratios} |"


def _ratio(cell: Cell) -> str:
    ratio = f"{cell.spliced / cell.whole:.2f}"
    return ratio if cell.work.spliced else f"({ratio})"
