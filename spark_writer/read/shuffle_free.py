"""Joins and group-bys by the hash fields of bucketed tables, without an exchange and without a sort.

Rows of one key are in one bucket, so the plan that Spark's optimizer made of a query is changed: scans become readings
by bucket (`bucket_scan`), whose column of bucket numbers enters the conditions of joins and the keys of group-bys.
That changes no row, and Spark plans the rest as it does any plan. What is not certain stays as Spark planned it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from catalog.stages.placement import key_placement
from pushdown.verdict import CannotPrune
from spark_writer.filters import conjuncts
from spark_writer.read.bucket_scan import (
    MOST_FILES,
    UnorderedPlanError,
    frozen,
    of_plan,
    placed_rows,
)
from spark_writer.read.file_index import scan_log
from spark_writer.read.file_order import why_never_ordered
from spark_writer.read.jvm import Jvm, elements, why_unreachable
from spark_writer.read.placed_nodes import (
    NOTHING,
    OTHERS,
    BucketSource,
    Group,
    Node,
    Placed,
    alike,
    column_of,
    has_plan,
    needed,
    numbers_of,
    through,
)
from table_format.errors import HudiError

#: Bytes of files of a bucket, up to which the rows of the smaller side of a join are hashed in memory, not sorted.
BUILD_BYTES: Final = 128 << 20
_SHARED: Final = frozenset({"WithCTE", "CTERelationDef", "CTERelationRef"})
#: Of a join's sides, those whose rows are still placed in its result.
_KEPT: Final = {"Inner": (0, 1), "LeftOuter": (0,), "LeftSemi": (0,), "LeftAnti": (0,), "RightOuter": (1,)}
#: Sides of which one is hashed; else the right one is. Never one whose rows are all kept: where Spark 3.5.0 generates
#: no code, as of more than 100 columns, it then loses pairs of a join that has another condition besides.
_HASHED: Final = {"Inner": (0, 1), "FullOuter": (0, 1), "RightOuter": (0,)}
_JOINED: Final = frozenset([*_KEPT, "FullOuter"])


_REPORTS: Final[weakref.WeakKeyDictionary[Any, tuple[str, ...]]] = weakref.WeakKeyDictionary()
_LOCK: Final = threading.Lock()


def report_of(frame: Any) -> tuple[str, ...]:
    """What `without_shuffle` did for a DataFrame that it returned: a line for each join and group-by."""
    with _LOCK:
        return _REPORTS.get(frame, ())


def without_shuffle(frame: DataFrame) -> DataFrame:
    """The same rows, joined and grouped bucket by bucket where both tables are bucketed by the key.

    The query is planned now: its files are chosen, and columns that it does not need are not read. What is added to the
    DataFrame later applies to the rows that it has. `explain_scan` shows which joins and group-bys shuffle, and why.

    Args:
        frame: a query over DataFrames of `HudiTable.to_df`, `Table.to_spark` or names in SQL, in a classic session.
    """
    session = frame.sparkSession
    reason = why_unreachable(session)
    if reason is not None:
        return _with_report(frame, [f"Spark's own plan: {reason}"])
    jvm = Jvm(session)
    return jvm.with_settings(lambda: _planned(jvm, frame))


class BucketGroups:
    """Rows by key, of which `agg` makes one row a group; made by `HudiTable.group_by`."""

    def __init__(self, grouped: GroupedData) -> None:
        self._grouped = grouped

    def agg(self, *results: Any) -> DataFrame:
        """A row for each group: its keys, and results.

        Args:
            results: Columns or texts such as `"sum(amount) AS total"`; or one dict from columns to functions.
        """
        made = [F.expr(one) if isinstance(one, str) else one for one in results]
        return without_shuffle(self._grouped.agg(*made))

    def count(self) -> DataFrame:
        """A row for each group: its keys, and how many rows it has."""
        return without_shuffle(self._grouped.count())


def as_condition(text: str) -> Any:
    """A condition of SQL as Spark's Column."""
    return F.expr(text)


