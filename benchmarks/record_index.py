"""The record index by itself: look-ups in one HFile, building the index of 50 million keys, and tagging 1 % of them.

Keys are random UUIDs. Tagging starts with rows in memory and ends when each has its file group: on this side with the
tagging stages of the writer, on Apache's with `tagLocation` of its index. Both look into the same index, built
by this project, with two cores and a warm session.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks import keyed
from benchmarks.rival import RIVAL, apache_session
from benchmarks.writing import spark_session
from spark_writer import HudiTable
from spark_writer.executor import SparkExecutor
from spark_writer.frame_rows import FrameRows
from spark_writer.progress import default_parallelism
from table_format.codecs.arrow_numpy import from_numpy
from table_format.keys.bucket_index import BucketHashRule
from table_format.keys.key_generator import key_spec_of_properties
from table_format.metadata_table.record_index import RecordIndex
from table_format.table.client import TableClient
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.plan import option_registry as registry
from table_writer.plan.options import WriteOptions
from table_writer.plan.plan import KeyPlan
from table_writer.record_index.bootstrap import bootstrap_index
from table_writer.slots.partition_files import PartitionFiles
from table_writer.tagging.files import sizing
from table_writer.tagging.passes import IndexedWrite
from table_writer.tagging.rows import Profile, RowPlan
from table_writer.tagging.tagging import Known, TagPlan
from tests.support.apache_hudi_client import ApacheHudi

ROWS = 50_000_000
ENTRIES, RUNS = 1_000_000, 60
WANTED = (100, 1_000, 10_000, 100_000, 300_000, 1_000_000)
GOAL = 100_000  # keys of the look-up that is run often
WAYS: dict[str, dict[str, str]] = {
    "chosen": {},
    "seek": {
        "hoodie.catalog.record.index.dynamic.lookup": "false",
        "hoodie.catalog.record.index.lookup": "seek",
    },
    "scan": {
        "hoodie.catalog.record.index.dynamic.lookup": "false",
        "hoodie.catalog.record.index.lookup": "scan",
    },
}
OURS, PLAIN, APACHE = "hudi-catalog, the writer", "hudi-catalog, without Spark", f"Apache Hudi {RIVAL}"
OPTIONS = {
    "hoodie.table.name": keyed.NAME,
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": keyed.PROPERTIES["hoodie.table.keygenerator.class"],
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
}


@dataclass
class Figures:
    """What was measured.

    Attributes:
        rows: of the large table.
        hfile: bytes of the HFile with a million entries.
        often: seconds of looking up so many keys in it, run by run.
        lookups: median seconds, by number of keys and way.
        written: seconds of writing the large table; None if it was there.
        built: seconds of building its index in Spark's tasks; None if it was there.
        index: bytes of that index.
        groups: its file groups.
        tagging: seconds of tagging, run by run, by side.
        wanted: rows that are tagged.
    """

    rows: int
    hfile: int = 0
    often: list[float] = field(default_factory=list)
    lookups: dict[tuple[int, str], float] = field(default_factory=dict)
    written: float | None = None
    built: float | None = None
    index: int = 0
    groups: int = 0
    tagging: dict[str, list[float]] = field(default_factory=dict)
    wanted: int = 0


class _Tagged(Exception):  # noqa: N818  # no error: the write is over as soon as it is tagged
    """The rows of a write are tagged."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile


def run(folder: Path, repeats: int, rows: int = ROWS, entries: int = ENTRIES) -> Figures:
    """Measure all of it.

    Raises:
        RuntimeError: a side did not find all keys.
    """
    figures = Figures(rows)
    _measure_hfile(folder, entries, figures)
    path = folder / f"keyed-{rows}"
    if not path.exists():
        start = time.perf_counter()
        keyed.build(path, rows)
        figures.written = time.perf_counter() - start
    wanted = keyed.wanted(folder / f"keyed-{rows}.parquet", rows)
    figures.wanted = pq.read_metadata(wanted).num_rows
    with spark_session() as spark, apache_session(folder) as apache:
        _bootstrap(spark, path, figures)
        rows = spark.read.parquet(str(wanted)).repartition(default_parallelism(spark)).persist()
        rows.count()
        keys: Any = pq.read_table(wanted, columns=["id"])["id"].combine_chunks()
        sides = {
            OURS: lambda: _tag_in_spark(path, rows),
            PLAIN: lambda: _tag_plainly(path, keys),
            APACHE: lambda: _tag_by_apache(apache, path, wanted),
        }
        for attempt in range(repeats + 1):  # in turns, since other work of the machine comes and goes
            for side, tag in sides.items():
                seconds, count = tag()
                if count != figures.wanted:
                    raise RuntimeError(f"{side}: {count} of {figures.wanted} keys found")
                print(f"{side:30} {seconds:6.2f} s{'' if attempt else '  (warm-up)'}", flush=True)
                if attempt:
                    figures.tagging.setdefault(side, []).append(seconds)
    return figures


