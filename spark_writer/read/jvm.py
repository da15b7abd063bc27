"""Objects of Spark's planner, made inside the JVM in bulk.

A call through py4j takes 0.1 ms, on a busy machine 1 ms, and a query may keep 100,000 files in 10,000 partitions. So
files cross as one byte array in Hadoop's own serialised form, and what is done for each of them is composed of method
handles: functions of the JVM that need neither a jar nor a call for each element.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from py4j.clientserver import ClientServer
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from table_format.codecs.arrow_numpy import from_numpy
from table_format.errors import UnsupportedTableError

Ints: TypeAlias = NDArray[np.int64]
_SOURCES: Final = "org.apache.spark.sql.execution.datasources"
_ROW: Final = "org.apache.spark.sql.catalyst.InternalRow"
_STATUS: Final = "org.apache.hadoop.fs.FileStatus"
# Bytes of a varint of fixed width: 7 bits each, and leading zeros are allowed.
_PATH_LENGTH, _NUMBER = 3, 9
# FileStatusProto: 1 type (1 dir, 2 file), 2 path, 3 length, 4 permission, 5 owner, 6 group, 7 modification time,
# 8 access time, 10 replication, 11 block size (Hadoop's FSProtos.proto, unchanged since 3.0).
_BEFORE_PATH: Final = b"\x08\x02\x12"
_BEFORE_SIZE: Final = b"\x18"
_BEFORE_TIME: Final = b"\x22\x03\x08\xa4\x03\x2a\x00\x32\x00\x38"
_AFTER_TIME: Final = b"\x40\x00\x50\x01\x58\x80\x80\x80\x40"


def why_unreachable(session: SparkSession) -> str | None:
    """Why Spark's planner cannot call this process in a session; None if it can."""
    if not hasattr(session, "_jsparkSession"):
        return "Spark Connect keeps its planner in another process"
    if not isinstance(session.sparkContext._gateway, ClientServer):  # noqa: SLF001 - PySpark has no other way
        return "PYSPARK_PIN_THREAD=false lets calls of Spark's planner run in any thread"
    return None


