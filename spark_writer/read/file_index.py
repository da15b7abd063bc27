"""The files of a snapshot for Spark's planner, which asks for those of each scan of each query.

Spark's FileIndex is an interface, and one of ours (`java_index.py`) asks Python. In a `HadoopFsRelation` with Spark's
own `ParquetFileFormat` it makes a DataFrame that is planned here whenever it is used and read by Spark's vectorised
reader, which applies the whole filter again. Partition filters it does not apply again: Spark evaluates them, too.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructType

from catalog.concurrency.caches import LruCache
from catalog.planner import Plan
from catalog.scan import Scan
from catalog.snapshots.scan_options import DRIVER_BYTES
from catalog.snapshots.snapshot import Snapshot
from pushdown.expression import HudiExpression, all_of
from pushdown.verdict import CannotPrune
from spark_writer.filters import PlannedCondition, from_catalyst
from spark_writer.read.driver_rows import read_in_driver
from spark_writer.read.generations import Generation, is_order_kept
from spark_writer.read.java_index import Answer, Served, directories, java_index, request_of
from spark_writer.read.jvm import Jvm
from spark_writer.read.parquet_format import parquet_format
from table_format.codecs.arrow_numpy import one_chunk, to_numpy

Rows = NDArray[np.int64]
_LOG: Final = logging.getLogger(__name__)
_NUMBER: Final = "_hoodie_partition_number"
_REMEMBERED: Final = 20
_REMEMBERED_CONDITIONS: Final = 200
_REMEMBERED_BYTES: Final = 1 << 16
READER_OPTIONS: Final = {
    # Hudi's dates and times are of the proleptic Gregorian calendar, whatever release wrote them.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # A session may be set to leave out files that it cannot read; rows of a table are not left out.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}
"""Options of Spark's Parquet reader for files of a table."""
_YEARS: Final = (dt.date(1, 1, 1), dt.date(9999, 12, 31))


@dataclass(frozen=True)
class PlannedScan:
    """What one call of Spark's planner came to.

    Attributes:
        filters: the conditions as Spark printed them.
        plan: the files kept and dropped; None where planning failed.
        kept: files handed to Spark, which the partition filters may have made fewer than those of the plan.
        error: why planning failed.
    """

    filters: tuple[str, ...]
    plan: Plan | None
    kept: int
    error: str = ""


class ScanLog:
    """The last scans of a state of a table; DataFrames of one state share it.

    Attributes:
        files: of the state.
        scans: in order.
    """

    def __init__(self, files: NativeFiles) -> None:
        self.files = files
        self.scans: deque[PlannedScan] = deque(maxlen=_REMEMBERED)


_LOGS: weakref.WeakValueDictionary[str, ScanLog] = weakref.WeakValueDictionary()


def scan_log(identity: str) -> ScanLog | None:
    """The scans of a state, by the text of its FileIndex."""
    return _LOGS.get(identity)


@dataclass(frozen=True, eq=False)
class NativeFiles:
    """Files of a state that Spark's reader reads as they are.

    Attributes:
        scan: the state, and the writes whose rows are wanted.
        part: the files, and the types that they hold.
        table: the table's columns as Spark has them.
        partition_columns: columns whose values Spark takes from partition paths; see `exact_partition_columns`.
    """

    scan: Scan
    part: Generation
    table: StructType
    partition_columns: tuple[str, ...] = ()
    _translated: LruCache[tuple[PlannedCondition, str], HudiExpression] = field(
        default_factory=lambda: LruCache(_REMEMBERED_CONDITIONS), init=False, repr=False
    )

    @property
    def schema(self) -> StructType:
        """Their columns."""
        return self.part.schema(self.table)

    @property
    def changed(self) -> frozenset[str]:
        """Columns of another type in these files than in the table, of which no filter is understood."""
        stored = self.part.stored
        return frozenset(name for name, kind in stored.items() if not is_order_kept(kind, self.table[name].dataType))

    def plan(self, filters: Sequence[PlannedCondition], zone: str) -> Plan:
        """Which files of the whole state may hold rows that meet all filters.

        Args:
            filters: conditions of Spark's planner.
            zone: of the query's session.
        """
        if not filters:
            return replace(self.scan, filter=None).plan()  # of this state, whatever its Table was refreshed to since
        parts = [self._expression(one, zone) for one in filters]
        return replace(self.scan, filter=all_of(*parts), case_sensitive=True, time_zone=zone).plan()

    def _expression(self, condition: PlannedCondition, zone: str) -> HudiExpression:
        known = self._translated.get((condition, zone))
        if known is None:  # queries of one shape differ in literals: that a key is not null comes again each time
            known = from_catalyst(condition, self.scan.snapshot.schema, zone, self.changed)
            self._translated.put((condition, zone), known)
        return known

    def listed(self, rows: Rows) -> tuple[Any, Rows, Rows]:
        """URIs that are not escaped, sizes in bytes, and times since the epoch in milliseconds of files."""
        snapshot = self.scan.snapshot
        files = snapshot.take_files(rows)
        root = snapshot.client.storage.full_uri("").rstrip("/")
        paths = pc.binary_join_element_wise(root, one_chunk(files.column("path")), "/")
        sizes = to_numpy(pc.fill_null(one_chunk(files.column("size")), 0)).astype(np.int64)
        instants: Any = one_chunk(files.column("instant")).dictionary_encode()
        millis = np.array([_millis(text) for text in instants.dictionary.to_pylist()], np.int64)
        return paths, sizes, millis[to_numpy(instants.indices)] if len(rows) else np.zeros(0, np.int64)


