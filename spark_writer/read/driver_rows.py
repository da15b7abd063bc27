"""Few rows for the driver, read in the driver: a query that a few small files answer runs no job.

A job of one task takes Spark some 40 ms, ten times what it takes to read a row of a small file. So a plan that answers
a query on one scan of ours is wrapped in a node that reads for itself what `collect`, `take` and `show` ask for: the
files of Spark's own scan by Spark's own reader, and its conditions and columns evaluated by Spark. Everything else goes
through Spark's plan below the node as before.
"""

from __future__ import annotations

from typing import Final

from catalog.snapshots.scan_options import DRIVER_BYTES
from spark_writer.read.jvm import Jvm
from spark_writer.read.strategies import Strategy, add_strategy

_MOST_FILES: Final = 4
_MOST_ROWS: Final = 1_000_000
_STRATEGY: Final = Strategy(
    "HudiDriverRows",
    """
import java.util.ArrayList;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.*;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.vectorized.ColumnarBatch;

// Wraps the plan of a whole query on one scan, of which the rows may be filtered and computed, and be the first ones.
public final class HudiDriverRows extends %(strategy)s {

    public %(sequence)s apply(LogicalPlan plan) {
        ArrayList made = new ArrayList();
        if (plan instanceof ReturnAnswer) {
            LogicalPlan query = ((ReturnAnswer) plan).child();
            int most = mostRows(query);
            LogicalPlan rows = most < 0 ? query : ((LocalLimit) ((GlobalLimit) query).child()).child();
            if (isScan(rows)) {
                SparkPlan wrapped = new HudiDriverRowsExec(planLater(rows));
                made.add(most < 0 ? wrapped : new CollectLimitExec(most, wrapped, 0));
            }
        }
        return org.apache.spark.api.python.PythonUtils.toSeq(made);
    }

    // The number of a LIMIT, or -1.
    private static int mostRows(LogicalPlan plan) {
        if (plan instanceof GlobalLimit && ((GlobalLimit) plan).child() instanceof LocalLimit) {
            Object outer = ((GlobalLimit) plan).limitExpr();
            Object inner = ((LocalLimit) ((GlobalLimit) plan).child()).limitExpr();
            if (outer instanceof Literal && outer.equals(inner) && ((Literal) outer).value() instanceof Integer) {
                return ((Integer) ((Literal) outer).value()).intValue();
            }
        }
        return -1;
    }

    private static boolean isScan(LogicalPlan plan) {
        if (plan instanceof Project) {
            return isScan(((Project) plan).child());
        }
        if (plan instanceof Filter) {
            return isScan(((Filter) plan).child());
        }
        return plan instanceof LogicalRelation && !plan.isStreaming()
            && ((LogicalRelation) plan).relation() instanceof HadoopFsRelation
            && ((HadoopFsRelation) ((LogicalRelation) plan).relation()).options().contains("%(bytes)s");
    }
}

public final class HudiDriverRowsExec extends SparkPlan {

    private final SparkPlan child;

    public HudiDriverRowsExec(SparkPlan child) {
        this.child = child;
    }

    public String nodeName() {
        return "HudiDriverRows";
    }

    public %(sequence)s output() {
        return child.output();
    }

    public %(sequence)s children() {
        ArrayList children = new ArrayList();
        children.add(child);
        return org.apache.spark.api.python.PythonUtils.toSeq(children);
    }

    public TreeNode withNewChildrenInternal(%(indexed)s children) {
        return new HudiDriverRowsExec((SparkPlan) children.apply(0));
    }

    public int productArity() {
        return 1;
    }

    public Object productElement(int place) {
        return child;
    }

    public boolean canEqual(Object other) {
        return other instanceof HudiDriverRowsExec;
    }

    // Executors, which do not have this class, get the plan itself where a task's closure holds it.
    public Object writeReplace() {
        return child;
    }

    public RDD doExecute() {
        return child.execute();
    }

    public InternalRow[] executeCollect() {
        InternalRow[] rows = read(Integer.MAX_VALUE);
        return rows == null ? super.executeCollect() : rows;
    }

    public InternalRow[] executeTake(int most) {
        InternalRow[] rows = most > 0 ? read(most) : null;
        return rows == null ? super.executeTake(most) : rows;
    }

    // The rows, or null where tasks of Spark have to read them.
    private InternalRow[] read(int most) {
        ArrayList steps = new ArrayList();
        FileSourceScanExec scan = scan(steps);
        if (scan == null || !(scan.inputRDD() instanceof FileScanRDD)) {
            return null;
        }
        RDD files = scan.inputRDD();
        Partition[] tasks = files.partitions();
        if (!areSmall(tasks, Long.parseLong((String) scan.relation().options().apply("%(bytes)s")))) {
            return null;
        }
        RowsOfFiles rows = new RowsOfFiles(steps, scan, most);
        for (int place = 0; place < tasks.length; place++) {
            // It is nobody's current task: what asks for that one does without, as always in the driver.
            TaskContext task = org.apache.spark.TaskContext$.MODULE$.empty();
            try {
                if (!rows.read(files.iterator(tasks[place], task))) {
                    return null;
                }
            } finally {
                task.markTaskCompleted(scala.Option.empty());
            }
        }
        return rows.taken();
    }

    // Spark's scan, if nothing but conditions and columns that need no task is above it.
    private FileSourceScanExec scan(ArrayList steps) {
        SparkPlan plan = child;
        while (!(plan instanceof FileSourceScanExec)) {
            %(sequence)s computed;
            if (plan instanceof ProjectExec) {
                computed = ((ProjectExec) plan).projectList();
                steps.add(plan);
            } else if (plan instanceof FilterExec) {
                ArrayList condition = new ArrayList();
                condition.add(((FilterExec) plan).condition());
                computed = org.apache.spark.api.python.PythonUtils.toSeq(condition);
                steps.add(plan);
            } else if (plan instanceof WholeStageCodegenExec || plan instanceof InputAdapter
                || plan instanceof ColumnarToRowExec) {
                computed = null;
            } else {
                return null;
            }
            if (computed != null && !isPlain(computed)) {
                return null;
            }
            plan = (SparkPlan) plan.children().apply(0);
        }
        FileSourceScanExec scan = (FileSourceScanExec) plan;
        return isPlain(scan.partitionFilters()) && isPlain(scan.dataFilters()) ? scan : null;
    }

    // Whether expressions have the same value in every task, and wait for no other query.
    private static boolean isPlain(%(sequence)s expressions) {
        for (scala.collection.Iterator each = expressions.iterator(); each.hasNext();) {
            Expression one = (Expression) each.next();
            if (!one.deterministic() || one instanceof PlanExpression || !isPlain(one.children())) {
                return false;
            }
        }
        return true;
    }

    private static boolean areSmall(Partition[] tasks, long mostBytes) {
        int count = 0;
        long total = 0;
        for (int place = 0; place < tasks.length; place++) {
            PartitionedFile[] files = ((FilePartition) tasks[place]).files();
            count += files.length;
            for (int file = 0; file < files.length; file++) {
                total += files[file].length();
            }
        }
        return count <= %(files)d && total <= mostBytes;
    }
}

final class RowsOfFiles {

    private final ArrayList stages = new ArrayList();
    private final ArrayList taken = new ArrayList();
    private final UnsafeProjection copied;
    private final int most;
    private int seen = 0;

    RowsOfFiles(ArrayList steps, FileSourceScanExec scan, int most) {
        this.most = most;
        %(sequence)s columns = scan.output();
        for (int place = steps.size() - 1; place >= 0; place--) {
            Object step = steps.get(place);
            if (step instanceof FilterExec) {
                ArrayList condition = new ArrayList();
                condition.add(((FilterExec) step).condition());
                %(sequence)s tested = copy(org.apache.spark.api.python.PythonUtils.toSeq(condition));
                stages.add(new Condition(new InterpretedProjection(tested, columns)));
            } else {
                stages.add(new InterpretedProjection(copy(((ProjectExec) step).projectList()), columns));
                columns = ((ProjectExec) step).output();
            }
        }
        ArrayList bound = new ArrayList();
        for (scala.collection.Iterator each = columns.iterator(); each.hasNext();) {
            Attribute column = (Attribute) each.next();
            bound.add(new BoundReference(bound.size(), column.dataType(), column.nullable()));
        }
        copied = InterpretedUnsafeProjection.createProjection(org.apache.spark.api.python.PythonUtils.toSeq(bound));
    }

    // Expressions of this call alone, as each task has: some keep what they saw last, and other threads read as well.
    private static %(sequence)s copy(%(sequence)s expressions) {
        if (keepNothing(expressions)) {
            return expressions;
        }
        try {
            java.io.ByteArrayOutputStream bytes = new java.io.ByteArrayOutputStream();
            java.io.ObjectOutputStream written = new java.io.ObjectOutputStream(bytes);
            written.writeObject(expressions);
            written.close();
            return (%(sequence)s) new Copies(new java.io.ByteArrayInputStream(bytes.toByteArray())).readObject();
        } catch (java.io.IOException error) {
            throw new IllegalStateException(error);
        } catch (ClassNotFoundException error) {
            throw new IllegalStateException(error);
        }
    }

    private static boolean keepNothing(%(sequence)s expressions) {
        for (scala.collection.Iterator each = expressions.iterator(); each.hasNext();) {
            Expression one = (Expression) each.next();
            boolean plain = one instanceof AttributeReference || one instanceof Literal || one instanceof And
                || one instanceof Or || one instanceof Not || one instanceof BinaryComparison
                || one instanceof IsNull || one instanceof IsNotNull;
            if (!plain || !keepNothing(one.children())) {
                return false;
            }
        }
        return true;
    }

    InternalRow[] taken() {
        return (InternalRow[]) taken.toArray(new InternalRow[0]);
    }

    // Whether the rows are few enough: a small file may hold millions of them, if they are alike.
    boolean read(scala.collection.Iterator each) {
        while (each.hasNext() && taken.size() < most) {
            Object next = each.next();
            if (next instanceof ColumnarBatch) {
                java.util.Iterator rows = ((ColumnarBatch) next).rowIterator();
                while (rows.hasNext() && taken.size() < most) {
                    add((InternalRow) rows.next());
                }
            } else {
                add((InternalRow) next);
            }
            if (seen > %(rows)d) {
                return false;
            }
        }
        return true;
    }

    private void add(InternalRow row) {
        seen++;
        for (int place = 0; place < stages.size(); place++) {
            Object stage = stages.get(place);
            if (stage instanceof InterpretedProjection) {
                row = ((InterpretedProjection) stage).apply(row);
            } else if (!((Condition) stage).isMet(row)) {
                return;
            }
        }
        taken.add(copied.apply(row).copy());
    }
}

final class Copies extends java.io.ObjectInputStream {

    Copies(java.io.InputStream bytes) throws java.io.IOException {
        super(bytes);
    }

    // Of the loader of the thread, which knows the user's jars.
    protected Class resolveClass(java.io.ObjectStreamClass one) throws java.io.IOException, ClassNotFoundException {
        try {
            return Class.forName(one.getName(), false, Thread.currentThread().getContextClassLoader());
        } catch (ClassNotFoundException error) {
            return super.resolveClass(one);
        }
    }
}

final class Condition {

    private final InterpretedProjection value;

    Condition(InterpretedProjection value) {
        this.value = value;
    }

    boolean isMet(InternalRow row) {
        InternalRow met = value.apply(row);
        return !met.isNullAt(0) && met.getBoolean(0);
    }
}
""".replace("%(bytes)s", DRIVER_BYTES)
    .replace("%(files)d", str(_MOST_FILES))
    .replace("%(rows)d", str(_MOST_ROWS)),
)


def read_in_driver(jvm: Jvm) -> None:
    """Let a session's driver read few rows of our scans by itself."""
    add_strategy(jvm, _STRATEGY)
