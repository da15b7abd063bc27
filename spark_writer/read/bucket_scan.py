"""Files of a table by bucket: a task for each bucket, read by Spark's Parquet reader, placed as Spark is told.

Spark is told that rows are divided by a hash of a column of ours, `BUCKET`, which holds one number in all rows of a
task: a number whose hash, by Spark's own function, is that task's. So what is told is true whatever the files hold, and
a plan that relies on it is right: a join finds its pairs, because the column is in its condition.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from catalog.concurrency.caches import LruCache
from catalog.planner import Plan
from catalog.stages.placement import WORDS
from spark_writer.blocks import placements
from spark_writer.read.file_index import READER_OPTIONS
from spark_writer.read.file_order import merged_in_order
from spark_writer.read.jvm import Jvm, elements
from spark_writer.read.parquet_format import parquet_format
from spark_writer.read.placed_nodes import BucketSource
from table_format.base_file.key_runs import Run
from table_format.errors import UnsupportedTableError

#: The column that holds a bucket's number, in a form by which Spark places rows.
BUCKET: Final = "_hoodie_bucket"
#: Each file takes some calls to the JVM.
MOST_FILES: Final = 10_000
_REMEMBERED: Final = 64
_INSIDE: Final = {
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.join.preferSortMergeJoin": "true",
    "spark.sql.execution.replaceHashWithSortAgg": "true",
}
_CATALYST: Final = "org.apache.spark.sql.catalyst"


@dataclass(frozen=True)
class BucketScan:
    """Reading of a table by buckets, for explain.

    Attributes:
        identity: of the state of the table.
        filters: conditions by which files were chosen, as Spark printed them.
        plan: the files that were kept and dropped.
        kept: files that are read.
        tasks: one for each bucket of the coarser table.
    """

    identity: str
    filters: tuple[str, ...]
    plan: Plan
    kept: int
    tasks: int


@dataclass(frozen=True)
class BucketWork:
    """A part of a query that works by buckets.

    Attributes:
        report: a line for each join and group-by of the query.
        plan: of Spark, as text.
        scans: of the tables.
    """

    report: tuple[str, ...]
    plan: str
    scans: tuple[BucketScan, ...]


_SCANS: Final[LruCache[int, BucketScan]] = LruCache(_REMEMBERED)
_WORK: Final[LruCache[int, BucketWork]] = LruCache(_REMEMBERED)


def bucket_work(rdd: int) -> BucketWork | None:
    """What the RDD of a number does; None of one that does not work by buckets."""
    return _WORK.get(rdd)


class UnorderedPlanError(UnsupportedTableError):
    """Spark's planner sorts rows that it was told are sorted."""


