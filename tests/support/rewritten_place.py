"""A table that is registered for Trino, and statements that the gateway rewrites for it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from catalog import Table
from hudi_catalog.gateway.options import (
    GatewayOptions,
)
from hudi_catalog.gateway.rewrite import Rewriter, Rewritten
from hudi_catalog.gateway.statement import SessionNames
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.trino_sync import sync_to_trino
from hudi_catalog.metastore.trino_tables import TrinoTables
from hudi_catalog.server.query_log import QueryLog
from tests.support.local_writes import LocalTable

HERE = SessionNames("hive", "db")
PIN = r'"hive"\."db__snapshots"\."trips__\d+__[0-9a-f]+"'


@dataclass
class Place:
    """A table `trips` of four partitions, registered as `db.trips`, with `db.other` beside it."""

    written: LocalTable
    metastore: FileMetastore
    tables: TrinoTables
    log: QueryLog

    def rewrite(
        self, sql: str, session: SessionNames = HERE, options: Mapping[str, str] | None = None, **more: Any
    ) -> Rewritten:
        return Rewriter(self.tables, GatewayOptions.parse(options), self.log).rewrite(sql, session, **more)

    def kept(self, sql: str, **more: Any) -> list[set[str]]:
        """The partitions whose files a rewritten statement lists, place by place."""
        rewritten = self.rewrite(sql, **more)
        assert rewritten.changed, f"{rewritten.reason}: {rewritten.detail}"
        lists = re.findall(r'"\$path" IN \(([^)]*)\)|WHERE (false)\)', rewritten.sql)
        return [set(re.findall(r"/trips/(d \d%)/", listed)) for listed, _ in lists]


def rows(first: int, count: int) -> pa.Table:
    keys = list(range(first, first + count))
    return pa.table(
        {"k": pa.array(keys, pa.int64()), "day": [f"d {key % 4}%" for key in keys], "x": [float(key) for key in keys]}
    )


def make_place(folder: Path) -> Place:
    """Tables `db.trips` and `db.other`, of which a metastore of files knows."""
    metastore = FileMetastore(str(folder / "metastore"))
    for name in ("other", "trips"):
        options: dict[str, Any] = {
            "hoodie.table.name": name,
            "hoodie.datasource.write.recordkey.field": "k",
            "hoodie.datasource.write.partitionpath.field": "day",
            "hoodie.bucket.index.num.buckets": "1",
        }
        written = LocalTable.create(str(folder / f"db/{name}"), rows(0, 1).schema, options)
        written.write("insert", rows(0, 40))
        sync_to_trino(Table.open(written.client.storage.uri), metastore, SyncOptions(database="db"))
    return Place(written, metastore, TrinoTables(metastore), QueryLog())
