"""Functions of the JVM that are composed of method handles once, and names of the JVM that are looked up once.

A call through py4j takes 0.05 ms on a quiet machine, and the look-up of a package name up to 1 ms, since py4j tries to
load a class of that name first. A query's planning waits for each.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

from py4j.java_gateway import JavaClass, JavaPackage

SOURCES: Final = "org.apache.spark.sql.execution.datasources"
ROW: Final = "org.apache.spark.sql.catalyst.InternalRow"
STATUS: Final = "org.apache.hadoop.fs.FileStatus"
_OBJECTS: Final = "[Ljava.lang.Object;"


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
        directory: of `PartitionDirectory.apply`, from (Object[] of InternalRow, int[], FileStatus[][], int i) to the
            directory of the row at the i-th position and of the i-th files.
        path: of a new `PartitionPath`, from (Object[] of InternalRow, int i) to the i-th row's, at no place.
    """

    def __init__(self, gateway: Any) -> None:
        self.gateway = gateway
        self.root: Any = Names(gateway.jvm)
        self.lookup: Any = self.root.java.lang.invoke.MethodHandles.publicLookup()
        self._compose: Any = self.root.java.lang.invoke.MethodHandles
        self._int: Any = self.root.java.lang.Integer.TYPE
        self._interfaces = {name: self.type_of(f"java.util.function.{name}") for name in _FUNCTIONS}
        self._numbers: dict[int, Any] = {}
        self.directory = self._directory()
        self.path = self._path()

    def number(self, last: int) -> Any:
        """From (Object[] of PartitionDirectory, int i) to the i-th one's value at a position, an int."""
        if last not in self._numbers:
            directory, row = self.type_of(f"{SOURCES}.PartitionDirectory"), self.type_of(ROW)
            values = self.lookup.findVirtual(directory, "values", self.signature(row))
            get = self.lookup.findVirtual(row, "getInt", self.signature(self._int, self._int))
            number = self._compose.insertArguments(get, 1, self.array("java.lang.Object", [last]))
            one = self._element(_OBJECTS, directory)
            for step in (values, number):
                one = self._compose.filterReturnValue(one, step)
            self._numbers[last] = one
        return self._numbers[last]

    def applied(self, interface: str, function: Any, *first: Any) -> Any:
        """A function with values for all arguments but the last, as an interface of `java.util.function`."""
        for value in first:
            function = function.bindTo(value)
        return self.interface(self._interfaces[interface], function)

    def interface(self, kind: Any, handle: Any) -> Any:
        """An object of an interface of Java with one method, which a handle implements."""
        return self.root.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(kind, handle)

    def compiled(self, name: str, source: str, beside: Any) -> Any:
        """The constructor without arguments of a class in Java, compiled by Janino as Spark's own generated code is.

        Args:
            name: of the class, which is in no package.
            source: its text.
            beside: a class whose loader knows those that the text names.
        """
        compiler = self.root.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(beside.getClassLoader())
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

    def zeros(self, count: int) -> Any:
        """An int[]."""
        return self.gateway.new_array(self.root.int, count)

    def _directory(self) -> Any:
        directory, row, files = self.type_of(f"{SOURCES}.PartitionDirectory"), self.type_of(ROW), f"[L{STATUS};"
        statuses = self.type_of(files)
        make = self.lookup.findStatic(directory, "apply", self.signature(directory, row, statuses))
        position = self._element("[I", self._int)
        values = self._compose.collectArguments(self._element(_OBJECTS, row), 1, position)
        both = self._compose.collectArguments(make, 1, self._element(f"[{files}", statuses))
        both = self._compose.collectArguments(both, 0, values)  # rows, positions, i, files, i
        kinds = [self.type_of(name) for name in (_OBJECTS, "[I", f"[{files}")]
        order = self.zeros(5)
        for place, argument in enumerate((0, 1, 3, 2, 3)):
            order[place] = argument
        return self._compose.permuteArguments(both, self.signature(directory, *kinds, self._int), order)

    def _path(self) -> Any:
        path, row = self.type_of("org.apache.hadoop.fs.Path"), self.type_of(ROW)
        void, kind = self.root.java.lang.Void.TYPE, self.type_of(f"{SOURCES}.PartitionPath")
        make = self.lookup.findConstructor(kind, self.signature(void, row, path))
        nowhere = self.array("java.lang.Object", [self.root.org.apache.hadoop.fs.Path("file:/none")])
        of_row = self._compose.insertArguments(make, 1, nowhere)
        return self._compose.collectArguments(of_row, 0, self._element(_OBJECTS, row))

    def _element(self, array: str, kind: Any) -> Any:
        """The function from an array and a position to an element, as one of a kind."""
        of_array = self.type_of(array)
        getter = self._compose.arrayElementGetter(of_array)
        return getter.asType(self.signature(kind, of_array, self._int))


_FUNCTIONS: Final = ("IntFunction", "IntUnaryOperator")
_HANDLES: weakref.WeakKeyDictionary[Any, Handles] = weakref.WeakKeyDictionary()


def handles_of(gateway: Any) -> Handles:
    """The handles of a gateway's JVM, made at first."""
    handles = _HANDLES.get(gateway)
    if handles is None:
        handles = _HANDLES.setdefault(gateway, Handles(gateway))
    return handles