def placed_rows(
    jvm: Jvm, source: BucketSource, tasks: int, wanted: Collection[int] | None, filters: Sequence[Any]
) -> tuple[Any, Any]:
    """A logical plan of the rows of a table, by bucket.

    Args:
        jvm: of the query's session.
        source: the leaf that the plan takes the place of.
        tasks: how many; divides the bucket count.
        wanted: numbers of the leaf's columns that are read; None for all.
        filters: conditions right above the leaf, which choose files and rows.

    Returns:
        The plan, whose columns are those of the leaf and `BUCKET`; and that column.
    """
    files, relation = source.files, source.leaf.relation()
    plan, rows = source.chosen(jvm, filters)
    columns = [one for one in elements(source.leaf.output()) if wanted is None or one.exprId().id() in wanted]
    inside = [one for one in columns if one.name() not in files.partition_columns]
    of_path = [one for one in elements(source.leaf.output()) if one.name() in files.partition_columns]
    bucket = _bucket_column(jvm)
    schema, partition_schema = _struct(jvm, inside), _struct(jvm, [*of_path, bucket])
    full = _struct(jvm, [*inside, *of_path, bucket])
    options = jvm.map({**READER_OPTIONS, "returning_batch": "false"})
    strategy = jvm.companion("org.apache.spark.sql.execution.datasources.DataSourceStrategy")
    # a filter of a column that is not read from files drops all rows there: Parquet's indexes take it for null
    stored = {int(one.exprId().id()) for one in inside}
    of_files = [
        one for one in filters if {int(part.exprId().id()) for part in elements(one.references().toSeq())} <= stored
    ]
    translated = [strategy.translateFilter(one, True) for one in of_files]
    pushed = jvm.seq([one.get() for one in translated if one.isDefined()])
    hadoop = jvm.java_session.sessionState().newHadoopConfWithOptions(options)
    reader = parquet_format(jvm.made).buildReaderWithPartitionValues(
        jvm.java_session, relation.dataSchema(), partition_schema, schema, pushed, options, hadoop
    )
    file_options = jvm.root.org.apache.spark.sql.catalyst.FileSourceOptions(options)
    runs = _runs(jvm, source, filters, tasks)
    rest = (full, jvm.seq([]), jvm.map({}), file_options)
    scans = [
        jvm.sources.FileScanRDD(jvm.java_session, reader, jvm.seq(parts), *rest)
        for parts in _file_partitions(jvm, source, tasks, partition_schema, runs)
    ]
    rdd, order = scans[0], []
    if runs is not None:
        [name] = source.placement.fields
        ordinal = next(at for at, one in enumerate(inside) if one.name() == name)
        rdd = merged_in_order(jvm, scans, ordinal, _disorder(source))
        order = [_ascending(jvm, one) for one in (bucket, inside[ordinal])]
    partitioning = jvm.root.org.apache.spark.sql.catalyst.plans.physical.HashPartitioning(jvm.seq([bucket]), tasks)
    identity, texts = source.identity, tuple(str(one.toString()) for one in filters)
    _SCANS.put(int(rdd.id()), BucketScan(identity, texts, plan, len(rows), tasks))
    stats = jvm.root.org.apache.spark.sql.catalyst.plans.logical.Project(jvm.seq(columns), source.leaf).stats()
    placed = _logical_rdd(jvm, [*inside, *of_path, bucket], rdd, partitioning, stats, order=order)
    if filters:
        catalyst = jvm.root.org.apache.spark.sql.catalyst
        placed = catalyst.plans.logical.Filter(reduce(catalyst.expressions.And, filters), placed)
    return _checked(jvm, source, placed), bucket


def _bucket_column(jvm: Jvm) -> Any:
    expressions = jvm.root.org.apache.spark.sql.catalyst.expressions
    number = jvm.companion(f"{_CATALYST}.expressions.NamedExpression").newExprId()
    kind = jvm.root.org.apache.spark.sql.types.DataType.fromJson('"integer"')
    nothing = jvm.root.org.apache.spark.sql.types.Metadata.empty()
    return expressions.AttributeReference(BUCKET, kind, False, nothing, number, jvm.seq([]))


def _struct(jvm: Jvm, columns: Sequence[Any]) -> Any:
    """The Spark schema of columns of a plan."""
    fields = [
        {"name": str(one.name()), "type": json.loads(one.dataType().json()), "nullable": True, "metadata": {}}
        for one in columns
    ]
    return jvm.schema(json.dumps({"type": "struct", "fields": fields}))


def _runs(jvm: Jvm, source: BucketSource, filters: Sequence[Any], tasks: int) -> list[tuple[Run, ...]] | None:
    """The sorted parts of each file, if rows are read in order."""
    runs = source.runs(jvm, filters, tasks) if source.in_order else None
    return None if isinstance(runs, str) else runs


def _file_partitions(
    jvm: Jvm, source: BucketSource, tasks: int, schema: Any, runs: Sequence[Sequence[Run]] | None
) -> list[list[Any]]:
    """A FilePartition a task; each file has the values of its partition's columns and its task's number.

    With sorted parts of the files, several such lists, in each of which a task has one part at most.
    """
    rows = source.chosen(jvm)[1]
    task_of = source.placement.buckets.numbers[rows] % tasks
    values = _values(jvm, source, rows, placements(tasks)[task_of], schema)
    paths, sizes, millis = source.files.listed(rows)
    file, spark_path = jvm.sources.PartitionedFile, jvm.root.org.apache.spark.paths.SparkPath
    nowhere, no_columns = jvm.gateway.new_array(jvm.root.java.lang.String, 0), jvm.map({})
    by_task: list[list[Any]] = [[] for _ in range(tasks)]
    for position, path in enumerate(paths.to_pylist()):
        size, value = int(sizes[position]), values[position]
        place = spark_path.fromPathString(path)
        for start, length in [(0, size)] if runs is None else runs[position]:
            made = file(value, place, start, length, nowhere, int(millis[position]), size, no_columns)
            by_task[int(task_of[position])].append(made)
    name = "org.apache.spark.sql.execution.datasources.PartitionedFile"
    width = max(1, *map(len, by_task))
    turns = [slice(None)] if runs is None else [slice(turn, turn + 1) for turn in range(width)]
    return [
        [jvm.sources.FilePartition(task, jvm.made.array(name, members[turn])) for task, members in enumerate(by_task)]
        for turn in turns
    ]


