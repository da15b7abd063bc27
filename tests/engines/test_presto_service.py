"""A real Presto 0.287 reads the same service as Trino does."""

from collections.abc import Callable, Iterator

import pytest

from hudi_catalog.trino.serve import TrinoSettings, catalog_lines, running_trino
from tests.engines.answers import DuckDb, rows_agree
from tests.engines.trino_filters import Filters, table_of_kinds
from tests.engines.trino_world import OPTIONS, planned
from tests.support.tpch_tables import Layout, write
from tools.engines.presto import PrestoServer

pytestmark = pytest.mark.engine

COLUMNS = "id, small, big, ratio, price, name, flag, region"
FILTERS = [Filters(seed).draw() for seed in range(1000, 1030)]


class Served:
    """Presto over the service, and DuckDB over the files."""

    def __init__(self, presto: PrestoServer, duckdb: DuckDb, log: object) -> None:
        self.presto = presto
        self.duckdb = duckdb
        self.log = log

    def query(self, sql: str) -> list[list[object]]:
        return self.presto.query(sql, catalog="served", schema="kinds")


@pytest.fixture(scope="module")
def served(start_presto: Callable[..., PrestoServer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    warehouse = tmp_path_factory.mktemp("presto-warehouse")
    table = write(warehouse / "kinds", "kinds", table_of_kinds(), Layout("id", "id", 8, "region"))
    table.write("upsert", table_of_kinds().slice(100, 300))
    options = {**OPTIONS, "hoodie.catalog.trino.index.joins": "*"}
    with running_trino(TrinoSettings(str(warehouse), options=options)) as service:
        lines = catalog_lines("127.0.0.1", service.port, presto=True)
        properties = dict(line.split("=", 1) for line in lines)
        yield Served(start_presto(served=properties), DuckDb.of_warehouse(warehouse / "kinds"), service.log)


def test_presto_lists_and_describes(served: Served) -> None:
    assert served.query("SHOW SCHEMAS") == [["information_schema"], ["kinds"]]
    assert served.query("SHOW TABLES") == [["kinds"]]
    assert [row[0] for row in served.query("DESCRIBE kinds")] == list(table_of_kinds().column_names)


def test_presto_reads_every_row(served: Served) -> None:
    rows = served.query(f"SELECT {COLUMNS} FROM kinds")
    assert rows_agree(rows, served.duckdb.query(f"SELECT {COLUMNS} FROM kinds"), slack=1e-9) == ""
    ours = served.query("SELECT id, CAST(day AS varchar), to_unixtime(moment) FROM kinds")
    theirs = served.duckdb.query("SELECT id, CAST(day AS varchar), epoch_ms(moment) / 1000 FROM kinds")
    assert rows_agree(ours, theirs, slack=1e-6) == ""


def test_presto_filters(served: Served) -> None:
    wrong = []
    for text in FILTERS:
        sql = f"SELECT id FROM kinds WHERE {text}"
        difference = rows_agree(served.query(sql), served.duckdb.query(sql))
        wrong += [f"{text}: {difference}"] if difference else []
    assert wrong == []


def test_presto_sends_its_filter(served: Served) -> None:
    served.query("SELECT count(*) FROM kinds WHERE region = 'north'")
    assert planned(served.log, "kinds.kinds")[-1]["files_out"] == 8


def test_presto_joins_by_keys(served: Served) -> None:
    sql = "SELECT k.id, k.name FROM (VALUES (5), (77), (77), (900), (NULL)) AS p(k) JOIN {} AS k ON k.id = p.k"
    expected = served.duckdb.query(sql.format("kinds"))
    assert rows_agree(served.query(sql.format("kinds")), expected) == ""
