"""Tables that real Apache Hudi wrote, merged log files among them, read by real Trino through both connectors."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from catalog import Table
from hudi_catalog.trino.serve import TrinoSettings, running_trino
from tests.engines.answers import rows_agree
from tests.engines.golden_rows import is_plain, literal, names, unpack, value_of
from tests.engines.trino_engine import Engine
from tests.engines.trino_values import rows_of_arrow, rows_of_trino
from tests.engines.written_table import packed
from tests.support.apache_hudi_client import VERSIONS

pytestmark = pytest.mark.engine

# kinds of columns whose expected values are written in JSON as Trino's client gives them
PLAIN = frozenset({"integer", "bigint", "varchar", "boolean"})
# base files of a few kilobytes are divided as large ones are
OPTIONS = {"hoodie.catalog.trino.type.timestamp": "varchar", "hoodie.catalog.trino.split.size": "2000"}


@dataclass(frozen=True)
class Golden:
    """The tables through the service, and their rows as Apache Hudi read them."""

    engine: Engine
    port: int
    own: str
    folder: Path
    rows: dict[str, list[dict[str, Any]]]

    @cached_property
    def catalog(self) -> str:
        """Of the Thrift connector, made on first use."""
        return self.engine.thrift_catalog("golden", self.port)

    def query(self, sql: str, name: str) -> list[tuple[Any, ...]]:
        return self.engine.query(sql, catalog=self.catalog, schema=name)


@pytest.fixture(scope="module")
def golden(trino: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Golden]:
    folder = Path(tmp_path_factory.mktemp("golden-warehouse"))
    rows = unpack(folder)
    with running_trino(TrinoSettings(str(folder), options=OPTIONS)) as service:
        yield Golden(trino, service.port, trino.connector_catalog("golden_own", service.port), folder, rows)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("name", names())
def test_rows_are_those_that_apache_hudi_reads(golden: Golden, name: str) -> None:
    expected = golden.rows[name]
    kinds = {row[0]: row[1] for row in golden.query('DESCRIBE "table"', name)}
    assert set(kinds) >= {column for column in expected[0] if not column.startswith("_")}
    plain = [column for column, kind in kinds.items() if kind in PLAIN and is_plain(expected, column)]
    assert len(plain) >= 3
    wanted = [tuple(row[column] for column in plain) for row in expected]
    listed = ", ".join(f'"{column}"' for column in plain)
    assert rows_agree(golden.query(f'SELECT {listed} FROM "table"', name), wanted) == ""
    # every column can be read
    assert len(golden.query('SELECT * FROM "table"', name)) == len(expected)
    assert golden.query('SELECT count(*) FROM "table"', name) == [(len(expected),)]
    for column in plain:
        value = value_of(expected, column)
        if value is not None:
            matching = [row for row, whole in zip(wanted, expected, strict=True) if whole[column] == value]
            sql = f"""SELECT {listed} FROM "table" WHERE "{column}" = {literal(value)}"""
            assert rows_agree(golden.query(sql, name), matching) == "", column


@pytest.mark.parametrize("name", names())
def test_our_connector_gives_every_value_of_every_type(golden: Golden, name: str) -> None:
    ours = Table.open(str(golden.folder / name / "table")).scan().to_arrow()
    assert ours.num_rows == len(golden.rows[name])
    listed = ", ".join(f'"{column.lower()}"' for column in ours.schema.names)
    own = {"catalog": golden.own, "schema": name}
    assert rows_of_trino(golden.engine.query(f'SELECT {listed} FROM "table"', **own), ours.schema) == rows_of_arrow(
        ours
    )
    assert golden.engine.query('SELECT count(*) FROM "table"', **own) == [(ours.num_rows,)]


@pytest.mark.parametrize("version", VERSIONS)
def test_file_groups_of_log_files_alone(trino: Engine, tmp_path: Path, version: str) -> None:
    """Tables of Apache's consistent hashing, whose first rows are in log files."""
    (name,) = {path.split("/")[0] for path in packed(version) if "mor_consistent_hashing" in path}
    for path, data in packed(version).items():
        if path.startswith(f"{name}/table/"):
            file = tmp_path / path.removeprefix(f"{name}/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    rows = pq.read_table(io.BytesIO(packed(version)[f"{name}/rows.parquet"]))
    keys = rows["_hoodie_record_key"].to_pylist()
    snapshot = Table.open(str(tmp_path / "table")).snapshot()
    assert None in [one.base for one in snapshot.file_slices(snapshot.live_rows)]
    with running_trino(TrinoSettings(str(tmp_path))) as service:
        own = trino.connector_catalog("logs_alone", service.port)
        read = trino.query(f'SELECT _hoodie_record_key FROM {own}.default."table"')
        assert sorted(key for (key,) in read) == sorted(keys)
        one = f"""SELECT count(*) FROM {own}.default."table" WHERE _hoodie_record_key = {literal(keys[0])}"""
        assert trino.query(one) == [(keys.count(keys[0]),)]
        trino.drop_catalog(own)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("name", names())
def test_our_connector_answers_aggregates_and_orders_as_rows_do(golden: Golden, name: str) -> None:
    """Statistics that real Apache Hudi wrote, for tables with log files as well, of which they are not exact."""
    ours = Table.open(str(golden.folder / name / "table")).scan().to_arrow()
    own = {"catalog": golden.own, "schema": name}
    types = pa.types
    counted = [
        field.name
        for field in ours.schema
        if types.is_signed_integer(field.type) or types.is_date(field.type) or types.is_decimal(field.type)
    ]
    listed = [f'{function}("{column.lower()}")' for column in counted for function in ("count", "min", "max")]
    expected: list[Any] = [ours.num_rows]
    for column in counted:
        edges = pc.min_max(ours[column])
        expected += [ours.num_rows - ours[column].null_count, edges["min"].as_py(), edges["max"].as_py()]
    answered = golden.engine.query(f'SELECT {", ".join(["count(*)", *listed])} FROM "table"', **own)
    assert answered == [tuple(expected)]
    for column in counted[:2]:
        values = sorted(value for value in ours[column].to_pylist() if value is not None)
        for order, wanted in (("", values), ("DESC", values[::-1])):
            sql = f'SELECT "{column.lower()}" FROM "table" ORDER BY 1 {order} LIMIT 3'
            padded = [*wanted, *([None] * ours[column].null_count)][:3]
            assert [row[0] for row in golden.engine.query(sql, **own)] == padded, sql


def test_read_optimized_queries_of_our_connector_read_base_files_alone(golden: Golden) -> None:
    name = "v6_0150__mor_log"
    own = {"catalog": golden.own, "schema": name}
    optimized = {f"{golden.own}.query_type": "read_optimized"}
    table = Table.open(str(golden.folder / name / "table"))
    counts = [table.scan(query_type=kind).to_arrow().num_rows for kind in ("snapshot", "read_optimized")]
    sql = 'SELECT count(*) FROM "table"'
    assert golden.engine.query(sql, **own) == [(counts[0],)]
    assert golden.engine.query(sql, **own, session_properties=optimized) == [(counts[1],)]
    assert counts[0] != counts[1]
    with pytest.raises(Exception, match="query_type is snapshot or read_optimized"):
        golden.engine.query(sql, **own, session_properties={f"{golden.own}.query_type": "newest"})
