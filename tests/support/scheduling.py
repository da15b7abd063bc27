"""Which process runs which tests (`pytest -n`): those that share servers together, and no process idle at the end."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from xdist.scheduler import LoadScopeScheduling

from tests.support.turns import release_of

Node = TypeVar("Node")

# Modules whose tests share servers, or what is read of all the code; the first pattern counts.
_GROUPS = (
    ("contracts", re.compile("contracts/")),
    ("trino", re.compile("engines/test_(trino|presto|engine_servers)")),
    ("hive", re.compile("engines/test_(hive|local_metastore)")),
    ("apache", re.compile("engines/test_(apache|compacted|crash_interop|hbase|killed_writer|record_index)")),
)


def unit_of(nodeid: str) -> str:
    """What one process runs at a stretch: a module; with Apache Hudi, the tests of a module with one release."""
    file = nodeid.partition("::")[0]
    # each release of Apache Hudi is a server of its own
    release = release_of(nodeid) if group_of(file) == "apache" else None
    return f"{file}@{release}" if release else file


def group_of(unit: str) -> str | None:
    """What the servers of a unit are called; None where it shares none."""
    group = next((group for group, pattern in _GROUPS if pattern.search(unit)), None)
    return "@".join([group, *unit.split("@")[1:]]) if group else None


def next_unit(units: Sequence[str], node: Node, owners: Mapping[str, Node], nodes: Collection[Node]) -> str:
    """What a process runs next of the units that wait.

    First what uses servers that it has started, then what uses no server or one that nobody has started. Only at the
    end does it start servers that another process has too, for the unit that would have come last there.
    """

    def owner(unit: str) -> Node | None:
        process = owners.get(group_of(unit) or "")
        return process if process in nodes else None

    own = (unit for unit in units if owner(unit) == node)
    free = (unit for unit in units if owner(unit) is None)
    return next(own, None) or next(free, None) or units[-1]


class GroupScheduling(LoadScopeScheduling):
    """Shares out units in the order in which they were collected, but for `next_unit`."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self._owners: dict[str, Any] = {}

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        unit = next_unit(list(self.workqueue), node, self._owners, self.nodes)
        group = group_of(unit)
        if group and self._owners.get(group) not in self.nodes:
            self._owners[group] = node
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)
