"""The evaluation that RFC-29 left to do: bucket index, bloom filters and record index, written and read, on both sides.

TPC-H lineitem, 2,000,296 rows in 8 files: hash buckets, or files of one key range each. Every upsert changes a
hundredth of the rows, in one range of keys or at random, and starts from a copy of the table as `bulk_insert` left
it. Bloom filters stand in the footers of the data files; this writer does not look records up by them.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import lineitem
from benchmarks.rival import apache_session
from benchmarks.writing import spark_session
from catalog.table import Table
from spark_writer import write_hudi
from table_format.base_file.footer import BLOOM
from tests.support.apache_hudi_client import ApacheHudi

OURS, WHOLE, APACHE = "hudi-catalog", "hudi-catalog, whole files", "Apache Hudi"
BUCKET, BLOOMS, RECORD = "bucket", "bloom filter", "record index"
SORTED = {
    "hoodie.bulkinsert.sort.mode": "GLOBAL_SORT",
    "hoodie.bulkinsert.shuffle.parallelism": str(lineitem.BUCKETS),
}
OPTIONS: dict[str, dict[str, str]] = {
    BUCKET: {},
    BLOOMS: {"hoodie.index.type": "BLOOM", **SORTED},
    RECORD: {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true", **SORTED},
}
BUILT = {BUCKET: (OURS, APACHE), BLOOMS: (APACHE,), RECORD: (OURS, APACHE)}
UPSERTED = {BUCKET: (OURS, WHOLE, APACHE), BLOOMS: (APACHE,), RECORD: (OURS, WHOLE, APACHE)}
RANGE, RANDOM = "1 % in one key range", "1 % at random"
CHANGES = (RANGE, RANDOM)
LOOKUPS = 5


@dataclass
class Built:
    """A table as `bulk_insert` left it, and how one record is read from it by its key.

    Attributes:
        path: of the table.
        seconds: of the bulk_insert.
        data: bytes of data files.
        index: bytes of the index; those of the bloom filters in the footers.
        lookups: seconds of reading one record, run by run.
        files: data files that are read for it.
    """

    path: Path
    seconds: float
    data: int
    index: int
    lookups: list[float] = field(default_factory=list)
    files: int | None = None


@dataclass
class Figures:
    """What was measured.

    Attributes:
        built: by index and side.
        upserts: seconds of each counted run, by index, change and side.
        encoded: bytes of column chunks that our upserts encoded, by the same.
    """

    built: dict[tuple[str, str], Built] = field(default_factory=dict)
    upserts: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)
    encoded: dict[tuple[str, str, str], int] = field(default_factory=dict)


def neighbours(folder: Path, scale: str) -> Path:
    """One row in a hundred, all of one range of keys, with another comment."""
    path = folder / "neighbours.parquet"
    if not path.exists():
        table = pq.read_table(lineitem.source(folder, scale))
        types = {pa.string_view(): pa.string()}
        table = table.cast(pa.schema([field.with_type(types.get(field.type, field.type)) for field in table.schema]))
        table = table.sort_by([("l_orderkey", "ascending")])
        # keys of as many digits as most others, neighbours as texts, too, and those of one file of eight
        table = table.slice(int(table.num_rows * 0.55), table.num_rows // 100)
        comment = pc.binary_join_element_wise("corrected", table["l_comment"], " ")
        pq.write_table(table.set_column(table.schema.get_field_index("l_comment"), "l_comment", comment), path)
    return path


class Sides:
    """Both writers, each in its session."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder
        self.rows = rows
        self._stack = contextlib.ExitStack()
        self.spark = self._stack.enter_context(spark_session())
        self.apache = self._stack.enter_context(apache_session(folder))

    def close(self) -> None:
        self._stack.close()

    def write(self, index: str, side: str, path: Path, source: Path, operation: str) -> tuple[float, Any]:
        """Seconds of one write, and what our writer says of it."""
        options = {**lineitem.OPTIONS, **OPTIONS[index], "hoodie.datasource.write.operation": operation}
        if index != BUCKET:
            del options["hoodie.bucket.index.num.buckets"]
        if side == APACHE:
            start = time.perf_counter()
            self.apache.write_file(path, source, options)
            return time.perf_counter() - start, None
        options["hoodie.catalog.write.surgery"] = "never" if side == WHOLE else "auto"
        if index == RECORD:
            each = -(-self.rows // lineitem.BUCKETS)
            options |= {
                "hoodie.copyonwrite.insert.auto.split": "false",
                "hoodie.copyonwrite.insert.split.size": str(each),
            }
        start = time.perf_counter()
        summary = write_hudi(self.spark.read.parquet(str(source)), str(path), options, mode="append")
        return time.perf_counter() - start, summary


def run(folder: Path, repeats: int, scale: str = lineitem.SCALE) -> Figures:
    """Measure all of it.

    Raises:
        RuntimeError: a side lost rows, or did not write the changes.
    """
    data = folder / "data"
    sources = {RANGE: neighbours(data, scale), RANDOM: lineitem.corrections(data)}
    rows = pq.read_metadata(lineitem.source(data, scale)).num_rows
    figures = Figures()
    with contextlib.closing(Sides(folder, rows)) as sides:
        _build(sides, figures, lineitem.source(data, scale))
        _look_up(sides, figures, sources[RANGE])
        for attempt in range(repeats + 1):  # the first round warms up
            for index, change in ((index, change) for index in UPSERTED for change in CHANGES):
                for side in UPSERTED[index]:
                    origin = figures.built[index, OURS if side == WHOLE else side].path
                    # a new path each time: Apache's session remembers files by path
                    path = folder / f"{origin.name}-{attempt}"
                    shutil.copytree(origin, path)
                    seconds, summary = sides.write(index, side, path, sources[change], "upsert")
                    print(f"{index:13} {change:21} {side:26} {seconds:6.2f} s", flush=True)
                    if attempt:
                        figures.upserts.setdefault((index, change, side), []).append(seconds)
                    else:
                        _check(path, rows, sources[change])
                    figures.encoded[index, change, side] = getattr(summary, "bytes_encoded", 0)
                    shutil.rmtree(path)
    return figures


def _build(sides: Sides, figures: Figures, source: Path) -> None:
    for attempt in range(2):
        for index, both in BUILT.items():
            for side in both:
                if not attempt and index != BUCKET:
                    continue  # one index warms up for all
                path = sides.folder / f"{index.split()[0]}-{side.split()[0].lower()}-{attempt}"
                shutil.rmtree(path, ignore_errors=True)
                seconds, _ = sides.write(index, side, path, source, "bulk_insert")
                print(f"{index:13} {'bulk_insert':21} {side:26} {seconds:6.2f} s", flush=True)
                if not attempt:
                    shutil.rmtree(path)
                    continue
                figures.built[index, side] = Built(
                    path, seconds, lineitem.bytes_on_disk(path), _index_bytes(index, path)
                )


def _index_bytes(index: str, path: Path) -> int:
    if index == RECORD:
        return sum(file.stat().st_size for file in (path / ".hoodie/metadata/record_index").iterdir())
    if index == BLOOMS:
        texts = (pq.read_metadata(file).metadata or {} for file in path.glob("*.parquet"))
        return sum(len(key_values.get(BLOOM.encode(), b"")) for key_values in texts)
    return 0


def _check(path: Path, rows: int, changes: Path) -> None:
    comments = Table.open(str(path)).scan(columns=["l_comment"]).to_arrow()["l_comment"]
    corrected = pc.sum(pc.starts_with(comments, "corrected ")).as_py()
    expected = pq.read_metadata(changes).num_rows
    if (len(comments), corrected) != (rows, expected):
        raise RuntimeError(f"{path}: {len(comments)} rows with {corrected} changes, not {rows} with {expected}")


def _look_up(sides: Sides, figures: Figures, changes: Path) -> None:
    """Read one record by its key, in a session that is warm and a table that is not open yet."""
    keys = pq.read_table(changes, columns=lineitem.KEY)
    wanted = keys.take(list(range(0, keys.num_rows, keys.num_rows // (LOOKUPS + 1)))[: LOOKUPS + 1]).to_pylist()
    for (index, side), built in figures.built.items():
        for attempt, key in enumerate(wanted):
            where = " AND ".join(f"{name} = {value}" for name, value in key.items())
            start = time.perf_counter()
            if side == APACHE:
                row_count = _ask_apache(sides.apache, index, built.path, where)
            else:
                row_count = Table.open(str(built.path)).scan(where).to_arrow().num_rows
            seconds = time.perf_counter() - start
            if row_count != 1:
                raise RuntimeError(f"{built.path}: {row_count} rows where {where}")
            if attempt:
                built.lookups.append(seconds)
        built.files = _files_kept(sides.apache, index, side, built.path, where)


def _reading(index: str) -> Mapping[str, str]:
    options = {
        "hoodie.enable.data.skipping": "true",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
    }
    if index == RECORD:
        options["hoodie.metadata.record.index.enable"] = "true"
    return options


def _ask_apache(apache: ApacheHudi, index: str, path: Path, where: str) -> int:
    for key, value in _reading(index).items():
        apache.sql(f"SET {key}={value}")
    columns = ", ".join(f"'{key}'='{value}'" for key, value in _reading(index).items())
    apache.sql(f"CREATE TEMPORARY VIEW wanted USING hudi OPTIONS (path '{path}', {columns})")
    try:
        return len(apache.sql(f"SELECT * FROM wanted WHERE {where}"))
    finally:
        apache.sql("DROP VIEW wanted")


def _files_kept(apache: ApacheHudi, index: str, side: str, path: Path, where: str) -> int | None:
    if side != APACHE:
        return len(Table.open(str(path)).scan(where).plan().splits)
    (files,) = apache.planned_files(path, [where], _reading(index))
    return None if files is None else len(files)


def table(figures: Figures) -> Iterator[str]:
    """The figures as Markdown tables."""
    yield "| upsert | index | side | runs (s) | median (s) | times as fast | MB encoded |"
    yield "|---|---|---|---|---|---|---|"
    for change in CHANGES:
        for (index, kind, side), seconds in figures.upserts.items():
            if kind != change:
                continue
            median = statistics.median(seconds)
            rival = statistics.median(figures.upserts[index, change, APACHE])
            runs = ", ".join(f"{second:.2f}" for second in seconds)
            encoded = "-" if side == APACHE else f"{figures.encoded[index, change, side] / 1e6:.1f}"
            yield f"| {change} | {index} | {side} | {runs} | {median:.2f} | {rival / median:.1f} | {encoded} |"
    yield ""
    yield (
        "| index | side | bulk_insert (s) | upsert, key range (s) | upsert, random (s) | one record by key (ms) | "
        "files read | data (MB) | index (MB) |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for (index, side), built in figures.built.items():
        upserts = " | ".join(f"{statistics.median(figures.upserts[index, change, side]):.2f}" for change in CHANGES)
        lookup = statistics.median(built.lookups) * 1000
        sizes = f"{built.data / 1e6:.1f} | {built.index / 1e6:.1f}"
        yield f"| {index} | {side} | {built.seconds:.2f} | {upserts} | {lookup:.0f} | {built.files} | {sizes} |"
