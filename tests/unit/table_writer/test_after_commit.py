"""The listeners that a write calls after its commit."""

import pickle
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from table_format.errors import AfterCommitError, MetastoreError, OptionError
from table_format.table.client import TableClient
from table_writer import after_commit
from table_writer.after_commit import GROUP, HIVE_SYNC
from table_writer.plan import option_registry
from tests.support.local_writes import LocalTable

ROWS = pa.table({"k": ["a", "b"], "v": [1, 2]})
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "k",
    "hoodie.bucket.index.num.buckets": "1",
}
ENABLED = {option_registry.HIVE_SYNC.key: "true"}


class Tool:
    """A tool that remembers its calls."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[Any] = []

    def prepare(
        self, client: TableClient, options: Mapping[str, str], settings: Callable[[str], str | None]
    ) -> Callable[[str], str]:
        before = len(client.timeline().writes)
        self.calls.append(("prepare", before, options["hoodie.table.name"], settings("hive.metastore.uris")))
        return self.follow

    def follow(self, instant: str) -> str:
        self.calls.append(("follow", instant))
        if self.error is not None:
            raise self.error
        return "done"


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes tools by their names the ones that are installed."""

    def installed(**tools: Tool) -> None:
        named = {name.replace("__", "."): tool for name, tool in tools.items()}

        def points(group: str, name: str | None = None) -> Any:
            assert group == GROUP
            if name is None:
                return SimpleNamespace(names=set(named))
            return [SimpleNamespace(load=lambda: named[name].prepare)] if name in named else []

        monkeypatch.setattr(after_commit, "entry_points", points)

    return installed


def hive(tool: Tool) -> dict[str, Tool]:
    return {HIVE_SYNC.replace(".", "__"): tool}


def table(path: Path) -> LocalTable:
    return LocalTable.create(str(path / "t"), ROWS.schema, OPTIONS)


def instants(written: LocalTable) -> list[str]:
    return [entry.time for entry in written.client.timeline().writes]


def test_ours_is_installed_under_apaches_name() -> None:
    (entry_point,) = set(entry_points(group=GROUP, name=HIVE_SYNC))
    assert entry_point.value == "hudi_catalog.metastore.after_commit:prepare"


def test_nothing_is_called_unless_wanted(tmp_path: Path, install: Any) -> None:
    tool = Tool()
    install(**hive(tool))
    written = table(tmp_path)
    written.write("insert", ROWS)
    written.write("insert", ROWS, {option_registry.HIVE_SYNC.key: "false", option_registry.SYNC_TOOLS.key: HIVE_SYNC})
    assert tool.calls == []


@pytest.mark.parametrize(
    "wanted",
    [
        ENABLED,
        {option_registry.META_SYNC.key: "true"},
        {option_registry.META_SYNC.key: "true", option_registry.HIVE_SYNC.key: "true"},
        {option_registry.META_SYNC.key: "true", option_registry.SYNC_TOOLS.key: HIVE_SYNC},
    ],
)
def test_it_is_asked_before_the_write_and_called_once_after_each_commit(
    tmp_path: Path, install: Any, wanted: dict[str, str]
) -> None:
    tool = Tool()
    install(**hive(tool))
    written = table(tmp_path)
    for operation in ("insert", "upsert", "delete"):
        written.write(operation, ROWS, wanted)
    done = instants(written)
    expected: list[Any] = []
    for number, instant in enumerate(done):
        expected += [("prepare", number, "t", None), ("follow", instant)]
    assert tool.calls == expected


def test_other_tools_run_by_their_names(tmp_path: Path, install: Any) -> None:
    ours, theirs = Tool(), Tool()
    install(**hive(ours), my__Tool=theirs)
    wanted = {option_registry.META_SYNC.key: "true", option_registry.SYNC_TOOLS.key: "my.Tool"}
    table(tmp_path).write("insert", ROWS, wanted)
    assert (len(ours.calls), len(theirs.calls)) == (0, 2)
    table(tmp_path / "both").write("insert", ROWS, wanted | ENABLED)
    assert (len(ours.calls), len(theirs.calls)) == (2, 4)


def test_a_tool_that_is_not_installed_stops_the_write_before_it_begins(tmp_path: Path, install: Any) -> None:
    install(my__Tool=Tool())
    written = table(tmp_path)
    with pytest.raises(OptionError, match=r"no org\.apache\.hudi\.hive\.HiveSyncTool is installed; .* my\.Tool"):
        written.write("insert", ROWS, ENABLED)
    assert list((tmp_path / "t/.hoodie").glob("2*")) == []


def test_options_that_a_tool_refuses_stop_the_write_before_it_begins(tmp_path: Path) -> None:
    written = table(tmp_path)
    with pytest.raises(OptionError, match="mode: 'jdbc' is not supported"):
        written.write("insert", ROWS, ENABLED | {"hoodie.datasource.hive_sync.mode": "jdbc"})
    assert list((tmp_path / "t/.hoodie").glob("2*")) == []


@pytest.mark.parametrize("error", [MetastoreError("no metastore"), KeyError("a fault of the tool")])
def test_a_failure_leaves_the_commit_and_says_so(tmp_path: Path, install: Any, error: Exception) -> None:
    failing, other = Tool(error), Tool()
    install(**hive(failing), my__Tool=other)
    written = table(tmp_path)
    wanted = ENABLED | {option_registry.META_SYNC.key: "true", option_registry.SYNC_TOOLS.key: f"{HIVE_SYNC},my.Tool"}
    with pytest.raises(AfterCommitError, match="is complete, do not repeat it; what was to follow failed: ") as raised:
        written.write("insert", ROWS, wanted)
    assert str(error) in str(raised.value)
    assert raised.value.__cause__ is error
    assert instants(written) == [raised.value.instant]
    assert other.calls[-1] == ("follow", raised.value.instant), "one tool's failure must not keep another from its work"
    copied = pickle.loads(pickle.dumps(raised.value))
    assert (str(copied), copied.instant) == (str(raised.value), raised.value.instant)
