"""Strategies of Spark's planner that are added to a session.

A strategy is a class, and py4j serves interfaces; so it is compiled by Janino, by which Spark compiles its own
generated code.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Final

from spark_writer.read.jvm import Jvm

_STRATEGY: Final = "org.apache.spark.sql.execution.SparkStrategy"
_PLAN: Final = "org.apache.spark.sql.execution.SparkPlan"
_COMPILED: Final[weakref.WeakKeyDictionary[Any, dict[str, Any]]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Strategy:
    """A strategy as Java text.

    Attributes:
        name: of the class.
        source: its text, in which `%(strategy)s` is its superclass, and `%(sequence)s` and `%(indexed)s` are the
            sequences of Spark's methods: those of Scala 2.12 are in another package than those of 2.13.
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
    both.add(_constructor(jvm, strategy).newInstance(jvm.objects([])))
    getattr(methods, "extraStrategies_$eq")(jvm.root.PythonUtils.toSeq(both))


def _constructor(jvm: Jvm, strategy: Strategy) -> Any:
    compiled = _COMPILED.setdefault(jvm.made, {})
    if strategy.name not in compiled:
        kind, plan = jvm.made.type_of(_STRATEGY), jvm.made.type_of(_PLAN)
        [children] = (one for one in plan.getMethods() if one.getName() == "withNewChildrenInternal")
        source = strategy.source % {
            "strategy": _STRATEGY,
            "sequence": next(one.getReturnType() for one in kind.getMethods() if one.getName() == "apply").getName(),
            "indexed": children.getParameterTypes()[0].getName(),
        }
        compiled[strategy.name] = jvm.made.compiled(strategy.name, source, kind)
    return compiled[strategy.name]