def native_frame(session: SparkSession, files: NativeFiles) -> DataFrame:
    """A lazy DataFrame of files, each query on which is planned by itself.

    Raises:
        UnsupportedTableError: the session is not a classic one with pinned threads.
    """
    index = SnapshotFileIndex(Jvm(session), files)
    read_in_driver(index.jvm)
    # `SparkSession.baseRelationToDataFrame` is Spark's developer API, in 3.5 and 4.x alike
    frame: Any = index.jvm.java_session.baseRelationToDataFrame(index.relation())
    return DataFrame(frame, session)


class SnapshotFileIndex:
    """Files of one snapshot as Spark's FileIndex.

    Attributes:
        jvm: of the session.
    """

    def __init__(self, jvm: Jvm, files: NativeFiles) -> None:
        self.jvm = jvm
        self._files = files
        self._snapshot: Snapshot = files.scan.snapshot
        self._wanted = np.zeros(len(self._snapshot), np.bool_)
        self._wanted[files.part.rows] = True
        self._identity = _identity(files)
        self._log = _LOGS.setdefault(self._identity, ScanLog(files))
        self._answers: LruCache[bytes, tuple[PlannedScan, bytes]] = LruCache(_REMEMBERED)

    def relation(self) -> Any:
        """The relation of Spark that reads these files."""
        jvm, columns = self.jvm, self._files.partition_columns
        options = jvm.map({**READER_OPTIONS, DRIVER_BYTES: str(self._files.scan.options.driver_bytes)})
        schema, reader = jvm.schema(self._files.schema.json()), parquet_format(jvm.made)
        partitioned = StructType([self._files.schema[name] for name in columns])
        partition_schema = jvm.schema(partitioned.json())
        values, partitions = self._partition_rows(partitioned) if columns else (jvm.objects([jvm.no_row]), None)
        index = self._java_index().by(partition_schema, values, partitions)
        return jvm.sources.HadoopFsRelation(
            index, partition_schema, schema, jvm.nothing, reader, options, jvm.java_session
        )

    def _java_index(self) -> Any:
        storage = self._snapshot.client.storage
        root = storage.full_uri("").rstrip("/")
        path = self.jvm.root.org.apache.hadoop.fs.Path
        # Two of them: Spark's INSERT INTO writes Parquet files, past Hudi, into a relation with a single root path.
        roots = self.jvm.seq([path(root), path(f"{root}/.hoodie")])
        size = int(self._snapshot.sizes[self._files.part.rows].sum())
        served = Served(self._answer, self._all_files)
        return java_index(self.jvm, served, self._identity, roots, size, time_travel=not self._snapshot.is_latest)

    def _all_files(self) -> list[str]:
        return [str(path) for path in self._files.listed(self._files.part.rows)[0].to_pylist()]

    def _answer(self, request: bytes) -> Answer:
        """The files that may hold rows which meet all conditions, by partition; or why they are not known."""
        try:
            scan, answer = self._planned(request)
        except Exception as error:  # noqa: BLE001  # all files would be no plan, and a stack no message
            first = next(iter(str(error).splitlines()), "")
            message = f"hudi-catalog cannot plan {self._identity}: {type(error).__name__}: {first}"
            _LOG.debug("%s", message, exc_info=True)
            self._log.scans.append(PlannedScan((), None, 0, message))
            return message
        self._log.scans.append(scan)
        return answer

    def _planned(self, request: bytes) -> tuple[PlannedScan, bytes]:
        """A request comes again with each action on a DataFrame; its answer stays the same, as the state does."""
        known = self._answers.get(request)
        if known is not None:
            return known
        partitions, conditions, zone = request_of(request)
        plan = self._files.plan(conditions, zone)
        rows = plan.rows[self._wanted[plan.rows]]
        numbers = np.zeros(len(rows), np.int64)
        if self._files.partition_columns:
            numbers = self._snapshot.partition_index[rows]
        if partitions is not None:
            met = np.isin(numbers, partitions)
            rows, numbers = rows[met], numbers[met]
        positions, counts = np.unique(numbers, return_counts=True)
        rows = rows[np.argsort(numbers, kind="stable")]
        scan = PlannedScan(tuple(one.shown for one in conditions), plan, len(rows))
        answer = directories(positions, counts, self._files.listed(rows))
        if len(answer) <= _REMEMBERED_BYTES:
            self._answers.put(request, (scan, answer))
        return scan, answer

    def _partition_rows(self, schema: StructType) -> tuple[Any, Any]:
        """The partitions' values as an array of rows, and an index of them that evaluates filters."""
        values = self._snapshot.path_values()
        assert not isinstance(values, CannotPrune)  # noqa: S101  # `exact_partition_columns` has seen to it
        columns: list[list[Any]] = [values.values[name].cast(pa.string()).to_pylist() for name in schema.names]
        kinds = [field.dataType.simpleString() for field in schema.fields]
        numbers = [str(number) for number in range(len(self._snapshot.partitions))]
        numbered = self.jvm.rows([*columns, numbers], [*kinds, "int"])
        with_number = self.jvm.schema(StructType([*schema.fields]).add(_NUMBER, IntegerType()).json())
        return self.jvm.rows(columns, kinds), self.jvm.partitions(numbered, with_number)


