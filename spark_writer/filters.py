"""Spark's filters, as SQL text, as a Column or as an expression of its planner, into `HudiExpression`.

A Column is analysed by Spark itself against the table's schema, so that names, types and implicit casts are Spark's;
the data source's ``pushFilters`` is not used, since it loses rows.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from pushdown import ExpressionError, HudiExpression, Predicate, Unknown, parse_sql
from pushdown.binding.bind import bind
from pushdown.expression import Op, all_of
from pushdown.spark_types import Typed, literal_sql_type
from pushdown.temporal import zone_of
from pushdown.walk import fold, rebuilt, without_computations

_LOG: Final = logging.getLogger(__name__)
_CATALYST: Final = "org.apache.spark.sql.catalyst.expressions."
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`", re.DOTALL)
# Classes whose SQL text means what it says. A user's function prints as its name, which may be that of a built-in one.
_UNDERSTOOD: Final = frozenset(
    [
        "And",
        "Or",
        "Not",
        "EqualTo",
        "EqualNullSafe",
        "LessThan",
        "LessThanOrEqual",
        "GreaterThan",
        "GreaterThanOrEqual",
        "In",
        "InSet",
        "IsNull",
        "IsNotNull",
        "AttributeReference",
        "Literal",
        "GetStructField",
        "Cast",
        "StartsWith",
        "EndsWith",
        "Contains",
        "Like",
        "Substring",
        "Left",
        "Lower",
        "Upper",
        "Year",
        "Quarter",
        "Month",
        "DayOfMonth",
        "Hour",
        "Minute",
        "Second",
        "DayOfWeek",
        "WeekDay",
        "DayOfYear",
        "WeekOfYear",
        "ParseToDate",
        "TruncDate",
        "TruncTimestamp",
        "DateAdd",
        "DateSub",
        "Floor",
        "Ceil",
        "Add",
        "Subtract",
        "Multiply",
        "Divide",
        "IntegralDivide",
        "Remainder",
        "Pmod",
        "UnaryMinus",
        "Abs",
        "Length",
        "StringTrim",
        "StringTrimLeft",
        "StringTrimRight",
        "StringReplace",
        "StringInstr",
        "Reverse",
        "SoundEx",
    ]
)
_COMPARISONS: Final = {
    "EqualTo": Op.EQ,
    "LessThan": Op.LT,
    "LessThanOrEqual": Op.LE,
    "GreaterThan": Op.GT,
    "GreaterThanOrEqual": Op.GE,
}
_OF_FILES: Final = ("__metadata_col", "__file_source_metadata_col", "__file_source_constant_metadata_col")


@dataclass(frozen=True)
class PlannedCondition:
    """A condition of Spark's planner that crossed as texts; it answers what `from_catalyst` asks an expression.

    Attributes:
        shown: the expression as Spark prints it.
        nodes: its JSON; empty where Spark has none.
        text: as SQL; why there is none where `nodes` is empty.
        columns: name and metadata, as JSON, of each column.
    """

    shown: str
    nodes: str
    text: str
    columns: tuple[tuple[str, str], ...]

    def toJSON(self) -> str:  # noqa: N802
        """The JSON.

        Raises:
            ValueError: Spark has none.
        """
        if not self.nodes:
            raise ValueError(self.text)
        return self.nodes

    def sql(self) -> str:
        """The SQL."""
        return self.text

    def toString(self) -> str:  # noqa: N802
        """As Spark prints it."""
        return self.shown


def from_spark_sql(text: str) -> HudiExpression:
    """Read a condition of Spark SQL, as after WHERE; see `pushdown.parse_sql`."""
    return parse_sql(text, "spark")


def from_spark_column(column: Column, table: DataFrame | StructType) -> HudiExpression:
    """Translate a Column that selects rows, such as ``F.col("a") > 3``.

    Bind the filter with the session's time zone: clock times in it are of that zone.

    Args:
        column: the condition; of a classic session, not of Spark Connect.
        table: the table's schema, or a DataFrame that has it.

    Raises:
        ExpressionError: the Column is of Spark Connect, or there is no classic session.
        AnalysisException: Spark refuses the condition.
    """
    schema = table if isinstance(table, StructType) else table.schema
    session = SparkSession.getActiveSession()
    if session is None or not hasattr(column, "_jc") or not hasattr(session, "_jsparkSession"):
        raise ExpressionError("a Column can be translated in a classic Spark session only; give the filter as SQL text")
    selected: Any = session.createDataFrame([], schema).where(column)
    plan = selected._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no other way to the condition
    if plan.getClass().getSimpleName() != "Filter":
        return Unknown("Spark does not plan this Column as one filter")
    zone = session.conf.get("spark.sql.session.timeZone") or "UTC"
    return all_of(*(_of_text(part, zone) for part in conjuncts(plan.condition())))


def _of_text(condition: Any, zone: str) -> HudiExpression:
    """A Catalyst condition by its SQL text, where that means what it says."""
    nodes = json.loads(condition.toJSON())
    strange = _strange_class(nodes)
    if strange is not None:
        return Unknown(f"{strange} in {_shown(condition)}")
    return _parsed(condition, nodes, zone)


def _parsed(condition: Any, nodes: Sequence[Mapping[str, Any]], zone: str) -> HudiExpression:
    """The SQL text of a condition whose classes are all understood."""
    text = str(condition.sql())
    if _lacks_escape(nodes, condition, text):
        return Unknown(f"LIKE with ESCAPE in {_shown(condition)}")
    return _without_ambiguous_times(parse_sql(text, "spark"), zone)


def conjuncts(condition: Any) -> list[Any]:
    """The parts of a Catalyst condition that are joined by AND."""
    parts, pending = [], [condition]
    while pending:
        part = pending.pop()
        if part.getClass().getName() == f"{_CATALYST}And":
            pending += [part.right(), part.left()]
        else:
            parts.append(part)
    return parts


def _lacks_escape(nodes: Sequence[Mapping[str, Any]], expression: Any, text: str) -> bool:
    """Whether the SQL text of an expression may lack the escape character of a LIKE.

    Spark 3.5 leaves it out there, and all releases leave it out of the JSON.
    """
    if all(node["class"] != f"{_CATALYST}Like" for node in nodes):
        return False
    shown = str(expression.toString())
    return shown.count(" ESCAPE ") > _QUOTED.sub("", text).count(" ESCAPE ") or " more fields" in shown


def _strange_class(nodes: Sequence[Mapping[str, Any]]) -> str | None:
    """The first class of an expression, of its JSON, whose text may mean something else; None if there is none."""
    kinds = (str(node["class"]) for node in nodes)
    return next((kind.rpartition(".")[2] for kind in kinds if kind.removeprefix(_CATALYST) not in _UNDERSTOOD), None)


def from_condition(condition: Column | str, table: DataFrame, schema: pa.Schema) -> HudiExpression:
    """Translate a condition as Spark analyses it on a DataFrame; what is not understood is `Unknown`.

    Args:
        condition: as for `DataFrame.where`; in a classic session.
        table: has the table's columns, and the name by which the condition may qualify them.
        schema: the table's columns.

    Raises:
        AnalysisException: Spark refuses the condition.
    """
    selected: Any = table.where(condition)
    plan = selected._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no other way to the condition
    if plan.getClass().getSimpleName() != "Filter":
        return Unknown("Spark does not plan this condition as one filter")
    zone = table.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
    return all_of(*(from_catalyst(part, schema, zone) for part in conjuncts(plan.condition())))


def from_catalyst(
    expression: Any, schema: pa.Schema, time_zone: str, changed: Collection[str] = frozenset()
) -> HudiExpression:
    """Translate a condition that Spark's planner gives to a scan; what is not understood is `Unknown`.

    Its JSON tells columns, zones, collations and classes; its SQL text is parsed.

    Args:
        expression: a Catalyst expression or a `PlannedCondition`, of the thread of the JVM that plans: times in its
            text are on that thread's clock.
        schema: the table's columns.
        time_zone: of that thread's session.
        changed: columns of another type in the files that are scanned, of which nothing is understood.
    """
    try:
        return _from_catalyst(expression, schema, time_zone, changed)
    except Exception as error:  # noqa: BLE001  # whatever it is, keeping every file is right
        _LOG.info("not used for planning: %s", error)
        return Unknown(f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}")


def _from_catalyst(  # noqa: PLR0911  # one line a reason
    expression: Any, schema: pa.Schema, time_zone: str, changed: Collection[str]
) -> HudiExpression:
    names: dict[str, str] = {}
    nodes = json.loads(expression.toJSON())
    strange = _strange_class(nodes)
    if strange is not None:
        return Unknown(f"{strange} in {_shown(expression)}")
    for node in nodes:
        if node.get("timeZoneId") not in (None, time_zone):
            # a view of SQL keeps the zone in which it was made
            return Unknown(f"a clock of {node['timeZoneId']} in a session of {time_zone}: {_shown(expression)}")
        if "collat" in json.dumps(node.get("dataType", "")).lower():
            return Unknown(f"collated text in {_shown(expression)}")
        if str(node["class"]).endswith(".AttributeReference"):
            name = str(node["name"])
            if "." in name or name not in schema.names:
                return Unknown(f"{name!r} is no column of the table")
            if name in changed:
                return Unknown(f"column {name} has an earlier type in these files")
            names[".".join([*_qualifier(node["qualifier"]), name])] = name
    for name, metadata in _columns(expression):
        # a field of _metadata comes as a column of its bare name, and the JSON does not show what tells them apart
        if any(key in metadata for key in _OF_FILES):
            return Unknown(f"_metadata.{name} is of files, not of rows")
    result = _comparison(nodes)
    result = _named(_parsed(expression, nodes, time_zone), names) if result is None else result
    bind(result, schema, case_sensitive=True, time_zone=time_zone)  # what cannot be bound is not understood
    return result


def _comparison(nodes: Sequence[Mapping[str, Any]]) -> HudiExpression | None:
    """A column compared with a whole number or a text, which need no parser; it would take a third of a look-up's plan.

    Args:
        nodes: of a condition's JSON.

    Returns:
        None for all other conditions.
    """
    kinds = [str(node["class"]).removeprefix(_CATALYST) for node in nodes]
    if len(nodes) != 3 or kinds[0] not in _COMPARISONS or kinds[1:] != ["AttributeReference", "Literal"]:
        return None
    column, literal = nodes[1:]
    kind, value = literal.get("dataType"), literal.get("value")
    if value is None or column.get("dataType") != kind or kind not in ("integer", "long", "string"):
        return None
    plain = value if kind == "string" else int(value)
    is_long = kind == "long" and literal_sql_type(plain) != pa.int64()
    typed = Typed(plain, pa.int64(), written=True) if is_long else plain
    return Predicate(_COMPARISONS[kinds[0]], str(column["name"]), (typed,), rules="spark")


def _columns(expression: Any) -> Iterable[tuple[str, str]]:
    """Name and metadata, as JSON, of each column of an expression; of one in the JVM by two calls each."""
    if isinstance(expression, PlannedCondition):
        return expression.columns
    references = expression.references().toSeq()
    attributes = (references.apply(position) for position in range(references.size()))
    return ((str(one.name()), str(one.metadata().json())) for one in attributes)


def _named(parsed: HudiExpression, names: dict[str, str]) -> HudiExpression:
    """An expression with the table's columns for names that the query qualified."""
    return fold(parsed, lambda node, children: _resolved(node, children, names))


