"""Tables of unusual shapes, and statements that engines run on them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tests.engines.trino_filters import table_of_kinds
from tests.support.tpch_tables import Layout, write

WIDTH = 500
TABLES = ("plain", "wide", "empty", "grown")
STATEMENTS = [
    "SELECT count(*) FROM wide",
    "SELECT c499, c3 FROM wide WHERE c450 BETWEEN 20450 AND 30450 AND c2 LIKE 'v3%'",
    "SELECT sum(c300), max(c301), min(c302) FROM wide WHERE c0 = 7000",
    "SELECT c1 FROM wide WHERE c0 = 7001",
    "SELECT 1 FROM wide WHERE c0 < 5000",
    "SELECT count(*), count(day), sum(small) FROM grown WHERE day IS NULL OR small > 0",
    "SELECT id, day FROM grown WHERE day >= DATE '2024-02-01'",
    "SELECT region, count(*) FROM plain GROUP BY region",
    "SELECT DISTINCT region FROM plain WHERE region LIKE 'w%'",
    "SELECT count(*) FROM plain WHERE region = 'nowhere'",
    "SELECT id FROM plain WHERE id = 5 AND id = 6",
    "SELECT id FROM plain WHERE false",
    "SELECT a.id, b.id FROM plain AS a JOIN plain AS b ON a.id = b.id + 1 WHERE a.region = 'north' AND b.small = 3",
    "SELECT id FROM plain WHERE small IN (SELECT small FROM plain WHERE id < 4)",
    "SELECT id FROM plain WHERE day = (SELECT max(day) FROM plain WHERE region = 'east')",
    "WITH n AS (SELECT * FROM plain WHERE region = 'north') SELECT count(*), max(id) FROM n WHERE small < 0",
    "SELECT id FROM plain WHERE region = 'north' UNION SELECT id FROM plain WHERE region = 'south' AND small = 1",
    "SELECT p.id, g.day FROM plain AS p LEFT JOIN grown AS g ON p.id = g.id AND g.small > 0 WHERE p.id < 50",
]


def build(folder: Path) -> None:
    """A plain table, one of 500 columns, an empty one, and one whose schema grew."""
    rows = table_of_kinds()
    write(folder, "plain", rows, Layout("id", "id", 8, "region"))
    write(folder, "wide", wide(300), Layout("c0", "c0", 4))
    write(folder, "empty", rows.slice(0, 0), Layout("id", "id", 2))
    grown = write(folder, "grown", rows.select(["id", "small", "name"]).slice(0, 600), Layout("id", "id", 4))
    wider = rows.select(["id", "small", "name", "day"]).slice(500, 300)
    grown.write("upsert", wider, {"hoodie.datasource.write.reconcile.schema": "true"})


def wide(rows: int) -> pa.Table:
    """Whole numbers, fractions and texts by turns."""
    makers = (lambda n, i: n * 1000 + i, lambda n, i: n / 4 + i, lambda n, i: f"v{n % 7}_{i}")
    columns = {f"c{i}": [makers[i % 3](n, i) for n in range(rows)] for i in range(WIDTH)}
    return pa.table(columns)