class Jvm:
    """The JVM of a classic session, whose calls to Python are served.

    Args:
        session: a classic one with pinned threads: there a call from the planner, and the calls that it makes in turn,
            run in the very JVM thread that plans.

    Raises:
        UnsupportedTableError: the session is not such a one.
    """

    def __init__(self, session: SparkSession) -> None:
        reason = why_unreachable(session)
        if reason is not None:
            raise UnsupportedTableError(f"this session cannot plan by the table's index: {reason}")
        state: Any = session
        self.session = session
        self.java_session: Any = state._jsparkSession  # noqa: SLF001 - PySpark has no other way
        self.gateway: Any = state.sparkContext._gateway  # noqa: SLF001 - likewise
        ensure_callback_server_started(self.gateway)  # type: ignore[no-untyped-call]  # also foreachBatch's
        self.root: Any = self.gateway.jvm
        self.sources: Any = self.root.org.apache.spark.sql.execution.datasources
        self.nothing: Any = self.root.scala.Option.empty()
        self._handles: Any = self.root.java.lang.invoke.MethodHandles
        self._int: Any = self.root.java.lang.Integer.TYPE

    def schema(self, text: str) -> Any:
        """A Spark schema of its JSON form; all columns and fields nullable, as `spark.read.schema` has it."""
        return self.root.org.apache.spark.sql.types.DataType.fromJson(text).asNullable()

    def seq(self, items: Sequence[Any]) -> Any:
        """A Scala Seq; `PythonUtils` knows which of 2.12 and 2.13."""
        made = self.root.java.util.ArrayList()
        for item in items:
            made.add(item)
        return self.root.PythonUtils.toSeq(made)

    def map(self, entries: dict[str, str]) -> Any:
        """A Scala map."""
        return self.root.PythonUtils.toScalaMap(entries)

    def strings(self, texts: pa.Array[Any]) -> Any:
        """A String[]."""
        if not len(texts):
            return self.gateway.new_array(self.root.java.lang.String, 0)
        return self.root.java.util.regex.Pattern.compile("\0").split("\0".join(map(str, texts.to_pylist())))

    def time_zone(self) -> str:
        """The zone of the session whose query is planned in this thread, which need not be the DataFrame's."""
        return str(self.root.org.apache.spark.sql.internal.SQLConf.get().sessionLocalTimeZone())

    def failing(self, message: str) -> Any:
        """A Seq of `PartitionDirectory` that raises IllegalArgumentException when its end is read, as Spark does.

        py4j would show an error that Python raises as two stacks; this one reaches the user as the message alone.
        """
        error = self.root.java.lang.IllegalArgumentException(message)
        kind, nothing = self._class("java.lang.Object"), self._class("java.lang.IllegalArgumentException")
        throw = self._handles.throwException(kind, nothing).bindTo(error)
        tail = self._function("scala.Function0", throw)
        stream: Any = getattr(self.root.scala.collection.immutable, "Stream$Cons")
        return stream(self.directory(self.statuses(_NO_FILES, _NO_ROWS, _NO_ROWS, np.zeros(1, np.int64))), tail)

    def directory(self, statuses: Any) -> Any:
        """One PartitionDirectory without partition values, of the first row of a FileStatus[][]."""
        row = self.root.org.apache.spark.sql.catalyst.InternalRow.empty()
        return self.sources.PartitionDirectory.apply(row, statuses[0])

    def directories(self, rows: Any, positions: Ints, statuses: Any) -> Any:
        """A Seq of PartitionDirectory.

        Args:
            rows: Object[] of the partitions' values.
            positions: in it, of the directories.
            statuses: FileStatus[][], a row for each position.
        """
        directory = self._class(f"{_SOURCES}.PartitionDirectory")
        row, files = self._class(_ROW), self._class(f"[L{_STATUS};")
        make = self._handles.publicLookup().findStatic(directory, "apply", self._type(directory, row, files))
        position = self._element(self.ints(positions), self._int)
        values = self._handles.filterArguments(self._element(rows, row), 0, self._array(_HANDLE, [position]))
        both = self._array(_HANDLE, [values, self._element(statuses, files)])
        pair = self._handles.filterArguments(make, 0, both)
        one = self._handles.permuteArguments(pair, self._type(directory, self._int), self._zeros(2))
        made = self._each(len(positions), one)
        return self.root.PythonUtils.toSeq(self.root.java.util.Arrays.asList(made))

    def statuses(self, paths: pa.Array[Any], sizes: Ints, millis: Ints, counts: Ints) -> Any:
        """A FileStatus[][], by Hadoop's own Writable form of it.

        Args:
            paths: URIs of all files, not escaped.
            sizes: their bytes, by which Spark finds footers.
            millis: when they were made, since the epoch.
            counts: how many files each row has, in order.
        """
        data = len(counts).to_bytes(4, "big") + counts.astype(">i4").tobytes() + status_records(paths, sizes, millis)
        stream = self.root.java.io
        matrix = self.root.org.apache.hadoop.io.TwoDArrayWritable(self._class(_STATUS))
        matrix.readFields(stream.DataInputStream(stream.ByteArrayInputStream(data)))
        return matrix.toArray()

    def rows(self, columns: Sequence[Sequence[str]], kinds: Sequence[str]) -> Any:
        """Object[] of InternalRow, computed by the optimizer without a job.

        Args:
            columns: values as texts, by column.
            kinds: Spark's type of each column, to which the texts are cast.
        """
        names = [f"c{number}" for number in range(len(kinds))]
        texts = json.dumps([dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)])
        of_texts = ",".join(f"{name}:string" for name in names)
        typed = ",".join(f"{name}:{kind}" for name, kind in zip(names, kinds, strict=True))
        parsed = F.from_json(F.lit(texts), f"array<struct<{of_texts}>>", {"mode": "FAILFAST"})
        frame: Any = self.session.sql("SELECT * FROM VALUES (1) AS v(one)").select(
            parsed.cast(f"array<struct<{typed}>>")
        )
        plan = frame._jdf.queryExecution().executedPlan()  # noqa: SLF001 - PySpark has no other way
        return plan.executeCollect()[0].getArray(0).toObjectArray(plan.schema().apply(0).dataType().elementType())

    def partitions(self, rows: Any, schema: Any) -> Any:
        """An index without files, which evaluates filters of partition columns as Spark does.

        Args:
            rows: of `rows`; the last column is a partition's number.
            schema: of them.
        """
        path, row = self._class("org.apache.hadoop.fs.Path"), self._class(_ROW)
        kind = self._class(f"{_SOURCES}.PartitionPath")
        void = self.root.java.lang.Void.TYPE
        make = self._handles.publicLookup().findConstructor(kind, self._type(void, row, path))
        nowhere = self._array("java.lang.Object", [self.root.org.apache.hadoop.fs.Path("file:/none")])
        of_row = self._handles.insertArguments(make, 1, nowhere)
        one = self._handles.filterArguments(of_row, 0, self._array(_HANDLE, [self._element(rows, row)]))
        made = self._each(len(rows), one)
        paths = self.root.PythonUtils.toSeq(self.root.java.util.Arrays.asList(made))
        some = self.root.scala.Some(self.sources.PartitionSpec(schema, paths))
        # a cache that is shared would let Spark list folders for what it has evicted
        cache: Any = getattr(getattr(self.sources, "NoopCache$"), "MODULE$")
        arguments = (self.java_session, self.seq([]), self.map({}), self.nothing, cache, some, self.nothing)
        return self.sources.InMemoryFileIndex(*arguments)

    def matching(self, partitions: Any, filters: Any, last: int) -> Ints:
        """Numbers of the partitions that meet all filters, by Spark's evaluation.

        Args:
            partitions: of `partitions`.
            filters: Seq of Catalyst expressions.
            last: position of the number among the columns.
        """
        listed = self.root.scala.collection.JavaConverters.seqAsJavaList(partitions.listFiles(filters, self.seq([])))
        directory, row = self._class(f"{_SOURCES}.PartitionDirectory"), self._class(_ROW)
        lookup = self._handles.publicLookup()
        values = lookup.findVirtual(directory, "values", self._type(row))
        get = lookup.findVirtual(row, "getInt", self._type(self._int, self._int))
        number = self._handles.insertArguments(get, 1, self._array("java.lang.Object", [last]))
        one = self._element(listed.toArray(), directory)
        for step in (values, number):
            one = self._handles.filterReturnValue(one, step)
        count = int(listed.size())
        numbers = self._zeros(count)
        self.root.java.util.Arrays.setAll(numbers, self._function("java.util.function.IntUnaryOperator", one))
        buffer = self.root.java.nio.ByteBuffer.allocate(4 * count)
        buffer.asIntBuffer().put(numbers)
        return np.frombuffer(bytes(buffer.array()), ">i4").astype(np.int64)

    def ints(self, numbers: Ints) -> Any:
        """An int[]."""
        array = self._zeros(len(numbers))
        self.root.java.nio.ByteBuffer.wrap(numbers.astype(">i4").tobytes()).asIntBuffer().get(array)
        return array

    def _zeros(self, count: int) -> Any:
        return self.gateway.new_array(self.root.int, count)

    def _class(self, name: str) -> Any:
        return self.root.java.lang.Class.forName(name)

    def _type(self, result: Any, *arguments: Any) -> Any:
        kinds = self._array("java.lang.Class", list(arguments))
        return self.root.java.lang.invoke.MethodType.methodType(result, kinds)

    def _element(self, array: Any, kind: Any) -> Any:
        """The function from a position to an element of an array."""
        getter = self._handles.arrayElementGetter(array.getClass()).bindTo(array)
        return getter.asType(self._type(kind, self._int))

    def _each(self, count: int, function: Any) -> Any:
        """Object[] of a function's results for the numbers from 0 on."""
        made = self.gateway.new_array(self.root.java.lang.Object, count)
        self.root.java.util.Arrays.setAll(made, self._function("java.util.function.IntFunction", function))
        return made

    def _function(self, interface: str, handle: Any) -> Any:
        return self.root.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(self._class(interface), handle)

    def _array(self, name: str, elements: list[Any]) -> Any:
        kind: Any = self.root
        for part in name.split("."):
            kind = getattr(kind, part)
        array = self.gateway.new_array(kind, len(elements))
        for position, element in enumerate(elements):
            array[position] = element
        return array


