"""A table that is being upserted while clients query it: each answer is that of one commit.

`HUDI_CATALOG_CLIENTS` says how many clients each way in has, which CI keeps few.
"""

import os

import pytest

from tests.engines.live_table import COMMITS, STATE, Client, end, never_back, rows, states
from tests.engines.trino_world import World
from tests.support.tpch_tables import Layout, write

pytestmark = pytest.mark.engine

SCHEMA = "live"
CLIENTS = int(os.environ.get("HUDI_CATALOG_CLIENTS", "4"))


def test_each_answer_is_that_of_one_commit(world: World) -> None:
    layout = Layout("id", "id", 4)
    table = write(world.folder(SCHEMA), "live", rows(0, 1), layout)
    world.register(SCHEMA, "live")
    joined = "SELECT count(*), sum(a.version - b.version) FROM live AS a JOIN live AS b ON a.id = b.id WHERE a.id < 5"
    clients = [Client(lambda: world.through_service(STATE, SCHEMA)) for _ in range(CLIENTS)]
    clients += [Client(lambda: world.through_gateway(STATE, SCHEMA)) for _ in range(CLIENTS - 1)]
    clients += [Client(lambda: world.through_connector(STATE, SCHEMA)) for _ in range(CLIENTS)]
    joining = [Client(lambda ask=ask: ask(joined, SCHEMA)) for ask in (world.through_gateway, world.through_connector)]
    for client in (*clients, *joining):
        client.start()
    for version in range(1, COMMITS + 1):
        table.write("upsert", rows(version, 3))
    # a commit is seen by the next query, without another sync
    assert world.through_service(STATE, SCHEMA) == [states()[-1]]
    assert world.through_gateway(STATE, SCHEMA) == [states()[-1]]
    assert world.through_connector(STATE, SCHEMA) == [states()[-1]]
    end((*clients, *joining))
    for client in clients:
        never_back(client)
    for client in joining:
        assert set(client.answers) == {(5, 0)}
