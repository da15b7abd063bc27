"""DELETE, UPDATE and MERGE by Spark itself, of a name that a view answers for: refused in a line that says what to do.

Spark refuses only INSERT into a view while it analyses a statement. The others reach its planner, which fails by an
internal error, or over a table `unknown`; a strategy that the planner asks before its own fails with better words. As
the format of `parquet_format` it is compiled by Janino: a strategy is a class, and py4j serves interfaces.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

from spark_writer.read.jvm import Jvm

_STRATEGY: Final = "org.apache.spark.sql.execution.SparkStrategy"
_NAME: Final = "HudiRefusedChanges"
# Only where Spark fails in any case: the rows of a view, and not of a table of a catalog or another data source.
_SOURCE: Final = """
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

public final class HudiRefusedChanges extends %(strategy)s {

    public %(plans)s apply(LogicalPlan plan) {
        if (plan instanceof DeleteFromTable) {
            refuse(((DeleteFromTable) plan).table(), "DELETE FROM");
        } else if (plan instanceof UpdateTable) {
            refuse(((UpdateTable) plan).table(), "UPDATE");
        } else if (plan instanceof MergeIntoTable) {
            refuse(((MergeIntoTable) plan).targetTable(), "MERGE INTO");
        }
        return scala.collection.immutable.Nil$.MODULE$;
    }

    private static void refuse(LogicalPlan target, String verb) {
        for (scala.collection.Iterator each = target.collectLeaves().iterator(); each.hasNext();) {
            Object leaf = each.next();
            boolean isView = leaf instanceof LogicalRDD || leaf instanceof LocalRelation
                || leaf instanceof LogicalRelation && ((LogicalRelation) leaf).catalogTable().isEmpty();
            if (!isView) {
                return;
            }
        }
        throw new UnsupportedOperationException("Spark cannot change a view by " + verb + "; to change a Hudi table, "
            + "run hudi_catalog.sql(spark, \\"" + verb + " ...\\")");
    }
}
"""
_STRATEGIES: Final[weakref.WeakKeyDictionary[Any, Any]] = weakref.WeakKeyDictionary()


def refuse_changes(jvm: Jvm) -> None:
    """Let a session say that `hudi_catalog.sql` changes tables, where its own SQL is asked to by a view's name."""
    methods = jvm.java_session.experimental()
    own = jvm.root.PythonUtils.toSeq(_with(jvm, methods.extraStrategies()))
    getattr(methods, "extraStrategies_$eq")(own)


def _with(jvm: Jvm, strategies: Any) -> Any:
    """Strategies as a Java list, and ours behind them."""
    both = jvm.root.java.util.ArrayList(jvm.root.scala.collection.JavaConverters.seqAsJavaList(strategies))
    strategy = _STRATEGIES.get(jvm.made)
    if strategy is None:
        kind = jvm.made.type_of(_STRATEGY)
        method = next(one for one in kind.getMethods() if one.getName() == "apply")
        source = _SOURCE % {"strategy": _STRATEGY, "plans": str(method.getReturnType().getName())}
        strategy = _STRATEGIES.setdefault(jvm.made, jvm.made.compiled(_NAME, source, kind))
    both.add(strategy.newInstance(jvm.objects([])))
    return both
