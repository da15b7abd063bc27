"""Joins and groupings by buckets in real Trino: the same rows as without, no exchange, and refused where in doubt."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trino as client

from hudi_catalog.trino.serve import ServingTrino, TrinoSettings, running_trino
from tests.engines.answers import rows_agree
from tests.engines.connector_tables import options
from tests.engines.golden_rows import unpack
from tests.engines.trino_engine import Engine
from tests.support.local_writes import LocalTable
from tests.support.tpch_tables import Layout, write

pytestmark = pytest.mark.engine

EXTREMES = [-(2**63), 2**63 - 1, -1, 0, 10, -10]
#: Of a fragment whose rows go to the nodes that their values say.
BY_HASH = re.compile(r"Output partitioning: (?!SINGLE|BROADCAST)")
EVOLVE = {"hoodie.datasource.write.reconcile.schema": "true"}
PLAIN = {"hoodie.catalog.trino.plain.keys": "true"}
#: Tables of Apache Hudi whose slices have log files, and the count of buckets that their writers were given.
MERGE_ON_READ = {"v6_0150__mor_bkt": 2, "v9_1200__mor_bkt": 2}


class Buckets:
    """A warehouse of bucketed tables that Trino reads through our connector."""

    def __init__(self, engine: Engine, service: ServingTrino, folder: Path) -> None:
        self.engine = engine
        self.service = service
        self.folder = folder
        self.catalog = engine.connector_catalog(f"buckets_{service.port}", service.port)

    def query(
        self, sql: str, *, bucketed: bool = True, joins: str = "PARTITIONED", wait: str = "1s"
    ) -> list[tuple[Any, ...]]:
        session = {
            "join_distribution_type": joins,
            f"{self.catalog}.bucket_execution_enabled": str(bucketed).lower(),
            f"{self.catalog}.dynamic_filtering_wait_timeout": wait,
        }
        return self.engine.query(sql, catalog=self.catalog, schema="default", session_properties=session)

    def exchanges(self, sql: str, *, bucketed: bool = True) -> int:
        """How often a plan sends rows between nodes by a hash."""
        plan = "\n".join(row[0] for row in self.query(f"EXPLAIN (TYPE DISTRIBUTED) {sql}", bucketed=bucketed))
        return len(BY_HASH.findall(plan))


@pytest.fixture(scope="module")
def buckets(trino: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buckets]:
    folder = Path(tmp_path_factory.mktemp("buckets"))
    count = 4000
    customers = [EXTREMES[one % 6] if one % 50 == 0 else None if one % 31 == 0 else one % 400 for one in range(count)]
    facts = pa.table(
        {
            "customer": pa.array(customers, pa.int64()),
            "id": pa.array(range(count), pa.int64()),
            "day": [f"d{one % 3}" for one in range(count)],
            "amount": pa.array([one % 97 for one in range(count)], pa.int32()),
        }
    )
    write(folder, "facts", facts, Layout("customer,id", "customer", 8, "day"))
    # fewer buckets than rows need, and fewer customers than there are
    known = [*(one for one in range(400) if one % 3), *EXTREMES, 5000]
    named = pa.table({"customer": pa.array(known, pa.int64()), "name": [f"n{one}" for one in known]})
    write(folder, "customers", named.group_by(["customer", "name"]).aggregate([]), Layout("customer", "customer", 4))
    few = pa.table({"customer": pa.array([3], pa.int64()), "what": ["three"]})
    write(folder, "few", few, Layout("customer", "customer", 16))
    narrow = pa.table({"customer": pa.array(range(300), pa.int32()), "n": pa.array(range(300), pa.int32())})
    visits = write(folder, "visits", narrow, Layout("customer", "customer", 8))
    wide = pa.table({"customer": pa.array(range(250, 350), pa.int64()), "n": pa.array([1] * 100, pa.int32())})
    visits.write("upsert", wide, EVOLVE)
    days = [dt.date(1969, 12, 25) + dt.timedelta(days=one) for one in range(60)]
    for name, some in (("sun", days[:40]), ("rain", days[20:])):
        table = pa.table({"day": pa.array(some, pa.date32()), "hours": pa.array(range(40), pa.int32())})
        write(folder, name, table, Layout("day", "day", 4))
    trino.query("DROP TABLE IF EXISTS memory.default.callers")
    trino.query("CREATE TABLE memory.default.callers (customer bigint, calls integer)")
    values = ", ".join(f"({'NULL' if one == -1 else one}, {one % 7})" for one in range(-1, 500, 2))
    trino.query(f"INSERT INTO memory.default.callers VALUES {values}")
    with running_trino(TrinoSettings(str(folder))) as service:
        yield Buckets(trino, service, folder)


#: A query, and how many exchanges by hash are left of it.
QUERIES: Mapping[str, tuple[str, int]] = {
    "join of counts of which one divides the other": (
        "SELECT f.customer, f.id, c.name FROM facts f JOIN customers c ON f.customer = c.customer",
        0,
    ),
    "join with filters on both sides": (
        (
            "SELECT f.id, c.name FROM facts f JOIN customers c ON f.customer = c.customer "
            "WHERE f.amount > 40 AND c.name <> 'n7' AND f.day = 'd1'"
        ),
        0,
    ),
    "full join": (
        "SELECT f.customer, f.id, c.customer, c.name FROM facts f FULL JOIN customers c ON f.customer = c.customer",
        0,
    ),
    "group by": ("SELECT customer, count(*), sum(amount) FROM facts GROUP BY customer", 0),
    "group by more": ("SELECT customer, day, sum(amount) FROM facts GROUP BY customer, day", 0),
    "group by a part": ("SELECT day, sum(amount) FROM facts GROUP BY day", 1),
    "distinct": ("SELECT DISTINCT customer FROM facts", 0),
    "self join": ("SELECT a.id, b.amount FROM facts a JOIN facts b ON a.customer = b.customer AND a.id = b.id", 0),
    "three tables, and a grouping": (
        (
            "SELECT f.customer, max(c.name), sum(v.n), count(*) FROM facts f "
            "JOIN customers c ON f.customer = c.customer LEFT JOIN visits v ON f.customer = v.customer "
            "GROUP BY f.customer"
        ),
        0,
    ),
    "widened key": ("SELECT f.id, v.n FROM visits v LEFT JOIN facts f ON f.customer = v.customer", 0),
    "empty buckets": ("SELECT f.id, s.what FROM facts f LEFT JOIN few s ON f.customer = s.customer", 0),
    "pruned buckets": (
        (
            "SELECT f.id, c.name FROM facts f FULL JOIN (SELECT * FROM customers WHERE customer IN (1, 2, -10)) c "
            "ON f.customer = c.customer"
        ),
        0,
    ),
    "no file at all": (
        (
            "SELECT f.id, c.name FROM (SELECT * FROM facts WHERE day = 'none') f "
            "FULL JOIN customers c ON f.customer = c.customer"
        ),
        0,
    ),
    "not in": ("SELECT count(*) FROM facts WHERE customer NOT IN (SELECT customer FROM customers)", 1),
    "dates": ("SELECT s.day, r.day, s.hours, r.hours FROM sun s FULL JOIN rain r ON s.day = r.day", 0),
    "rows of another table are sent to the buckets": (
        "SELECT f.id, m.calls FROM facts f FULL JOIN memory.default.callers m ON f.customer = m.customer",
        1,
    ),
    "another type": (
        (
            "SELECT f.id, m.n FROM facts f JOIN (SELECT CAST(customer AS integer) AS n FROM memory.default.callers) m "
            "ON f.customer = m.n"
        ),
        1,
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_rows_are_those_without_buckets(buckets: Buckets, name: str) -> None:
    sql, exchanges = QUERIES[name]
    expected = buckets.query(sql, bucketed=False)
    assert rows_agree(buckets.query(sql), expected) == ""
    assert rows_agree(buckets.query(sql, joins="AUTOMATIC"), expected) == ""
    assert buckets.exchanges(sql) == exchanges
    assert buckets.exchanges(sql, bucketed=False) > exchanges or exchanges == 1


def test_broadcast_joins_still_wait_for_values(buckets: Buckets) -> None:
    sql = "SELECT f.id FROM facts f JOIN customers c ON f.customer = c.customer WHERE c.name = 'n7'"
    assert rows_agree(buckets.query(sql, joins="BROADCAST"), buckets.query(sql, bucketed=False)) == ""
    buckets.query(sql, joins="BROADCAST", wait="60s")
    record = next(one for one in buckets.service.log.recent() if one.get("table") == "default.facts")
    assert (record["files_in"], record["files_out"]) == (24, 3)


def test_slices_with_log_files(trino: Engine, tmp_path: Path) -> None:
    for name in unpack(tmp_path / "all"):
        if name in MERGE_ON_READ:
            table = tmp_path / name / "table"
            shutil.move(tmp_path / "all" / name / "table", table)
            properties = table / ".hoodie/hoodie.properties"
            lines = ["hoodie.index.type=BUCKET", f"hoodie.bucket.index.num.buckets={MERGE_ON_READ[name]}"]
            properties.write_text("\n".join([properties.read_text(), *lines, ""]))
    shutil.rmtree(tmp_path / "all")
    with running_trino(TrinoSettings(str(tmp_path), options=PLAIN)) as service:
        merged = Buckets(trino, service, tmp_path)
        first, second = (f'{merged.catalog}."{name}"."table"' for name in MERGE_ON_READ)
        for sql in (
            f"SELECT a.id, b.id FROM {first} a FULL JOIN {second} b ON a.id = b.id",
            f"SELECT id, count(*) FROM {first} GROUP BY id",
        ):
            assert rows_agree(merged.query(sql), merged.query(sql, bucketed=False)) == ""
            assert merged.exchanges(sql) == 0
        trino.drop_catalog(merged.catalog)


def test_texts_only_where_they_are_plain_and_checked_row_by_row(trino: Engine, tmp_path: Path) -> None:
    keys = [f"k{one}" for one in range(100)]
    rows = pa.table({"id": keys, "part": ["p"] * 100})
    LocalTable.create(str(tmp_path / "plain"), rows.schema, options("plain")).write("insert", rows)
    # between the least and the greatest key of its file, which the service looks at
    odd = pa.table({"id": [*keys, "k5:1,x:2"], "part": ["p"] * 101})
    LocalTable.create(str(tmp_path / "odd"), odd.schema, options("odd")).write("insert", odd)
    sql = "SELECT id, count(*) FROM {} GROUP BY id"
    for more, exchanges in ((PLAIN, 0), ({}, 1)):
        with running_trino(TrinoSettings(str(tmp_path), options=more)) as service:
            some = Buckets(trino, service, tmp_path)
            assert some.exchanges(sql.format("plain")) == exchanges
            assert rows_agree(some.query(sql.format("plain")), [(key, 1) for key in keys]) == ""
            if exchanges:
                assert len(some.query(sql.format("odd"))) == 101
            else:
                with pytest.raises(client.exceptions.TrinoQueryError, match=r"has a row of bucket.*bucket_execution"):
                    some.query(sql.format("odd"))
            assert len(some.query(sql.format("odd"), bucketed=False)) == 101
            trino.drop_catalog(some.catalog)


def test_the_service_says_why_there_are_no_buckets(buckets: Buckets) -> None:
    properties = buckets.folder / "few/.hoodie/hoodie.properties"
    text = properties.read_text()
    try:
        properties.write_text(text.replace("num.buckets=16", "num.buckets=2"))
        sql = "SELECT customer, count(*) FROM few GROUP BY customer"
        with running_trino(TrinoSettings(str(buckets.folder))) as service:
            doubtful = Buckets(buckets.engine, service, buckets.folder)
            assert doubtful.exchanges(sql) == 1
            assert doubtful.query(sql) == [(3, 1)]
            buckets.engine.drop_catalog(doubtful.catalog)
    finally:
        properties.write_text(text)
