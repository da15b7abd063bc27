"""What comes before an index of a table is put to use, under the table's lock."""

from __future__ import annotations

from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.commit.rollback import roll_back_dead_runs, rollback_failed_writes_locked
from table_writer.metadata.writer import drop_unusable
from table_writer.services.clean import resume_cleans
from table_writer.timeline.options import FailedWrites, ProtocolOptions


def settle_before_index(client: TableClient, protocol: ProtocolOptions) -> Timeline:
    """Take back what dead writers left, and a metadata table that cannot be used; the timeline after that.

    Callers hold the table's lock.
    """
    if protocol.failed_writes is not FailedWrites.EAGER:  # building an index must not end live writers
        rollback_failed_writes_locked(client, protocol)
    roll_back_dead_runs(client, protocol)
    # cleans run under the lock, so that one which is pending now is a dead writer's
    resume_cleans(client, client.timeline())
    drop_unusable(client)
    return client.timeline()
