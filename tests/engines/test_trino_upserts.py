"""A table that is being upserted while clients query it: each answer is that of one commit."""

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.engines.tpch_tables import Layout, fast_writes, write
from tests.engines.trino_world import World

pytestmark = pytest.mark.engine

SCHEMA = "live"
ROWS = 600
COMMITS = 10
CLIENTS = 4
STATE = "SELECT count(*), sum(version), sum(version * id), max(version) FROM live"


def rows(version: int, step: int) -> pa.Table:
    """What a commit writes: every `step`th row, and one row that no commit before it wrote."""
    ids = [*range(version % step, ROWS, step), ROWS + version]
    return pa.table({"id": pa.array(ids, pa.int64()), "version": pa.array([version] * len(ids), pa.int64())})


def states() -> list[tuple[int, int, int, int]]:
    """The answer after each commit."""
    versions: dict[int, int] = {}
    found = []
    for version in range(COMMITS + 1):
        for key in rows(version, 1 if version == 0 else 3)["id"].to_pylist():
            versions[key] = version
        total, weighted = sum(versions.values()), sum(key * value for key, value in versions.items())
        found.append((len(versions), total, weighted, max(versions.values())))
    return found


class Client(threading.Thread):
    """Asks again and again, and keeps the answers."""

    def __init__(self, ask: Callable[[], list[tuple[int, ...]]]) -> None:
        super().__init__(daemon=True)
        self.ask = ask
        self.answers: list[tuple[int, ...]] = []
        self.error: BaseException | None = None
        self.ending = threading.Event()

    def run(self) -> None:
        try:
            while not self.ending.is_set():
                self.answers += self.ask()
        except BaseException as error:
            self.error = error


def test_each_answer_is_that_of_one_commit(world: World) -> None:
    layout = Layout("id", "id", 4)
    table = write(world.folder(SCHEMA), "live", rows(0, 1), layout)
    world.register(SCHEMA, "live")
    joined = "SELECT count(*), sum(a.version - b.version) FROM live AS a JOIN live AS b ON a.id = b.id WHERE a.id < 5"
    clients = [Client(lambda: world.through_service(STATE, SCHEMA)) for _ in range(CLIENTS)]
    clients += [Client(lambda: world.through_gateway(STATE, SCHEMA)) for _ in range(CLIENTS - 1)]
    joining = Client(lambda: world.through_gateway(joined, SCHEMA))
    for client in (*clients, joining):
        client.start()
    with fast_writes():
        for version in range(1, COMMITS + 1):
            table.write("upsert", rows(version, 3))
    # a commit is seen by the next query, without another sync
    assert world.through_service(STATE, SCHEMA) == [states()[-1]]
    assert world.through_gateway(STATE, SCHEMA) == [states()[-1]]
    for client in (*clients, joining):
        client.ending.set()
    for client in (*clients, joining):
        client.join(60)
        assert client.error is None
        assert client.answers
    allowed = states()
    for client in clients:
        order = [allowed.index(answer) for answer in client.answers]
        assert order == sorted(order), "a client went back in time"
    assert set(joining.answers) == {(5, 0)}
