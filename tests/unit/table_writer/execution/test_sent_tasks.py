"""What a write sends to other processes: each task pickles, whatever was read, without the transaction."""

import functools
import io
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog import Table, create_table, open_table
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.commit.transaction import WriteTransaction
from table_writer.execution.local import LocalExecutor
from table_writer.timeline.heartbeat import Heartbeat
from tests.support.archived_tables import SHORT

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int64())])
LONG_LIFE = {
    **SHORT,
    "hoodie.clean.automatic": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.catalog.write.progress": "false",
}
PROCESSES = {"hoodie.catalog.executor.processes": "2"}

Options = dict[str, str]


def rows(first: int, count: int = 30, v: int = 0) -> pa.Table:
    ids = range(first, first + count)
    return pa.table([ids, [f"p{n % 2}" for n in ids], [v] * count], schema=SCHEMA)


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Folders of tables with an archive, by index; where the other argument is `saved`, with a savepoint, too."""

    @functools.cache
    def made(index: str, kind: str) -> Path:
        folder = tmp_path_factory.mktemp("lives")
        buckets = 2 if index == "BUCKET" else None
        table = create_table(
            folder, SCHEMA, record_key="id", partition_by="p", index=index, buckets=buckets, options=LONG_LIFE
        )
        for number in range(4):
            table.upsert(rows(10 * number, 15, v=number))
        if kind == "saved":
            table.savepoint()
        table.insert_overwrite(rows(500, 4))
        for number in range(3):
            table.upsert(rows(500, 15, v=number))
        assert table.client.timeline().archive.instants
        return folder

    return made


def lived(lives: Callable[[str, str], Path], folder: Path, index: str, kind: str) -> Table:
    shutil.copytree(lives(index, kind), folder / "t")
    return open_table(folder / "t", options=LONG_LIFE)


OPERATIONS: dict[str, Callable[[Table, Options], Any]] = {
    "upsert": lambda table, options: table.upsert(rows(500, 20, v=9), options),
    "insert": lambda table, options: table.insert(rows(600, 5), options),
    "delete": lambda table, options: table.delete("id > 507", options),
    "update": lambda table, options: table.update({"v": "v + 1"}, "id > 503", options=options),
    "move": lambda table, options: table.update({"p": "'p7'"}, "id = 505", options=options),
    "merge": lambda table, options: (
        table.merge(rows(505, 20, v=7), ["id", "p"])
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute(options=options)
    ),
    "overwrite": lambda table, options: table.insert_overwrite_table(rows(700), options),
    "cluster": lambda table, options: table.cluster(["v"], options=options),
    "resize": lambda table, options: table.resize(3, options=options),
    "split": lambda table, options: table.resize(4, options=options),
    "statistics": lambda table, options: table.build_index("column_stats", options),
    "filters": lambda table, options: table.build_index("bloom_filters", options),
    "record index": lambda table, options: table.bootstrap_index(options),
    "verification": lambda table, options: table.verify_index(options),
}
RESIZES = ("resize", "split")
ON_AN_INDEX = ("record index", "verification")
ENDS_WITH_PROCESSES = ("upsert", "delete", "update", "merge", "cluster", "resize")


class Sent:
    """What goes to other processes; `tasks` counts stages and shares."""

    def __init__(self) -> None:
        self.tasks = 0

    def through(self, content: Any) -> Any:
        """The content as another process gets it."""
        buffer = io.BytesIO()
        Watched(buffer).dump(content)
        self.tasks += 1
        return pickle.loads(buffer.getvalue())


class Watched(pickle.Pickler):
    def reducer_override(self, content: Any) -> Any:
        assert not isinstance(content, (WriteTransaction, Heartbeat)), "a task takes the transaction along"
        return NotImplemented


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Every stage and share of an executor in this process goes through a pickle."""
    journey, run = Sent(), LocalExecutor._run

    def through_pickles(self: LocalExecutor, shares: Iterable[Any], stage: Any, processes: int) -> Iterator[list[Any]]:
        arrived = journey.through(stage)
        return run(self, [journey.through(share) for share in shares], arrived, processes)

    monkeypatch.setattr(LocalExecutor, "_run", through_pickles)
    return journey


def fits(operation: str, index: str) -> bool:
    return operation not in RESIZES + ON_AN_INDEX or (operation in RESIZES) == (index == "BUCKET")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["saved", "archived"])
@pytest.mark.parametrize(
    ("index", "operation"),
    [(index, name) for index in ("BUCKET", "RECORD_INDEX") for name in OPERATIONS if fits(name, index)],
)
def test_tasks_pickle_whatever_the_driver_has_read(
    tmp_path: Path,
    lives: Callable[[str, str], Path],
    index: str,
    operation: str,
    kind: str,
    sent: Sent,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, plain = lived(lives, tmp_path, index, kind), TableClient.timeline

    def with_the_archive(*args: Any) -> Timeline:
        timeline = plain(*args)
        assert timeline.archive.instants
        return timeline

    monkeypatch.setattr(TableClient, "timeline", with_the_archive)
    sent.tasks = 0
    OPERATIONS[operation](table, {})
    assert sent.tasks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("index", "operation"),
    [(index, name) for index in ("BUCKET", "RECORD_INDEX") for name in ENDS_WITH_PROCESSES if fits(name, index)],
)
def test_processes_do_the_same_as_threads(
    tmp_path: Path, lives: Callable[[str, str], Path], index: str, operation: str
) -> None:
    contents = []
    for number, options in enumerate(({}, PROCESSES)):
        table = lived(lives, tmp_path / str(number), index, "saved")
        OPERATIONS[operation](table, dict(options))
        contents.append(table.scan(columns=SCHEMA.names).to_arrow().sort_by("id"))
    assert contents[0].num_rows
    assert contents[0].equals(contents[1])