_HANDLE: Final = "java.lang.invoke.MethodHandle"
_NO_FILES: pa.Array[Any] = pa.array([], pa.string())
_NO_ROWS: Ints = np.zeros(0, np.int64)


def elements(sequence: Any) -> Iterator[Any]:
    """The elements of a short Scala Seq; each is a call."""
    return (sequence.apply(number) for number in range(sequence.size()))


def status_records(paths: pa.Array[Any], sizes: Ints, millis: Ints) -> bytes:
    """The records that Hadoop's `FileStatus.readFields` reads, one after the other: a length, then a FileStatusProto.

    Args:
        paths: URIs, at most 2 MiB long each.
        sizes: of the files, in bytes.
        millis: modification times.
    """
    lengths = np.asarray(pc.binary_length(paths)).astype(np.int64)
    after: list[bytes | NDArray[np.uint8]] = [
        _BEFORE_SIZE,
        _varints(sizes, _NUMBER),
        _BEFORE_TIME,
        _varints(millis, _NUMBER),
        _AFTER_TIME,
    ]
    tail = _joined(after, len(paths))
    body = len(_BEFORE_PATH) + _PATH_LENGTH + lengths + tail.shape[1]
    prefix = body.astype(">i4").view(np.uint8).reshape(-1, 4)
    head = _joined([prefix, _BEFORE_PATH, _varints(lengths, _PATH_LENGTH)], len(paths))
    joined: Any = pc.binary_join_element_wise(_binary(head), paths.cast(pa.binary()), _binary(tail), b"")
    return (
        b"" if not len(paths) else bytes(memoryview(joined.buffers()[2])[: int(lengths.sum()) + head.size + tail.size])
    )


def _varints(numbers: Ints, width: int) -> NDArray[np.uint8]:
    """Protocol Buffers' variable-length numbers, all of one length."""
    shifts = 7 * np.arange(width, dtype=np.uint64)
    digits = (numbers.astype(np.uint64)[:, None] >> shifts) & np.uint64(127)
    digits[:, :-1] |= np.uint64(128)
    return digits.astype(np.uint8)


def _joined(parts: Sequence[bytes | NDArray[np.uint8]], count: int) -> NDArray[np.uint8]:
    """Rows of bytes, each of the parts side by side."""
    columns = [
        np.broadcast_to(np.frombuffer(part, np.uint8), (count, len(part))) if isinstance(part, bytes) else part
        for part in parts
    ]
    return np.concatenate(columns, axis=1)


def _binary(rows: NDArray[np.uint8]) -> Any:
    count, width = rows.shape
    offsets = from_numpy(np.arange(count + 1, dtype=np.int32) * width)
    data = pa.py_buffer(np.ascontiguousarray(rows).tobytes())
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets.buffers()[1], data])