def _values(
    jvm: Jvm, source: BucketSource, rows: NDArray[np.int64], numbers: NDArray[np.int64], schema: Any
) -> list[Any]:
    """For each file an InternalRow of its partition columns and its task's number."""
    names, snapshot = source.files.partition_columns, source.files.scan.snapshot
    if not len(rows):
        return []
    partitions = snapshot.partition_index[rows] if names else np.zeros(len(rows), np.int64)
    pairs, inverse = np.unique(np.stack([partitions, numbers]), axis=1, return_inverse=True)
    fields = [*elements(schema)]
    columns: list[list[str]] = []
    if names:
        values: Any = snapshot.path_values()
        of_path = [values.values[str(one.name())].cast(pa.string()) for one in fields[:-1]]
        columns = [one.take(pa.array(pairs[0])).to_pylist() for one in of_path]
    columns.append([str(number) for number in pairs[1]])
    made = [*jvm.rows(columns, [str(one.dataType().simpleString()) for one in fields])]
    return [made[int(number)] for number in inverse.reshape(-1)]


def _disorder(source: BucketSource) -> str:
    [name], table = source.placement.fields, source.files.scan.snapshot.config.name
    return (
        f"{table}: rows of a file are not in the order of {name}, which its footer claims: "
        "join and group DataFrames of to_df() instead"
    )


def _ascending(jvm: Jvm, column: Any) -> Any:
    order = f"{_CATALYST}.expressions"
    return jvm.companion(f"{order}.SortOrder").apply(column, jvm.companion(f"{order}.Ascending"), jvm.seq([]))


def _logical_rdd(
    jvm: Jvm, columns: Sequence[Any], rdd: Any, partitioning: Any, stats: Any, *, order: Sequence[Any] = ()
) -> Any:
    name = "org.apache.spark.sql.execution.LogicalRDD"
    count = max(int(one.getParameterCount()) for one in jvm.made.type_of(name).getConstructors())
    nothing, some = jvm.nothing, jvm.root.scala.Some(stats)
    before = [jvm.seq(columns), rdd, partitioning, jvm.seq(order), False]
    # Spark 4 has a stream besides, and 4.1 whether the statistics are those of a shuffle
    stream, last = ([nothing] if count > 8 else []), [False] * (count - 9)
    arguments = [*before, *stream, jvm.java_session, some, nothing, *last]
    return jvm.construct(name, arguments)


def _checked(jvm: Jvm, source: BucketSource, placed: Any) -> Any:
    """The rows, in which a key that releases hash in different ways is an error and not a row that finds no pair."""
    conditions = [_condition(name, source) for name in source.placement.texts]
    if not conditions:
        return placed
    frame: Any = DataFrame(of_plan(jvm, placed), jvm.session).where(" AND ".join(conditions))
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no other way


def _condition(name: str, source: BucketSource) -> str:
    column = f"`{name.replace('`', '``')}`"
    doubts = [f"contains({column}, '{one}')" for one in source.placement.separators]
    words = ", ".join(f"'{word}'" for word in WORDS)
    table = source.files.scan.snapshot.config.name
    message = (
        f"{table}: a value of {name} holds one of {' '.join(source.placement.separators)} or is {' or '.join(WORDS)}, "
        "and releases of Hudi differ in its bucket: join and group DataFrames of to_df() instead"
    )
    message = message.replace("\\", "").replace("'", "")
    doubtful = " OR ".join([*doubts, f"{column} IN ({words})"])
    # not deterministic, since Spark infers conditions of the other side of a join from those that are
    return f"if({doubtful}, CAST(raise_error('{message}') AS BOOLEAN), spark_partition_id() >= 0)"


def of_plan(jvm: Jvm, plan: Any, session: Any = None) -> Any:
    """Spark's Dataset of a logical plan, in the session or a copy of it."""
    old = str(jvm.session.version).startswith("3.")
    name = "org.apache.spark.sql.Dataset" if old else "org.apache.spark.sql.classic.Dataset"
    return jvm.companion(name).ofRows(jvm.java_session if session is None else session, plan)


