"""DELETE, UPDATE and MERGE by Spark itself, of a name that a view answers for: refused in a line that says what to do.

Spark refuses only INSERT into a view while it analyses a statement. The others reach its planner, which fails by an
internal error, or over a table `unknown`; a strategy that the planner asks before its own fails with better words.
"""

from __future__ import annotations

from typing import Final

from spark_writer.read.jvm import Jvm
from spark_writer.read.strategies import Strategy, add_strategy

# Only where Spark fails in any case: the rows of a view, and not of a table of a catalog or another data source.
_STRATEGY: Final = Strategy(
    "HudiRefusedChanges",
    """
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

public final class HudiRefusedChanges extends %(strategy)s {

    public %(sequence)s apply(LogicalPlan plan) {
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
""",
)


def refuse_changes(jvm: Jvm) -> None:
    """Let a session say that `hudi_catalog.sql` changes tables, where its own SQL is asked to by a view's name."""
    add_strategy(jvm, _STRATEGY)
