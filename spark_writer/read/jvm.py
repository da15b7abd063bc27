"""Objects of Spark's planner, made inside the JVM in bulk.

A query may keep 100,000 files in 10,000 partitions, and each call through py4j takes time. So conditions and files
cross as one byte array each, files in Hadoop's own serialised form, and a class of ours (`handles.py`) does in the JVM
what is done for each of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from py4j.clientserver import ClientServer
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from spark_writer.filters import PlannedCondition
from spark_writer.read.handles import handles_of
from table_format.codecs.arrow_numpy import from_numpy
from table_format.errors import UnsupportedTableError

T = TypeVar("T")
Ints: TypeAlias = NDArray[np.int64]
# Bytes of a varint of fixed width: 7 bits each, and leading zeros are allowed.
_PATH_LENGTH, _NUMBER = 3, 9
# FileStatusProto: 1 type (1 dir, 2 file), 2 path, 3 length, 4 permission, 5 owner, 6 group, 7 modification time,
# 8 access time, 10 replication, 11 block size (Hadoop's FSProtos.proto, unchanged since 3.0).
_BEFORE_PATH: Final = b"\x08\x02\x12"
_BEFORE_SIZE: Final = b"\x18"
_BEFORE_TIME: Final = b"\x22\x03\x08\xa4\x03\x2a\x00\x32\x00\x38"
_AFTER_TIME: Final = b"\x40\x00\x50\x01\x58\x80\x80\x80\x40"


class _InSession:
    """A call for `Jvm.with_settings`, and what came of it."""

    class Java:
        """Tells py4j what to serve."""

        implements = ("scala.Function0",)

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.result: Any = None
        self.error: Exception | None = None

    def apply(self) -> None:
        """Make the call; its error waits for Python, since one that passes the JVM becomes text."""
        try:
            self.result = self._call()
        except Exception as error:  # noqa: BLE001 - raised again
            self.error = error


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
            raise UnsupportedTableError(
                f"this session cannot plan by the table's index: {reason}. Read by HudiTable.for_path(…).to_df(where=…)"
                " and change tables by the methods of HudiTable"
            )
        state: Any = session
        self.session = session
        self.java_session: Any = state._jsparkSession  # noqa: SLF001 - PySpark has no other way
        self.gateway: Any = state.sparkContext._gateway  # noqa: SLF001 - likewise
        ensure_callback_server_started(self.gateway)  # type: ignore[no-untyped-call]  # also foreachBatch's
        self.made = handles_of(self.gateway)
        self.root: Any = self.made.root
        self.sources: Any = self.root.org.apache.spark.sql.execution.datasources
        self.nothing: Any = self.root.scala.Option.empty()
        self._handles: Any = self.root.java.lang.invoke.MethodHandles
        self.no_row: Any = self.root.org.apache.spark.sql.catalyst.InternalRow.empty()
        self._no_filters = self.seq([])

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

    def raising(self, served: Any) -> Any:
        """A Function1 of one that Python serves, which throws what that one returns where it is a Throwable."""
        kind, throwable = self.made.type_of("java.lang.Object"), self.made.type_of("java.lang.Throwable")
        one, function = self.made.signature(kind, kind), self.made.type_of("scala.Function1")
        call = self.made.lookup.findVirtual(function, "apply", one).bindTo(served)
        test = self.made.signature(self.root.java.lang.Boolean.TYPE, kind)
        of_class = self.made.type_of("java.lang.Class")
        is_error = self.made.lookup.findVirtual(of_class, "isInstance", test).bindTo(throwable)
        throw = self._handles.throwException(kind, throwable).asType(one)
        checked = self._handles.guardWithTest(is_error, throw, self._handles.identity(kind))
        return self.made.interface(function, self._handles.filterReturnValue(call, checked))

    def with_settings(self, call: Callable[[], T], session: Any = None) -> T:
        """Call a function in this thread, where Spark's planner sees the settings of this session, or of a copy."""
        served = _InSession(call)
        settings = self.root.org.apache.spark.sql.internal.SQLConf
        settings.withExistingConf((session or self.java_session).sessionState().conf(), served)
        if served.error is not None:
            raise served.error
        return served.result  # type: ignore[no-any-return]  # of the call

    def construct(self, name: str, arguments: Sequence[Any], further: Any = None) -> Any:
        """An object of a Scala class whose constructor has more or fewer arguments in other releases of Spark.

        Args:
            name: of the class.
            arguments: the last ones of them where it takes fewer.
            further: each argument beyond them; empty options of a relation when None.
        """
        maker = max(self.made.type_of(name).getConstructors(), key=lambda one: int(one.getParameterCount()))
        count = int(maker.getParameterCount())
        fitted = list(arguments)[-count:] if count < len(arguments) else list(arguments)
        options = self.root.org.apache.spark.sql.util.CaseInsensitiveStringMap
        while len(fitted) < count:
            fitted.append(options.empty() if further is None else further)
        return maker.newInstance(self.made.array("java.lang.Object", fitted))

    def companion(self, name: str) -> Any:
        """The companion object of a Scala class."""
        place: Any = self.root
        *packages, last = name.split(".")
        for part in packages:
            place = getattr(place, part)
        return getattr(getattr(place, f"{last}$"), "MODULE$")

    def objects(self, items: Sequence[Any]) -> Any:
        """An Object[]."""
        return self.made.array("java.lang.Object", list(items))

    def conditions(self, filters: Sequence[Any]) -> tuple[list[PlannedCondition], str]:
        """Conditions of a query that is planned in this thread, and the zone of its session.

        That need not be the DataFrame's own session.
        """
        return conditions_of(self.made.planning.conditions(self.seq(filters), self._no_filters))

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
        some = self.root.scala.Some(self.sources.PartitionSpec(schema, self.made.planning.paths(rows)))
        # a cache that is shared would let Spark list folders for what it has evicted
        cache: Any = getattr(getattr(self.sources, "NoopCache$"), "MODULE$")
        arguments = (self.java_session, self._no_filters, self.map({}), self.nothing, cache, some, self.nothing)
        return self.sources.InMemoryFileIndex(*arguments)


def conditions_of(data: Any) -> tuple[list[PlannedCondition], str]:
    """What `HudiPlanning.conditions` wrote: conditions, and the zone of a session."""
    texts = _Texts(data)
    zone = texts.text()
    return [_condition(texts) for _ in range(texts.number())], zone


def _condition(texts: _Texts) -> PlannedCondition:
    shown, nodes, text = texts.text(), texts.text(), texts.text()
    return PlannedCondition(shown, nodes, text, tuple((texts.text(), texts.text()) for _ in range(texts.number())))


class _Texts:
    """Numbers and texts that a DataOutput wrote."""

    def __init__(self, data: Any) -> None:
        self._data = memoryview(data)
        self._at = 0

    def number(self) -> int:
        self._at += 4
        return int.from_bytes(self._data[self._at - 4 : self._at], "big")

    def text(self) -> str:
        length = self.number()
        self._at += length
        return str(self._data[self._at - length : self._at], "utf-8")


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
