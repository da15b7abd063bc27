"""Options that change keys and paths reach the key generator, or are refused by name."""

import pyarrow as pa
import pytest

import hudi_catalog
from table_format.errors import OptionError, SchemaError
from table_format.storage import Storage
from table_writer import write_plans
from table_writer.commit.create import create_table
from table_writer.plan.options import WriteOptions
from table_writer.plan.properties import new_table_properties

BASE = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
}
SLASHES = "hoodie.datasource.write.slash.separated.date.partitioning"
ZONED = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"


def key_plan(tmp_path, options):
    write_options = WriteOptions.of({**BASE, **options})
    schema = pa.schema([("id", pa.string()), ("day", pa.date32())])
    client = create_table(Storage(str(tmp_path / "t")), new_table_properties(write_options, schema))
    return client, write_plans.key_plan(client, WriteOptions.of({**options}), (), 2)


def test_dates_in_three_folders_are_the_tables_for_good(tmp_path) -> None:
    client, plan = key_plan(tmp_path, {SLASHES: "true"})
    assert client.config.raw[SLASHES] == "true"
    assert plan.spec.slash_dates


def test_zone_dependent_keys_are_refused(tmp_path) -> None:
    with pytest.raises(OptionError, match=r"consistent\.logical\.timestamp"):
        key_plan(tmp_path, {ZONED: "true"})


@pytest.mark.parametrize("role", ["record_key", "partition_by", "ordering"])
def test_dots_in_names_of_key_columns_are_not_supported(tmp_path, role) -> None:
    schema = pa.schema([("id", pa.int64()), ("a.b", pa.int64())])
    with pytest.raises(SchemaError, match=r"column 'a\.b', of .*: names with dots are not supported; rename"):
        hudi_catalog.create_table(tmp_path / "t", schema, **{"record_key": "id", role: "a.b"})
    nested = pa.schema([("id", pa.int64()), ("a", pa.struct([("b", pa.int64())]))])
    hudi_catalog.create_table(tmp_path / "t", nested, **{"record_key": "id", role: "a.b"})


@pytest.mark.parametrize(
    ("options", "folders"),
    [
        ({}, {"2024/01/02", "a%b"}),
        ({"hoodie.datasource.write.partitionpath.urlencode": "true"}, {"2024/01/02", "a%b"}),
        ({"hoodie.datasource.write.hive_style_partitioning": "true"}, {"day=2024-01-02", "day=a%b"}),
    ],
)
def test_dashes_become_folders_as_in_apache(tmp_path, options, folders) -> None:
    """As PartitionPathFormatterBase of 1.2 does: a single field is not encoded then, and hive style has dashes."""
    table = hudi_catalog.create_table(
        tmp_path / "t",
        "id bigint, day string",
        record_key="id",
        partition_by="day",
        options={SLASHES: "true", **options},
    )
    table.insert([{"id": 1, "day": "2024-01-02"}, {"id": 2, "day": "a%b"}])
    assert set(table.partitions()["partition"].to_pylist()) == folders
    table = hudi_catalog.open_table(tmp_path / "t")
    for where in ("day = '2024-01-02'", "day < '2024-02'", "day <> 'a%b'"):
        assert table.scan(where).to_arrow().column("id").to_pylist() == [1]
