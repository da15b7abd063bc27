"""Strategies of Spark's planner that are added to a session.

A strategy is a class, and py4j serves interfaces; so it is compiled by Janino, by which Spark compiles its own
generated code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_writer.read.jvm import Jvm

_STRATEGY: Final = "org.apache.spark.sql.execution.SparkStrategy"


@dataclass(frozen=True)
class Strategy:
    """A strategy as Java text.

    Attributes:
        name: of the class.
        source: its text, as for `Handles.compiled`, in which `%(strategy)s` is its superclass.
    """

    name: str
    source: str


def add_strategy(jvm: Jvm, strategy: Strategy) -> None:
    """Let a session's planner ask a strategy before its own; it does so once, however often this is called."""
    methods = jvm.java_session.experimental()
    present = methods.extraStrategies()
    if strategy.name in str(present.toString()):
        return
    both = jvm.root.java.util.ArrayList(jvm.root.scala.collection.JavaConverters.seqAsJavaList(present))
    made = jvm.made.compiled(strategy.name, strategy.source, _STRATEGY, strategy=_STRATEGY)
    both.add(made.newInstance(jvm.objects([])))
    getattr(methods, "extraStrategies_$eq")(jvm.root.PythonUtils.toSeq(both))