def _planned(jvm: Jvm, frame: Any, disorder: str = "") -> DataFrame:
    execution: Any = frame._jdf.queryExecution()  # noqa: SLF001 - PySpark has no other way
    try:
        query = _Query(jvm, disorder)
        node = query.look(execution.optimizedPlan())
        if query.disorder != disorder:
            return _planned(jvm, frame, query.disorder)
        if query.refused:
            return _with_report(frame, [f"Spark's own plan: {query.refused}"])
        if not any(group.used for group in query.groups):
            return _with_report(frame, query.report)
        dataset = of_plan(jvm, query.named(query.outside(node), node.plan, execution.analyzed()))
        dataset.queryExecution().executedPlan()
    except UnorderedPlanError as error:
        return _planned(jvm, frame, str(error))
    except (PySparkException, Py4JError, HudiError) as error:
        first = next(filter(str.strip, str(error).splitlines()), type(error).__name__)
        return _with_report(frame, [f"Spark's own plan: {first}"])
    return _with_report(DataFrame(dataset, frame.sparkSession), query.report)


def _with_report(frame: DataFrame, lines: Sequence[str]) -> DataFrame:
    copy = DataFrame(frame._jdf, frame.sparkSession) if why_unreachable(frame.sparkSession) is None else frame  # noqa: SLF001
    with _LOCK:
        _REPORTS[copy] = tuple(lines) or ("Spark's own plan: no join and no group-by of a Hudi table",)
    return copy