def exact_partition_columns(snapshot: Snapshot) -> tuple[str, ...]:
    """Partition columns whose value every path tells exactly; none at all where one path or column does not.

    Spark takes the values of these columns from paths, never from files, and so can choose partitions by the result of
    a subquery or of a join's other side.
    """
    values = snapshot.path_values()
    if isinstance(values, CannotPrune) or not len(values.known) or not bool(values.known.all()):
        return ()
    names = []
    for name in snapshot.config.partition_fields:
        column = values.values.get(name)
        position = snapshot.schema.get_field_index(name)
        if column is None or name not in values.statistics or position < 0 or column.null_count:
            return ()
        if column.type != snapshot.schema.field(position).type:
            return ()
        if pa.types.is_date(column.type) and not _in_calendar(column):
            return ()
        names.append(name)
    return tuple(names)


def _in_calendar(dates: Any) -> bool:
    first, last = (pa.scalar(day, pa.date32()) for day in _YEARS)
    return bool(pc.all(pc.and_(pc.greater_equal(dates, first), pc.less_equal(dates, last))).as_py())


def _identity(files: NativeFiles) -> str:
    """A text that is equal for DataFrames of one state, which then share cached data, and for no others.

    The instant alone would not do: a slow writer's commit makes another state, but not the newest instant.
    """
    scan, snapshot = files.scan, files.scan.snapshot
    digest = hashlib.blake2b(digest_size=12)
    for column in ("path", "instant"):
        for text in pc.binary_join(
            _as_list(one_chunk(snapshot.take_files(files.part.rows).column(column))), "\n"
        ).to_pylist():
            digest.update(str(text).encode())
    for part in (files.schema.json(), files.partition_columns, sorted(files.changed), scan.options):
        digest.update(repr(part).encode())
    if scan.instants is not None:
        digest.update(repr((scan.instants.begin, scan.instants.end, scan.instants.predicate().to_sql())).encode())
    return f"{snapshot.config.name} in {snapshot.client.storage.uri} at {snapshot.instant} ({digest.hexdigest()})"


def _as_list(texts: Any) -> Any:
    return pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)


def _millis(instant: str) -> int:
    """Milliseconds since the epoch of an instant, which shows as the modification time of its files."""
    try:
        moment = dt.datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=dt.UTC)
    except ValueError:
        return 0
    return int(moment.timestamp() * 1000)
