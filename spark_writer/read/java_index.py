"""Spark's FileIndex as a class of the JVM, which asks Python for the files of a scan in one call, and knows the rest.

Spark asks an index for its folders, its size and its name several times a query; each call of Python takes half a
millisecond. It asks for files once a scan, with conditions, of which those on partition columns are evaluated here by
Spark itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from spark_writer.filters import PlannedCondition
from spark_writer.read.handles import PLANNING
from spark_writer.read.jvm import Ints, Jvm, conditions_of, status_records

_NAME: Final = "HudiFileIndex"
# A request is the number of partitions that meet the conditions, or -1 for all, their numbers, and the conditions. An
# answer is the number of directories, the place of each among the partitions, and their files; a text is an error.
_SOURCE: Final = """
import java.io.*;
import java.nio.ByteBuffer;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.io.TwoDArrayWritable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.types.StructType;

public final class HudiFileIndex implements FileIndex {

    private final HudiPlanning planning = new HudiPlanning();
    private scala.Function1 planner;
    private String identity;
    private %(sequence)s roots;
    private long bytes;
    private boolean timeTravel;
    private StructType partitionSchema;
    private Object[] values;
    private InMemoryFileIndex partitions;

    public HudiFileIndex of(scala.Function1 planner, String identity, %(sequence)s roots, long bytes,
                            boolean timeTravel) {
        this.planner = planner;
        this.identity = identity;
        this.roots = roots;
        this.bytes = bytes;
        this.timeTravel = timeTravel;
        return this;
    }

    // The partitions' values, and an index that evaluates conditions on them; null where the table has none.
    public HudiFileIndex by(StructType partitionSchema, Object[] values, InMemoryFileIndex partitions) {
        this.partitionSchema = partitionSchema;
        this.values = values;
        this.partitions = partitions;
        return this;
    }

    public %(sequence)s listFiles(%(sequence)s partitionFilters, %(sequence)s dataFilters) {
        try {
            ByteArrayOutputStream request = new ByteArrayOutputStream();
            byte[] met = partitions == null || partitionFilters.isEmpty()
                ? null : planning.matching(partitions, partitionFilters, partitionSchema.length());
            new DataOutputStream(request).writeInt(met == null ? -1 : met.length / 4);
            if (met != null) {
                request.write(met);
            }
            request.write(planning.conditions(partitionFilters, dataFilters));
            return directories(ByteBuffer.wrap((byte[]) answer(request.toByteArray())));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private %(sequence)s directories(ByteBuffer answer) throws IOException {
        Object[] made = new Object[answer.getInt()];
        for (int place = 0; place < made.length; place++) {
            made[place] = values[answer.getInt()];
        }
        TwoDArrayWritable read = new TwoDArrayWritable(FileStatus.class);
        read.readFields(new DataInputStream(
            new ByteArrayInputStream(answer.array(), answer.position(), answer.remaining())));
        FileStatus[][] files = (FileStatus[][]) read.toArray();
        for (int place = 0; place < made.length; place++) {
            made[place] = PartitionDirectory.apply((InternalRow) made[place], files[place]);
        }
        return org.apache.spark.api.python.PythonUtils.toSeq(java.util.Arrays.asList(made));
    }

    // An error of Python reaches the user as its message alone; py4j would show two stacks.
    private Object answer(byte[] request) {
        Object answer = planner.apply(request);
        if (answer instanceof String) {
            throw new IllegalArgumentException((String) answer);
        }
        return answer;
    }

    public String[] inputFiles() {
        byte[] joined = (byte[]) answer(new byte[0]);
        return joined.length == 0
            ? new String[0] : new String(joined, java.nio.charset.StandardCharsets.UTF_8).split("\\0");
    }

    public %(sequence)s rootPaths() {
        return roots;
    }

    public StructType partitionSchema() {
        return partitionSchema;
    }

    // Before any filter.
    public long sizeInBytes() {
        return bytes;
    }

    // A DataFrame is one state.
    public void refresh() {
    }

    // Of Spark 4.
    public boolean isTimeTravel() {
        return timeTravel;
    }

    public scala.Option metadataOpsTimeNs() {
        return scala.Option.empty();
    }

    public String toString() {
        return identity;
    }

    public int hashCode() {
        return identity.hashCode();
    }

    // DataFrames of one state share cached data.
    public boolean equals(Object other) {
        return other instanceof HudiFileIndex && ((HudiFileIndex) other).identity.equals(identity);
    }
}
"""
Answer: TypeAlias = bytes | str


class Request(NamedTuple):
    """What Spark's planner asks for.

    Attributes:
        partitions: numbers of those that meet the conditions on partition columns; None for all.
        conditions: all of them.
        zone: of the query's session.
    """

    partitions: Ints | None
    conditions: list[PlannedCondition]
    zone: str


class Served:
    """Answers the JVM's index.

    Args:
        files: the answer to a request as the JVM wrote it, see `request_of`; or why there is none.
        all_files: URIs of all files.
    """

    class Java:
        """Tells py4j what to serve."""

        implements = ("scala.Function1",)

    def __init__(self, files: Callable[[bytes], Answer], all_files: Callable[[], list[str]]) -> None:
        self._files = files
        self._all_files = all_files

    def apply(self, request: bytes) -> Answer:
        """An answer. No lock is held meanwhile: adaptive execution and broadcasts call from other threads."""
        return self._files(bytes(request)) if request else "\0".join(self._all_files()).encode()


def request_of(data: bytes) -> Request:
    """A request as the JVM wrote it."""
    count = int.from_bytes(data[:4], "big", signed=True)
    end = 4 + 4 * max(count, 0)
    met = None if count < 0 else np.frombuffer(data[4:end], ">i4").astype(np.int64)
    return Request(met, *conditions_of(data[end:]))


def directories(positions: Ints, counts: Ints, files: tuple[pa.Array[Any], Ints, Ints]) -> bytes:
    """An answer.

    Args:
        positions: among the partitions, of those that have files.
        counts: how many files each of them has, in order.
        files: URIs of all files, not escaped; their bytes, by which Spark finds footers; when they were made, in
            milliseconds since the epoch.
    """
    # after the places, Hadoop's own Writable form of a FileStatus[][]
    return _ints(len(positions), *positions, len(counts), *counts) + status_records(*files)


def _ints(*numbers: int) -> bytes:
    return np.array(numbers, ">i4").tobytes()


def java_index(jvm: Jvm, served: Served, identity: str, roots: Any, size: int, *, time_travel: bool) -> Any:
    """The index, of which `by` tells the partitions.

    Args:
        jvm: of the session.
        served: what it asks.
        identity: equal for DataFrames of one state.
        roots: Seq of Hadoop's paths.
        size: bytes of all files.
        time_travel: whether it is an earlier state.
    """
    maker = jvm.made.compiled(_NAME, _SOURCE, PLANNING)
    return getattr(maker.newInstance(jvm.objects([])), "of")(served, identity, roots, size, time_travel)  # noqa: B009
