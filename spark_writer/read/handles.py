"""What one JVM offers to each query: classes of ours, compiled once, and names of its own, looked up once.

A call through py4j takes 0.05 ms on a quiet machine, and the look-up of a package name up to 1 ms, since py4j tries to
load a class of that name first. A query's planning waits for each, so what it does for each condition and file is done
in one call of a class in Java, which Janino compiles as Spark's own generated code.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

from py4j.java_gateway import JavaClass, JavaPackage

SOURCES: Final = "org.apache.spark.sql.execution.datasources"
PLANNING: Final = "HudiPlanning"
# Numbers are as a DataInput has them; a text is its length in bytes, and its UTF-8.
_PLANNING: Final = """
import java.io.*;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.internal.SQLConf;

public final class HudiPlanning {

    // The session's time zone, and for each condition: JSON, SQL, text, and its columns' names and metadata.
    public byte[] conditions(scala.collection.Seq first, scala.collection.Seq second) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        write(out, SQLConf.get().sessionLocalTimeZone());
        out.writeInt(first.size() + second.size());
        for (scala.collection.Iterator each = first.iterator(); each.hasNext();) {
            out.write(condition((Expression) each.next()));
        }
        for (scala.collection.Iterator each = second.iterator(); each.hasNext();) {
            out.write(condition((Expression) each.next()));
        }
        return bytes.toByteArray();
    }

    private static byte[] condition(Expression one) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        try {
            write(out, one.toString());
            write(out, one.toJSON());
            write(out, one.sql());
        } catch (Throwable error) {
            bytes.reset();
            write(out, one.toString());
            write(out, "");
            write(out, String.valueOf(error.getMessage()));
        }
        scala.collection.Seq columns = one.references().toSeq();
        out.writeInt(columns.size());
        for (scala.collection.Iterator each = columns.iterator(); each.hasNext();) {
            Attribute column = (Attribute) each.next();
            write(out, column.name());
            write(out, column.metadata().json());
        }
        return bytes.toByteArray();
    }

    // A PartitionPath for each row of values, at no place.
    public Object paths(Object[] rows) {
        org.apache.hadoop.fs.Path nowhere = new org.apache.hadoop.fs.Path("file:/none");
        Object[] made = new Object[rows.length];
        for (int place = 0; place < made.length; place++) {
            made[place] = new PartitionPath((InternalRow) rows[place], nowhere);
        }
        return org.apache.spark.api.python.PythonUtils.toSeq(java.util.Arrays.asList(made));
    }

    private static void write(DataOutputStream out, String text) throws IOException {
        byte[] bytes = text.getBytes("UTF-8");
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    // The last column, a number, of each partition that meets all filters.
    public byte[] matching(InMemoryFileIndex partitions, %(sequence)s filters, int last) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        %(sequence)s none = scala.collection.immutable.Nil$.MODULE$;
        for (scala.collection.Iterator each = partitions.listFiles(filters, none).iterator(); each.hasNext();) {
            out.writeInt(((PartitionDirectory) each.next()).values().getInt(last));
        }
        return bytes.toByteArray();
    }
}
"""


class Names:
    """A package or class of a JVM, whose members are looked up once.

    Only constants may be read through it: a static field's value is remembered, too.
    """

    def __init__(self, named: Any) -> None:
        self._named = named

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._named, name)
        if isinstance(value, JavaClass | JavaPackage):
            value = Names(value)
        self.__dict__[name] = value
        return value

    def __call__(self, *arguments: Any) -> Any:
        """A new object of the class."""
        return self._named(*arguments)


class Handles:
    """What one JVM offers to each query; see `handles_of`.

    Attributes:
        root: its packages.
        planning: a `HudiPlanning`.
    """

    def __init__(self, gateway: Any) -> None:
        self.gateway = gateway
        self.root: Any = Names(gateway.jvm)
        self.lookup: Any = self.root.java.lang.invoke.MethodHandles.publicLookup()
        self._constructors: dict[str, Any] = {}
        planning = self.compiled(PLANNING, _PLANNING, f"{SOURCES}.InMemoryFileIndex")
        self.planning = planning.newInstance(self.array("java.lang.Object", []))

    def interface(self, kind: Any, handle: Any) -> Any:
        """An object of an interface of Java with one method, which a handle implements."""
        return self.root.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(kind, handle)

    def compiled(self, name: str, source: str, beside: str, **words: str) -> Any:
        """The constructor without arguments of a class in Java, compiled once, by Janino as Spark's own generated code.

        Args:
            name: of the class, which is in no package.
            source: its text, in which `%(sequence)s` and `%(indexed)s` are the sequences of Spark's methods: those of
                Scala 2.12 are in another package than those of 2.13.
            beside: a class whose loader knows those that the text names: one of Spark's, or of those compiled before.
            words: that the text has in the same way.
        """
        if name not in self._constructors:
            self._constructors[name] = self._compiled(name, source % {**self._sequences(), **words}, beside)
        return self._constructors[name]

    def _sequences(self) -> dict[str, str]:
        node = self.type_of("org.apache.spark.sql.catalyst.trees.TreeNode")
        name = str(node.getMethod("children", self.array("java.lang.Class", [])).getReturnType().getName())
        return {"sequence": name, "indexed": f"{name.removesuffix('Seq')}IndexedSeq"}

    def _compiled(self, name: str, source: str, beside: str) -> Any:
        compiler = self.root.org.codehaus.janino.SimpleCompiler()
        made = self._constructors.get(beside)
        compiler.setParentClassLoader((made.getDeclaringClass() if made else self.type_of(beside)).getClassLoader())
        compiler.cook(source)
        return compiler.getClassLoader().loadClass(name).getConstructor(self.array("java.lang.Class", []))

    def type_of(self, name: str) -> Any:
        """A class."""
        return self.root.java.lang.Class.forName(name)

    def signature(self, result: Any, *arguments: Any) -> Any:
        """A MethodType."""
        kinds = self.array("java.lang.Class", list(arguments))
        return self.root.java.lang.invoke.MethodType.methodType(result, kinds)

    def array(self, name: str, elements: list[Any]) -> Any:
        """An array of a class, with these elements."""
        kind: Any = self.root
        for part in name.split("."):
            kind = getattr(kind, part)
        array = self.gateway.new_array(kind, len(elements))
        for position, element in enumerate(elements):
            array[position] = element
        return array


_HANDLES: weakref.WeakKeyDictionary[Any, Handles] = weakref.WeakKeyDictionary()


def handles_of(gateway: Any) -> Handles:
    """The handles of a gateway's JVM, made at first."""
    handles = _HANDLES.get(gateway)
    if handles is None:
        handles = _HANDLES.setdefault(gateway, Handles(gateway))
    return handles
