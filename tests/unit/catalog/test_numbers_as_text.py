"""Columns that are text in the table and whole numbers in its files.

Apache Hudi takes the time column of a timestamp-based key generator for text, and leaves the numbers in the files; so
does a column that was promoted. Read as text, numbers have another order than their own, which statistics follow.
"""

import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import Table
from hudi_catalog import create_table
from hudi_catalog.metastore.stored_columns import HIVE_RULES, TRINO_RULES, StoredTypes
from table_format.errors import SchemaError, UnsupportedTableError
from tests.support.local_writes import LocalTable

ARCHIVE = Path(__file__).parents[2] / "golden/timestamp_keys.tar.xz"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "ts",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.timezone": "UTC",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.parquet.block.size": "400",
    "hoodie.metadata.index.column.stats.enable": "true",
}
# several row groups in a partition, whose texts are in another order than their numbers
TIMES = [None, *(number * 20 - 3000 for number in range(6000))]
NUMBERS = [None if number % 11 == 0 else number - 3000 for number in range(len(TIMES))]
ROWS = pa.table(
    {
        "id": pa.array([f"k{number:04}" for number in range(len(TIMES))]),
        "ts": pa.array(TIMES, pa.int64()),
        "n": pa.array(NUMBERS, pa.int32()),
    }
)


@pytest.fixture(scope="module", params=["true", "false"], ids=["metadata", "footers"])
def folder(request, tmp_path_factory):
    """A table that a job wrote with numbers, before the table took them for text."""
    path = tmp_path_factory.mktemp("numbers") / "t"
    table = LocalTable.create(str(path), ROWS.schema, OPTIONS | {"hoodie.metadata.enable": request.param})
    table.write("bulk_insert", ROWS)
    groups = [pq.read_metadata(file).num_row_groups for file in path.rglob("*.parquet")]
    assert max(groups) > 2
    [commit] = (path / ".hoodie").glob("*.commit")
    metadata = json.loads(commit.read_text())
    schema = json.loads(metadata["extraMetadata"]["schema"])
    for field in schema["fields"][1:]:
        field["type"] = ["null", "string"]
    metadata["extraMetadata"]["schema"] = json.dumps(schema)
    commit.write_text(json.dumps(metadata))
    return path


def texts(values):
    return [None if value is None else str(value) for value in values]


def test_rows_are_texts(folder):
    rows = Table.open(str(folder)).scan(columns=["id", "ts", "n"]).to_arrow().sort_by("id")
    assert rows.schema.field("ts").type == rows.schema.field("n").type == pa.string()
    assert rows.column("ts").to_pylist() == texts(TIMES)
    assert rows.column("n").to_pylist() == texts(NUMBERS)


TESTS = {
    "=": lambda value, literal: value == literal,
    "<>": lambda value, literal: value != literal,
    "<": lambda value, literal: value < literal,
    "<=": lambda value, literal: value <= literal,
    ">": lambda value, literal: value > literal,
    ">=": lambda value, literal: value >= literal,
}


@pytest.mark.parametrize("operator", TESTS)
@pytest.mark.slow
def test_filters_compare_texts(folder, operator):
    table = Table.open(str(folder))
    for column, values in (("ts", texts(TIMES)), ("n", texts(NUMBERS))):
        literals = {value for value in values[1::1201] if value} | {"", "1", "9", "99", "8639", "-1", "-", "1970-01-02"}
        for literal in sorted(literals):
            expected = sum(value is not None and TESTS[operator](value, literal) for value in values)
            count = table.scan(f"{column} {operator} '{literal}'").to_arrow().num_rows
            assert count == expected, (column, operator, literal)


def test_other_filters(folder):
    table = Table.open(str(folder))
    times, numbers = texts(TIMES), texts(NUMBERS)
    for where, values, test in (
        ("ts IS NULL", times, lambda v: v is None),
        ("ts IN ('100', '80', 'x', '86400')", times, lambda v: v in ("100", "80", "86400")),
        ("ts BETWEEN '1' AND '2'", times, lambda v: v is not None and "1" <= v <= "2"),
        ("ts LIKE '863%'", times, lambda v: v is not None and v.startswith("863")),
        ("NOT (n < '5')", numbers, lambda v: v is not None and v >= "5"),
    ):
        assert table.scan(where).to_arrow().num_rows == sum(map(test, values)) > 0, where


@pytest.mark.parametrize("rules", [TRINO_RULES, HIVE_RULES], ids=["trino", "hive"])
def test_engines_that_open_the_files_are_kept_from_them(folder, rules):
    with pytest.raises(UnsupportedTableError, match="column ts is string now, and was int64"):
        StoredTypes(rules).check(Table.open(str(folder)).snapshot())


def test_batches_are_not_promoted(folder):
    table = LocalTable(Table.open(str(folder)).client, OPTIONS)
    with pytest.raises(SchemaError, match="column 'ts' is string in the table and int64 in the batch"):
        table.write("upsert", ROWS)


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    path = tmp_path_factory.mktemp("timestamp_keys")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(path, filter="data")
        return path


GOLDEN = (
    "1.0.2__epoc_cow_6",
    "1.0.2__unix_mor_6",
    "1.0.2__epoc_mor_8",
    "1.0.2__unix_cow_8",
    "1.2.0__epoc_cow_9",
    "1.2.0__unix_mor_9",
)


@pytest.mark.parametrize("name", GOLDEN)
def test_tables_of_apache_read_as_apache_and_hudi_rs_read_them(golden, name):
    """Some of their files hold numbers, some of those that an UPDATE of Spark SQL wrote hold text, and so do logs."""
    path = golden / name / "table"
    kinds = {str(pq.read_schema(file).field("ts").type) for file in path.glob("*/*.parquet")}
    assert "int64" in kinds
    columns = ["id", "ts", "v", "_hoodie_partition_path"]
    expected = pq.read_table(golden / name / "expected.parquet", columns=columns).sort_by("id")
    table = Table.open(str(path))
    assert table.schema.field("ts").type == pa.string()
    assert table.scan(columns=columns).to_arrow().sort_by("id").to_pylist() == expected.to_pylist()
    for text in expected["ts"].to_pylist():
        rows = table.scan(f"ts = '{text}'", columns=["ts"]).to_arrow()
        assert rows.to_pylist() == [{"ts": text}]
    rust = pytest.importorskip("hudi").HudiTableBuilder.from_base_uri(str(path)).build().read()
    assert pa.Table.from_batches(rust).select(columns).sort_by("id").to_pylist() == expected.to_pylist()


def test_decimals_have_another_order_than_their_texts(tmp_path):
    decimals = pa.array(["9.50", "10.00", "100.00"] * 2).cast(pa.decimal128(10, 2))
    rows = pa.table({"id": pa.array(range(6)), "x": decimals})
    path = tmp_path / "t"
    create_table(path, rows.schema, record_key="id", buckets=1).insert(rows)
    [commit] = (path / ".hoodie").glob("*.commit")
    metadata = json.loads(commit.read_text())
    schema = json.loads(metadata["extraMetadata"]["schema"])
    schema["fields"][1]["type"] = ["null", "string"]
    metadata["extraMetadata"]["schema"] = json.dumps(schema)
    commit.write_text(json.dumps(metadata))
    [file] = path.glob("*.parquet")
    pq.write_table(pq.read_table(file), file, row_group_size=3)
    table = Table.open(str(path))
    for where in ("x = '10.00'", "x < '100.00'"):
        assert table.scan(where).to_arrow().column("x").to_pylist() == ["10.00", "10.00"]
