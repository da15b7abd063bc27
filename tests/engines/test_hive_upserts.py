"""A table that is being upserted while sixteen sessions of Hive query it: each answer is that of one commit."""

import pytest

from tests.engines.hive_engine import ON_TEZ, OWN_SCANS
from tests.engines.hive_world import World
from tests.engines.live_table import COMMITS, STATE, Client, end, never_back, rows, states
from tests.support.tpch_tables import Layout, write
from tests.support.waiting import until

pytestmark = pytest.mark.engine

SCHEMA = "live"
# each is a separate session: those on Tez, and those that the server answers itself
ON_TEZ_SESSIONS, JOINING, IN_SERVER = 4, 1, 11
JOINED = "SELECT count(*), sum(a.version - b.version) FROM live AS a JOIN live AS b ON a.id = b.id WHERE a.id < 5"
LISTED = "SELECT id, version FROM live"


def summed(rows_of_state: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """What `STATE` asks for, of all rows."""
    versions = [version for _, version in rows_of_state]
    return [(len(rows_of_state), sum(versions), sum(key * version for key, version in rows_of_state), max(versions))]


def test_sixteen_sessions_each_see_one_commit_after_another(hive_world: World) -> None:
    world = hive_world
    table = write(world.folder(SCHEMA), "live", rows(0, 1), Layout("id", "id", 4))
    world.register(SCHEMA, "live")
    clients = [Client(lambda: world.query(STATE, SCHEMA, ON_TEZ)) for _ in range(ON_TEZ_SESSIONS)]
    clients += [Client(lambda: summed(world.query(LISTED, SCHEMA))) for _ in range(IN_SERVER)]
    joining = [Client(lambda: world.query(JOINED, SCHEMA, {**ON_TEZ, **OWN_SCANS})) for _ in range(JOINING)]
    for client in (*clients, *joining):
        client.start()
    for version in range(1, COMMITS + 1):
        table.write("upsert", rows(version, 3))
        before = sum(len(client.answers) for client in clients)
        until(lambda before=before: sum(len(client.answers) for client in clients) > before, 60)
    # a commit is seen by the next query, without another sync
    assert world.query(STATE, SCHEMA) == [states()[-1]]
    end((*clients, *joining))
    for client in clients:
        never_back(client)
    seen = {answer for client in clients for answer in client.answers}
    assert len(seen) > 2
    for client in joining:
        assert set(client.answers) == {(5, 0)}