def _resolved(node: HudiExpression, children: list[HudiExpression], names: dict[str, str]) -> HudiExpression:
    """A node with the table's column for a name that the query qualified, such as `x.n` or `spark_catalog.db.t.s.a`."""
    if children:
        return rebuilt(node, children)
    if not isinstance(node, Predicate):
        return node
    fits = [full for full in names if node.column == full or node.column.startswith(f"{full}.")]
    if len(fits) != 1:  # an alias and a struct may have one name
        return Unknown(f"column {node.column!r} may be one of several")
    column = names[fits[0]] + node.column[len(fits[0]) :]
    return Predicate(node.op, column, node.values, function=node.function, rules=node.rules)


def _qualifier(parts: Any) -> list[str]:
    """Parts of a qualifier: a list in Spark 3.5, the text `[a, b]` in 4."""
    return [part for part in (parts.strip("[]").split(", ") if isinstance(parts, str) else parts) if part]


def _shown(expression: Any) -> str:
    return str(expression.toString())[:200]


def _without_ambiguous_times(expression: HudiExpression, time_zone: str) -> HudiExpression:
    """Spark's text shows instants on the session's clock, where two may look alike; Spark itself computes for rows."""

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if isinstance(node, Predicate) and any(is_ambiguous(value, time_zone) for value in node.values):
            return Unknown(f"{node.column} is compared with a time that the clock in {time_zone} shows twice")
        return rebuilt(node, children) if children else node

    return fold(without_computations(expression), visit)


def is_ambiguous(value: object, time_zone: str) -> bool:
    """Whether a value is a time without a zone that clocks in the zone show twice, or never."""
    if not isinstance(value, dt.datetime) or value.tzinfo is not None:
        return False
    zone = zone_of(time_zone)
    return value.replace(tzinfo=zone, fold=0).utcoffset() != value.replace(tzinfo=zone, fold=1).utcoffset()
