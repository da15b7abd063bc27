"""A table with four writes, which restores and rollbacks take back."""

from collections.abc import Mapping

from table_format.table.client import TableClient
from tests.support import toy_table
from tests.support.toy_table import rows_of, upsert

KEEP = {"hoodie.clean.automatic": "false"}
#: keeps the newest commit only
LEAST = {"hoodie.cleaner.commits.retained": "1"}
EAGER = {**KEEP, "hoodie.clean.failed.writes.policy": "EAGER"}
#: four writes, and the rows after each
CHANGES: list[Mapping[tuple[str, int], Mapping[str, int]]] = [
    {("p=a", 0): {"k1": 1}, ("p=a", 1): {"k2": 2}},
    {("p=a", 0): {"k1": 10}, ("p=b", 0): {"k3": 3}},
    {("p=b", 0): {"k3": 30}},
    {("p=a", 0): {"k4": 4}, ("p=c", 1): {"k5": 5}},
]


def write_all(client: TableClient, options: Mapping[str, str] = KEEP) -> tuple[list[str], list[toy_table.Rows]]:
    """The four writes, and the rows after each."""
    states = []
    for changes in CHANGES:
        upsert(client, changes, options)
        states.append(rows_of(client.storage.uri))
    return times(client), states


def times(client: TableClient) -> list[str]:
    return [write.time for write in client.timeline().writes]
