"""A table that is being upserted while sessions of Hive query it: each answer is that of one commit.

`HUDI_CATALOG_CLIENTS` says how many sessions, and `HUDI_CATALOG_HISTORIES` how often with a new table.
"""

import os

import pytest

from tests.engines.hive_engine import ON_TEZ, OWN_SCANS
from tests.engines.hive_world import World
from tests.engines.live_table import COMMITS, STATE, Client, end, never_back, rows, states
from tests.support.tpch_tables import Layout, write
from tests.support.waiting import until

pytestmark = pytest.mark.engine

# each is a separate session: those on Tez, and those that the server answers itself
SESSIONS = int(os.environ.get("HUDI_CATALOG_CLIENTS", "16"))
JOINING, ON_TEZ_SESSIONS = 1, SESSIONS // 4
IN_SERVER = SESSIONS - ON_TEZ_SESSIONS - JOINING
HISTORIES = int(os.environ.get("HUDI_CATALOG_HISTORIES", "1"))
JOINED = "SELECT count(*), sum(a.version - b.version) FROM live AS a JOIN live AS b ON a.id = b.id WHERE a.id < 5"
LISTED = "SELECT id, version FROM live"


def summed(rows_of_state: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """What `STATE` asks for, of all rows."""
    versions = [version for _, version in rows_of_state]
    return [(len(rows_of_state), sum(versions), sum(key * version for key, version in rows_of_state), max(versions))]


@pytest.mark.parametrize("history", range(HISTORIES))
def test_sessions_each_see_one_commit_after_another(hive_world: World, history: int) -> None:
    world, schema = hive_world, f"live{history}"
    table = write(world.folder(schema), "live", rows(0, 1), Layout("id", "id", 4))
    world.register(schema, "live")
    clients = [Client(lambda: world.query(STATE, schema, ON_TEZ)) for _ in range(ON_TEZ_SESSIONS)]
    clients += [Client(lambda: summed(world.query(LISTED, schema))) for _ in range(IN_SERVER)]
    joining = [Client(lambda: world.query(JOINED, schema, {**ON_TEZ, **OWN_SCANS})) for _ in range(JOINING)]
    for client in (*clients, *joining):
        client.start()
    for version in range(1, COMMITS + 1):
        table.write("upsert", rows(version, 3))
        newest = states()[version]
        until(lambda newest=newest: any(newest in client.answers[-1:] for client in clients), 60)
    # a commit is seen by the next query, without another sync
    assert world.query(STATE, schema) == [states()[-1]]
    end((*clients, *joining))
    for client in clients:
        never_back(client)
    for client in joining:
        assert set(client.answers) == {(5, 0)}