class _Query:
    """The plan of one query.

    Args:
        jvm: of its session.
        disorder: why no rows are read in the order of files; empty if they may be.
    """

    def __init__(self, jvm: Jvm, disorder: str) -> None:
        self._jvm = jvm
        self._logical: Any = jvm.root.org.apache.spark.sql.catalyst.plans.logical
        self._expressions: Any = jvm.root.org.apache.spark.sql.catalyst.expressions
        self.groups: list[Group] = []
        self.report: list[str] = []
        self.refused = ""
        self.disorder = disorder

    def look(self, plan: Any) -> Node:
        """Find out which nodes can work bucket by bucket, from the leaves up."""
        kind = str(plan.getClass().getSimpleName())
        node = Node(plan, kind, [self.look(child) for child in elements(plan.children())], OTHERS.get(kind, NOTHING))
        if plan.subqueries().size() and (kind != "Filter" or any(map(has_plan, needed(plan)))):
            self.refused = "it has a subquery"
        elif kind in _SHARED:
            self.refused = "it reads the result of a common table expression twice"
        if kind == "LogicalRelation":
            self._look_at_leaf(node)
        elif kind in {"Filter", "Project"}:
            self._look_at_columns(node)
        elif kind == "Join":
            self._look_at_join(node)
        elif kind == "Aggregate":
            self._look_at_group_by(node)
        elif len(node.children) == 1:
            node.placed = f"{kind} is between the scan and it"
        elif kind == "Union":
            node.placed = "its rows are of several parts: files of earlier column types, log files, or a UNION"
        return node

    def _look_at_columns(self, node: Node) -> None:
        [below], plan = node.children, node.plan
        node.disorder = below.disorder
        if node.kind == "Filter":
            node.conditions, node.placed = needed(plan), below.placed
        else:
            node.placed = through(plan.projectList(), below.placed)
        if "input_file_" in str(plan.expressions().mkString(" ")):
            self.disorder = "it asks for the names of files, of which a task has several open"

    def _look_at_leaf(self, node: Node) -> None:
        relation = node.plan.relation()
        if relation.getClass().getSimpleName() != "HadoopFsRelation":
            return
        identity = str(relation.location().toString())
        log = scan_log(identity)
        if log is None:
            return
        files = log.files
        placement = key_placement(files.scan.snapshot, files.scan.options)
        if isinstance(placement, CannotPrune):
            node.placed = placement.reason
            return
        stored = next((name for name in placement.fields if name in files.part.stored), None)
        numbers = {str(one.name()): int(one.exprId().id()) for one in elements(node.plan.output())}
        names = {str(one.name()) for one in elements(relation.schema())}
        if stored is not None:
            node.placed = f"files hold {stored} under an earlier type"
        elif len(files.part.rows) > MOST_FILES:
            node.placed = f"{len(files.part.rows):,} files are more than {MOST_FILES:,}"
        elif not set(placement.fields) <= numbers.keys() or not numbers.keys() <= names:
            node.placed = "it reads columns of files' metadata"
        else:
            node.source = BucketSource(node.plan, identity, files, placement)
            node.disorder = why_never_ordered(files, placement) or ""
            group = Group([node.source])
            self.groups.append(group)
            node.placed = Placed(group, tuple(frozenset([numbers[name]]) for name in placement.fields))

    def _look_at_join(self, node: Node) -> None:
        sides, kind = [child.placed for child in node.children], str(node.plan.joinType().toString())
        if all(side == Node.placed for side in sides):
            return  # of no table of ours
        pairs = [*self._pairs(node)]
        called = " AND ".join(f"{one.name()} = {other.name()}" for one, other in pairs) or "its condition"
        reason = self._why_not_joined(node, kind, pairs)
        if reason is not None:
            node.placed = reason
            self.report.append(f"join on {called} is Spark's own: {reason}")
            return
        left, right = sides
        assert isinstance(left, Placed)  # noqa: S101  # `_why_not_joined` has seen to it
        assert isinstance(right, Placed)  # noqa: S101  # likewise
        merged = self._merged(left.group, right.group)
        node.by_bucket = True
        hashed = [node.children[number] for number in _HASHED.get(kind, (1,))]
        node.disorder = self._disorder(node, merged.tasks)
        node.merged = not node.disorder
        largest = (max(one.largest(merged.tasks) for one in side.sources()) for side in hashed)
        node.sorted = not node.merged and min(largest) > BUILD_BYTES
        kept = [(left, right)[number].keys for number in _KEPT.get(kind, ())]
        keys = tuple(frozenset().union(*held) for held in zip(*kept, strict=True))
        node.placed = Placed(merged, keys) if kept else "a full outer join has no key on one side"
        tables = ", ".join(_counted(one) for one in node.sources())
        sort = (
            f"with a sort, since a bucket is larger than {BUILD_BYTES >> 20} MiB" if node.sorted else "without a sort"
        )
        way = "merged in the order of files" if node.merged else f"not in the order of files: {node.disorder}"
        self.report.append(f"join on {called}: without an exchange, {sort}, {merged.tasks} tasks ({tables}), {way}")

    def _why_not_joined(self, node: Node, kind: str, pairs: Sequence[tuple[Any, Any]]) -> str | None:
        left, right = (child.placed for child in node.children)
        if isinstance(left, str) or isinstance(right, str):
            named = [f"{side}: {one}" for side, one in (("left", left), ("right", right)) if isinstance(one, str)]
            return "; ".join(named)
        hint = node.plan.hint()
        if hint.leftHint().isDefined() or hint.rightHint().isDefined():
            return "it has a hint"
        if kind not in _JOINED:
            return f"it is a {kind} join"
        if len(left.keys) != len(right.keys):
            return "the tables hash different numbers of fields"
        for one, other in zip(left.keys, right.keys, strict=True):
            if not any(a.exprId().id() in one and b.exprId().id() in other for a, b in pairs):
                return "it does not say that all hash fields are equal"
        return left.group.why_not(right.group)

    def _pairs(self, node: Node) -> Iterator[tuple[Any, Any]]:
        """Columns of both sides that are equal in matching rows, and whose equal values have equal texts in keys."""
        condition = node.plan.condition()
        if not condition.isDefined():
            return
        left = {int(one.exprId().id()) for one in elements(node.children[0].plan.output())}
        for part in conjuncts(condition.get()):
            if part.getClass().getSimpleName() != "EqualTo":
                continue
            one, other = column_of(part.left()), column_of(part.right())
            if one is None or other is None or not alike(one, other):
                continue
            if one.exprId().id() not in left:
                one, other = other, one
            yield one, other

    def _look_at_group_by(self, node: Node) -> None:
        placed, grouped = node.children[0].placed, [*elements(node.plan.groupingExpressions())]
        if not grouped or placed == Node.placed:
            node.placed = placed if isinstance(placed, str) else "it has no key"
            return
        columns = [one for one in map(column_of, grouped) if one is not None]
        called = ", ".join(str(one.name()) for one in columns) or "an expression"
        reason = placed if isinstance(placed, str) else None
        if isinstance(placed, Placed):
            numbers = {int(one.exprId().id()) for one in columns}
            if not all(keys & numbers for keys in placed.keys):
                reason = "its keys do not hold all hash fields"
        if reason is not None:
            node.placed = reason
            self.report.append(f"group-by of {called} is Spark's own: {reason}")
            return
        assert isinstance(placed, Placed)  # noqa: S101  # or there is a reason
        node.by_bucket = placed.group.used = True
        node.placed = through(node.plan.aggregateExpressions(), placed)
        tables = ", ".join(_counted(one) for one in node.sources())
        if {int(one.exprId().id()) for one in columns} - frozenset().union(*placed.keys) or len(columns) < len(grouped):
            node.disorder = "it has further keys"
        node.disorder = node.disorder or self._disorder(node, placed.group.tasks)
        way = "in the order of files" if not node.disorder else f"not in the order of files: {node.disorder}"
        node.disorder = "groups have no order"
        self.report.append(f"group-by of {called}: without an exchange, {placed.group.tasks} tasks ({tables}), {way}")

    def _disorder(self, node: Node, tasks: int) -> str:
        """Why a join or a group-by does not read its tables in the order of their files; if none, it does.

        Args:
            node: of the plan.
            tasks: that read the tables.
        """
        below = next((child.disorder for child in node.children if child.disorder), "")
        if self.disorder or below:
            return self.disorder or below
        equal = () if node.kind != "Join" else conjuncts(node.plan.condition().get())
        if sum(self._is_of_both(node, one) for one in equal) > 1:
            return "further columns are equal"
        readings = [*node.readings()]
        for source, conditions in readings:
            runs = source.runs(self._jvm, conditions, tasks)
            if isinstance(runs, str):
                return runs
        for source, _ in readings:
            source.in_order = True
        return ""

    def _is_of_both(self, node: Node, condition: Any) -> bool:
        """Whether a condition says that something of one side equals something of the other."""
        used = numbers_of(condition.references())
        sides = (frozenset(int(one.exprId().id()) for one in elements(side.plan.output())) for side in node.children)
        return condition.getClass().getSimpleName().startswith("Equal") and all(map(used.intersection, sides))

    def _merged(self, left: Group, right: Group) -> Group:
        left.used = True
        if left is not right:
            left.sources += right.sources
            right.sources, right.used = left.sources, True
        return left

    def named(self, plan: Any, optimized: Any, analyzed: Any) -> Any:
        """The plan with the query's own columns, of which Spark's optimizer may have renumbered some."""
        columns = []
        for one, own in zip(elements(optimized.output()), elements(analyzed.output()), strict=True):
            number = own.exprId()
            same = one.exprId().id() == number.id()
            rest = (own.qualifier(), self._jvm.nothing, self._jvm.seq([]))
            columns.append(own if same else self._expressions.Alias(one, own.name(), number, *rest))
        return self._logical.Project(self._jvm.seq(columns), plan)

    def outside(self, node: Node) -> Any:
        """The plan, in which each part that works by buckets is a leaf."""
        if node.inside:
            plan, _ = self._inside(node)
            project = self._logical.Project(node.plan.output(), plan)
            may_sort = any(one.sorted for one in node.joins()) or not any(one.merged for one in node.joins())
            return frozen(self._jvm, project, tuple(self.report), may_sort=may_sort)
        children = [self.outside(child) for child in node.children]
        if node.kind == "Filter":  # Spark adds its own conditions for speed again
            return self._logical.Filter(self._all_of(node.conditions), *children) if node.conditions else children[0]
        return node.plan.withNewChildren(self._jvm.seq(children)) if children else node.plan

    def _inside(self, node: Node, wanted: frozenset[int] | None = None, above: Sequence[Any] = ()) -> tuple[Any, Any]:
        """A part of the plan that works by buckets, and the column of bucket numbers that its rows have.

        Args:
            node: of the plan.
            wanted: numbers of the columns that are used above it; None for all.
            above: conditions right above it.
        """
        if node.source is not None:
            assert isinstance(node.placed, Placed)  # noqa: S101  # it is a source
            return placed_rows(self._jvm, node.source, node.placed.group.tasks, wanted, above)
        if node.kind == "Filter":
            return self._filter(node, wanted)
        if node.kind == "Project":
            child, bucket = self._inside(node.children[0], numbers_of(node.plan.references()))
            columns = [*elements(node.plan.projectList()), *([bucket] if bucket is not None else [])]
            return self._logical.Project(self._jvm.seq(columns), child), bucket
        return self._join(node) if node.kind == "Join" else self._group_by(node)

    def _filter(self, node: Node, wanted: frozenset[int] | None) -> tuple[Any, Any]:
        references = frozenset[int]().union(*(numbers_of(one.references()) for one in node.conditions))
        below = None if wanted is None else wanted | references
        child, bucket = self._inside(node.children[0], below, node.conditions)
        if not node.conditions or node.children[0].source is not None:
            return child, bucket
        return self._logical.Filter(self._all_of(node.conditions), child), bucket

    def _join(self, node: Node) -> tuple[Any, Any]:
        (left, one), (right, other) = map(self._inside, node.children)
        plan, kind = node.plan, str(node.plan.joinType().toString())
        condition = self._all_of([self._expressions.EqualTo(one, other), *conjuncts(plan.condition().get())])
        hint = plan.hint()
        if not node.sorted and not node.merged:
            strategy = self._jvm.companion("org.apache.spark.sql.catalyst.plans.logical.SHUFFLE_HASH")
            wanted = self._jvm.root.scala.Some(self._logical.HintInfo(self._jvm.root.scala.Some(strategy)))
            sides = _HASHED.get(kind, (1,))
            hint = self._logical.JoinHint(*(wanted if side in sides else self._jvm.nothing for side in (0, 1)))
        joined = self._logical.Join(left, right, plan.joinType(), self._jvm.root.scala.Some(condition), hint)
        return joined, None if kind == "FullOuter" else other if kind == "RightOuter" else one

    def _group_by(self, node: Node) -> tuple[Any, Any]:
        child, bucket = self._inside(node.children[0])
        plan = node.plan
        grouped = self._jvm.seq([bucket, *elements(plan.groupingExpressions())])
        results = self._jvm.seq([*elements(plan.aggregateExpressions()), bucket])
        further = [plan.productElement(number) for number in range(3, plan.productArity())]
        return plan.makeCopy(self._jvm.objects([grouped, results, child, *further])), bucket

    def _all_of(self, conditions: Sequence[Any]) -> Any:
        return reduce(self._expressions.And, conditions)


def _counted(source: BucketSource) -> str:
    return f"{source.files.scan.snapshot.config.name}: {source.placement.buckets.count} buckets"
