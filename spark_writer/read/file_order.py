"""Rows of sorted files in the order of their hash field, so that joins and group-bys need no sort and no hash table.

Our writer sorts a file by record key, and claims so in the footer. The key of a table with one key field of texts is
that text, and Spark orders texts by their bytes as well. Texts of numbers have another order than numbers.

A task merges its files by the key, and looks at each row: Spark is told that rows are in this order, and would lose
pairs of a join where they were not. So a row that comes after a greater one ends the query with an error, whatever
footers claim. The merge is a text in Java, as Spark's own generated code is: tasks get the text and compile it, for
they have no class of ours. `WholeStageCodegenEvaluatorFactory` is how Spark sends such a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.concurrency.caches import LruCache
from catalog.stages.placement import KeyPlacement
from spark_writer.read.file_index import NativeFiles
from spark_writer.read.jvm import Jvm
from table_format.base_file.footer import footer
from table_format.base_file.key_runs import Run, key_runs
from table_format.errors import HudiError

#: Runs that a task has open at a time, each with a batch of rows.
MOST_RUNS: Final = 8
#: Files whose footers are read before a query is planned.
_MOST_FOOTERS: Final = 1_024
_KNOWN: Final[LruCache[str, tuple[Run, ...]]] = LruCache(1 << 16)
_EXECUTION: Final = "org.apache.spark.sql.execution"
_ROW: Final = "org.apache.spark.sql.catalyst.InternalRow"
# A row is what its reader shows at the moment: readers go on when the row was used, and the key before is a copy.
_SOURCE: Final = """
public Object generate(Object[] references) {
  return new GeneratedIteratorForCodegenStage1(references);
}

final class GeneratedIteratorForCodegenStage1 extends org.apache.spark.sql.execution.BufferedRowIterator {
  private final Object[] references;
  private scala.collection.Iterator[] inputs;
  private InternalRow[] rows;
  private UTF8String[] keys;
  private int used = -1;
  private boolean isStarted;
  private byte[] before = new byte[64];
  private int length = -1;

  public GeneratedIteratorForCodegenStage1(Object[] references) {
    this.references = references;
  }

  public void init(int index, scala.collection.Iterator[] inputs) {
    partitionIndex = index;
    this.inputs = inputs;
    rows = new InternalRow[inputs.length];
    keys = new UTF8String[inputs.length];
  }

  protected void processNext() throws java.io.IOException {
    if (isStarted && used >= 0) {
      advance(used);
    } else if (!isStarted) {
      isStarted = true;
      for (int place = 0; place < inputs.length; place++) {
        advance(place);
      }
    }
    used = -1;
    for (int place = 0; place < inputs.length; place++) {
      if (rows[place] != null && (used < 0 || compare(keys[place], keys[used]) < 0)) {
        used = place;
      }
    }
    if (used >= 0) {
      check(keys[used]);
      append(rows[used]);
    }
  }

  private void advance(int place) {
    boolean isEnd = !inputs[place].hasNext();
    rows[place] = isEnd ? null : (InternalRow) inputs[place].next();
    keys[place] = isEnd || rows[place].isNullAt(%(ordinal)d) ? null : rows[place].getUTF8String(%(ordinal)d);
  }

  private void check(UTF8String key) {
    if (length >= 0 && compare(UTF8String.fromBytes(before, 0, length), key) > 0) {
      throw new IllegalStateException((String) references[0]);
    }
    if (key != null) {
      length = key.numBytes();
      if (length > before.length) {
        before = new byte[2 * length];
      }
      key.writeToMemory(before, Platform.BYTE_ARRAY_OFFSET);
    }
  }