def _measure_hfile(folder: Path, entries: int, figures: Figures) -> None:
    """Look keys up in an index of one file group; the file is in memory, and every run opens it again."""
    path = folder / f"keyed-one-{entries}"
    shutil.rmtree(path, ignore_errors=True)
    keyed.build(path, entries)
    bootstrap_index(TableClient.open(str(path)), {}, groups=1)
    (hfile,) = (path / ".hoodie/metadata/record_index").glob("*.hfile")
    figures.hfile = hfile.stat().st_size
    keys = keyed.keys_of_file(0, min(entries, keyed.ROWS_PER_FILE))
    random = np.random.default_rng(3)
    for number in range(RUNS + 1):
        seconds = _look_up(path, _some(keys, min(GOAL, entries // 10), random), {})
        if number:
            figures.often.append(seconds)
    for count in WANTED:
        for way, options in WAYS.items():
            runs = [_look_up(path, _some(keys, min(count, len(keys)), random), options) for _ in range(5)]
            figures.lookups[count, way] = statistics.median(runs)


def _some(keys: pa.Array[Any], count: int, random: np.random.Generator) -> pa.Array[Any]:
    return keys.take(from_numpy(random.permutation(len(keys))[:count]))


def _look_up(path: Path, keys: pa.Array[Any], options: dict[str, str]) -> float:
    index = RecordIndex.open(TableClient.open(str(path)), options=options)
    start = time.perf_counter()
    locations = index.get_record_locations(keys)
    seconds = time.perf_counter() - start
    if locations.num_rows != len(keys):
        raise RuntimeError(f"{locations.num_rows} of {len(keys)} keys found")
    return seconds


def _bootstrap(spark: SparkSession, path: Path, figures: Figures) -> None:
    folder = path / ".hoodie/metadata/record_index"
    if not folder.exists():
        table = HudiTable.for_path(spark, str(path))
        start = time.perf_counter()
        table.bootstrap_index({"hoodie.catalog.write.progress": "false"})
        figures.built = time.perf_counter() - start
    files = list(folder.glob("*.hfile"))
    figures.groups, figures.index = len(files), sum(file.stat().st_size for file in files)


def _tag_in_spark(path: Path, rows: DataFrame) -> tuple[float, int]:
    start = time.perf_counter()
    profile = _tag_once(path, rows)
    return time.perf_counter() - start, sum(profile.updates.values())


def _tag_plainly(path: Path, keys: Any) -> tuple[float, int]:
    start = time.perf_counter()
    locations = RecordIndex.open(TableClient.open(str(path))).get_record_locations(keys)
    return time.perf_counter() - start, locations.num_rows


def _tag_by_apache(apache: ApacheHudi, path: Path, wanted: Path) -> tuple[float, int]:
    answer = apache.tag_seconds(path, wanted, OPTIONS, 1)
    return answer["seconds"][0], answer["found"]


def _tag_once(path: Path, rows: DataFrame) -> Profile:
    """The stages of an upsert up to its rows' file groups; nothing is written."""
    options = WriteOptions.of(OPTIONS)
    client = TableClient.open(str(path))
    timeline = client.timeline()
    plan = TagPlan(
        known=Known.MERGE,
        by_partition=False,
        move=False,
        delete=False,
        moves=None,
    )
    keys = KeyPlan(key_spec_of_properties(client.config.raw), BucketHashRule.of_properties(client.config.raw), (), 0)
    driver_rows = options.number(registry.DRIVER_ROWS) or 0
    keying = RowPlan(
        keys=keys,
        schema=keyed.SCHEMA,
        payload=tuple(keyed.SCHEMA.names),
        ordering=(),
        flush_bytes=32 << 20,
        tagged=True,
        thin_rows=driver_rows,
        measured=False,
        file_options=BaseFileOptions(),
    )
    write = IndexedWrite(
        rows=keying,
        tags=plan,
        index=RecordIndex.open(client, timeline),
        files=PartitionFiles(client, timeline),
        placed=True,
        sizing=lambda measured: sizing(options, None, measured),
        partitioned=False,
        tasks=None,
        driver_rows=driver_rows,
    )

    def finish(profile: Profile, _: pa.Table) -> Any:
        raise _Tagged(profile)

    try:
        write.run(SparkExecutor(rows.sparkSession).with_options(options), FrameRows(rows), finish)
    except _Tagged as tagged:
        return tagged.profile
    raise RuntimeError("there was nothing to tag")


def table(figures: Figures) -> Iterator[str]:
    """The figures as Markdown tables."""
    often = np.array(figures.often) * 1000
    yield f"One HFile with a million keys ({figures.hfile / 1e6:.1f} MB), gzip, in memory:"
    yield ""
    yield "| keys looked up | " + " | ".join(f"{way} (ms)" for way in WAYS) + " |"
    yield "|---|" + "---|" * len(WAYS)
    for count in WANTED:
        yield f"| {count:,} | " + " | ".join(f"{figures.lookups[count, way] * 1000:.0f}" for way in WAYS) + " |"
    yield ""
    low, middle, high = np.percentile(often, [50, 95, 100])
    yield f"{GOAL:,} keys, {len(often)} runs: median {low:.0f} ms, 95 % {middle:.0f} ms, longest {high:.0f} ms."
    yield ""
    yield "| job | runs (s) | median (s) | times as fast as Apache | rate |"
    yield "|---|---|---|---|---|"
    millions = figures.rows / 1e6
    if figures.written is not None:
        rate = f"{millions / figures.written:.2f} million rows/s"
        what = f"write {millions:g} million rows, without Spark"
        yield f"| {what} | {figures.written:.1f} | {figures.written:.1f} | - | {rate} |"
    if figures.built is not None:
        rate = f"{millions / figures.built:.2f} million keys/s"
        what = f"build their index, {figures.groups} file groups, {figures.index / 1e6:.0f} MB, in Spark"
        yield f"| {what} | {figures.built:.1f} | {figures.built:.1f} | - | {rate} |"
    rival = statistics.median(figures.tagging[APACHE])
    for side, seconds in figures.tagging.items():
        median = statistics.median(seconds)
        runs = ", ".join(f"{second:.2f}" for second in seconds)
        rate = f"{figures.wanted / median / 1e6:.2f} million rows/s"
        yield f"| tag {figures.wanted:,} rows, {side} | {runs} | {median:.2f} | {rival / median:.1f} | {rate} |"
