"""A table that is upserted while clients query it: what each commit writes, and what a query may answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pyarrow as pa

ROWS = 600
COMMITS = 10
STATE = "SELECT count(*), sum(version), sum(version * id), max(version) FROM live"


def rows(version: int, step: int) -> pa.Table:
    """What a commit writes: every `step`th row, and one row that no commit before it wrote."""
    ids = [*range(version % step, ROWS, step), ROWS + version]
    return pa.table({"id": pa.array(ids, pa.int64()), "version": pa.array([version] * len(ids), pa.int64())})


def states() -> list[tuple[int, int, int, int]]:
    """The answer after each commit."""
    versions: dict[int, int] = {}
    answers = []
    for version in range(COMMITS + 1):
        for key in rows(version, 1 if version == 0 else 3)["id"].to_pylist():
            versions[key] = version
        total, weighted = sum(versions.values()), sum(key * value for key, value in versions.items())
        answers.append((len(versions), total, weighted, max(versions.values())))
    return answers


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


def end(clients: Sequence[Client], seconds: float = 60.0) -> None:
    """Let clients finish what they ask for; each must have got answers and no error."""
    for client in clients:
        client.ending.set()
    for client in clients:
        client.join(seconds)
        assert not client.is_alive(), "a client hangs"
        assert client.error is None, repr(client.error)
        assert client.answers


def never_back(client: Client) -> None:
    """Every answer is that of a commit, and none of an older commit than the answer before it."""
    allowed = states()
    order = [allowed.index(answer) for answer in client.answers]  # type: ignore[arg-type]
    assert order == sorted(order), "a client went back in time"