  private static int compare(UTF8String one, UTF8String other) {
    if (one == null || other == null) {
      return one == other ? 0 : one == null ? -1 : 1;
    }
    return one.%(compare)s(other);
  }
}
"""


def why_never_ordered(files: NativeFiles, placement: KeyPlacement) -> str | None:
    """Why files are not in the order of the hash fields, whatever footers claim; None if they may be."""
    snapshot = files.scan.snapshot
    if len(placement.fields) != 1 or len(snapshot.config.record_key_fields) != 1:
        return f"{snapshot.config.name} has a key of several fields"
    [name], [kind] = placement.fields, placement.kinds
    if not pa.types.is_string(kind):
        return f"{snapshot.config.name} is sorted by the text of {name}, which is not the order of {kind}"
    if name in files.partition_columns:
        return f"{name} is not in the files of {snapshot.config.name}"
    return None


def runs_of(files: NativeFiles, rows: NDArray[np.int64], tasks: NDArray[np.int64]) -> list[tuple[Run, ...]] | str:
    """For each file the parts in which rows ascend by record key; or why tasks cannot merge them.

    Args:
        files: of the table's state.
        rows: those that are read.
        tasks: the one that reads each of them.
    """
    snapshot = files.scan.snapshot
    name = snapshot.config.name
    if len(rows) > _MOST_FOOTERS:
        return f"{name} has more than {_MOST_FOOTERS:,} files, whose footers are not looked at"
    storage = snapshot.client.storage
    paths = [str(snapshot.path(int(row))) for row in rows]
    if _too_many(tasks, [()] * len(paths)):
        return _crowded(name)

    def read(path: str) -> tuple[Run, ...]:
        """None at all for a file that does not claim an order."""
        known = storage.full_uri(path)
        runs = _KNOWN.get(known)
        if runs is None:
            runs = tuple(key_runs(footer(storage, path)) or ())
            _KNOWN.put(known, runs)
        return runs

    try:
        with ThreadPoolExecutor(files.scan.options.threads, thread_name_prefix="hudi-order") as pool:
            runs = list(pool.map(read, paths))
    except HudiError as error:
        return str(error)
    unknown = next((path for path, of_file in zip(paths, runs, strict=True) if not of_file), None)
    if unknown is not None:
        return f"the footer of {unknown} of {name} does not say that it is sorted"
    return _crowded(name) if _too_many(tasks, runs) else runs


def _too_many(tasks: NDArray[np.int64], runs: Sequence[tuple[Run, ...]]) -> bool:
    counts = np.bincount(tasks, [max(1, len(of_file)) for of_file in runs], minlength=1)
    return bool(counts.max() > MOST_RUNS)


def _crowded(name: str) -> str:
    return f"a task would merge more than {MOST_RUNS} sorted parts of files of {name}"


def merged_in_order(jvm: Jvm, inputs: Sequence[Any], ordinal: int, message: str) -> Any:
    """An RDD of the rows of several, whose tasks each merge the rows of a task of each by a text.

    Args:
        jvm: of the session.
        inputs: RDDs of InternalRow with equally many partitions, in each of which the text ascends, null first.
        ordinal: of the text among their columns.
        message: of the error for a row that comes after a greater one.
    """
    kind = jvm.made.type_of(_ROW)
    tag, factory = jvm.companion("scala.reflect.ClassTag").apply(kind), _factory(jvm, ordinal, message)
    if len(inputs) == 1:
        return inputs[0].mapPartitionsWithEvaluator(factory, tag)
    level = list(inputs)
    while len(level) > 1:  # Spark puts two together at a time
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [
            pair[0].zipPartitionsWithEvaluator(pair[1], factory, tag) if len(pair) > 1 else pair[0] for pair in pairs
        ]
    return level[0]


def _factory(jvm: Jvm, ordinal: int, message: str) -> Any:
    compare = "compareTo" if str(jvm.session.version).startswith("3.") else "binaryCompare"
    codegen = jvm.root.org.apache.spark.sql.catalyst.expressions.codegen
    code = codegen.CodeAndComment(_SOURCE % {"ordinal": ordinal, "compare": compare}, jvm.map({}))
    metrics = jvm.root.org.apache.spark.sql.execution.metric.SQLMetrics
    time = metrics.createTimingMetric(jvm.java_session.sparkContext(), "time of the merge", 0)
    maker = jvm.made.type_of(f"{_EXECUTION}.WholeStageCodegenEvaluatorFactory").getConstructors()[0]
    if str(maker.getParameterTypes()[0].getName()) == "scala.util.Either":  # from 4.x on; the left one is a broadcast
        code = jvm.root.scala.util.Right(code)
    return maker.newInstance(jvm.objects([code, time, jvm.objects([message])]))