def frozen(jvm: Jvm, plan: Any, report: tuple[str, ...], *, may_sort: bool = True) -> Any:
    """A leaf that gives the rows of a plan of readings by bucket, which Spark plans now and for good.

    Spark trusts a placement by some of a join's keys only with an internal setting, which is set in a copy of the
    session: the user's own plans as before.

    Args:
        jvm: of the user's session.
        plan: of readings by bucket.
        report: a line for each join and group-by of the query.
        may_sort: a join of it is to sort rows.

    Raises:
        UnsupportedTableError: Spark planned an exchange all the same.
        UnorderedPlanError: or a join that sorts rows, and none is to.
    """
    session = jvm.java_session.cloneSession()
    for key, value in _INSIDE.items():
        session.conf().set(key, value)
    return jvm.with_settings(lambda: _planned(jvm, plan, session, report, may_sort=may_sort), session)


def _planned(jvm: Jvm, plan: Any, session: Any, report: tuple[str, ...], *, may_sort: bool) -> Any:
    execution = of_plan(jvm, plan, session).queryExecution()
    physical = execution.executedPlan()
    names = [str(node.getClass().getSimpleName()) for node in _nodes(physical)]
    if any("Exchange" in name or name.startswith("Adaptive") for name in names):
        raise UnsupportedTableError("Spark's planner does not take the tables' placement")
    if not may_sort and any(map(_sorts, _nodes(physical))):
        raise UnorderedPlanError("Spark's planner does not take the order of the files")
    scans = [scan for node in _nodes(physical) for scan in _scans(node)]
    physical = _joined_by_key(jvm, physical)
    settings = session.sessionState().conf()
    rdd = jvm.root.org.apache.spark.sql.execution.SQLExecutionRDD(physical.execute(), settings)
    _WORK.put(int(rdd.id()), BucketWork(report, str(physical.toString()), tuple(scans)))
    unknown = jvm.root.org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning(rdd.getNumPartitions())
    return _logical_rdd(jvm, [*elements(plan.output())], rdd, unknown, execution.optimizedPlan().stats())


def _joined_by_key(jvm: Jvm, plan: Any) -> Any:
    """A physical plan whose hash joins compare keys alone: the bucket, by which Spark planned, is one in a whole task.

    A single key that is a number is looked up as such, in a third of the time that two of any kind take.
    """
    children = [*elements(plan.children())]
    made = [_joined_by_key(jvm, child) for child in children]
    if any(new is not old for new, old in zip(made, children, strict=True)):
        plan = plan.withNewChildren(jvm.seq(made))
    if plan.getClass().getSimpleName() != "ShuffledHashJoinExec":
        return plan
    pairs = [*zip(elements(plan.leftKeys()), elements(plan.rightKeys()), strict=True)]
    kept = [pair for pair in pairs if not all(map(_is_bucket, pair))]
    if len(kept) == len(pairs) or not kept:
        return plan
    arguments = [plan.productElement(place) for place in range(plan.productArity())]
    arguments[:2] = [jvm.seq(keys) for keys in zip(*kept, strict=True)]
    return plan.getClass().getConstructors()[0].newInstance(jvm.objects(arguments))


def _is_bucket(key: Any) -> bool:
    """Whether a key is the bucket of every row; that of an outer join is null where a side has no row."""
    return key.getClass().getSimpleName() == "AttributeReference" and key.name() == BUCKET and not key.nullable()


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in elements(plan.children()):
        yield from _nodes(child)


def _sorts(node: Any) -> bool:
    """Whether a node of Spark's physical plan is a merge join that has rows of a side sorted."""
    return node.getClass().getSimpleName() == "SortMergeJoinExec" and any(
        _inner(child).getClass().getSimpleName() == "SortExec" for child in elements(node.children())
    )


def _inner(node: Any) -> Any:
    while node.getClass().getSimpleName() in {"InputAdapter", "WholeStageCodegenExec"}:
        node = node.children().apply(0)
    return node


def _scans(node: Any) -> Iterator[BucketScan]:
    scan = _SCANS.get(int(node.rdd().id())) if node.getClass().getSimpleName() == "RDDScanExec" else None
    if scan is not None:
        yield scan
