from pathlib import Path

import pyarrow as pa
import pytest

from hudi_catalog import create_table
from table_format.config.table_config import KeyGeneratorType, TableConfig, update_table_config
from table_format.errors import OptionError, SchemaError, UnsupportedTableError
from table_format.storage import Storage
from table_writer.plan.merge_rule import given_merge_mode
from table_writer.plan.options import WriteOptions
from table_writer.plan.properties import (
    bucket_count,
    check_against_table,
    hash_fields,
    new_table_properties,
)

BASE = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.bucket.index.num.buckets": "4",
}
PREFIX = "org.apache.hudi.common.model."
EVENT_TIME_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COLUMNS = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("ts", pa.int64()), ("p", pa.string()), ("q", pa.string())])


def config(**options: str) -> TableConfig:
    return TableConfig(new_table_properties(WriteOptions.of({**BASE, **options}), COLUMNS))


def key(name: str) -> str:
    return f"hoodie.datasource.write.{name}"


def test_properties_take_the_form_that_old_and_new_releases_read() -> None:
    properties = config(**{key("precombine.field"): "ts", key("partitionpath.field"): "p"}).raw
    assert properties["hoodie.table.version"] == "6"
    assert properties["hoodie.timeline.layout.version"] == "1"
    assert properties["hoodie.table.keygenerator.class"] == "org.apache.hudi.keygen.SimpleKeyGenerator"
    assert properties["hoodie.table.precombine.field"] == "ts"
    assert properties["hoodie.compaction.payload.class"] == PREFIX + "DefaultHoodieRecordPayload"
    assert "hoodie.table.keygenerator.type" not in properties
    assert '"name":"t_record"' in properties["hoodie.table.create.schema"]


@pytest.mark.parametrize(
    ("keys", "partitions", "kind"),
    [
        ("id", "", KeyGeneratorType.NON_PARTITION),
        ("id,n", "", KeyGeneratorType.NON_PARTITION),
        ("id", "p", KeyGeneratorType.SIMPLE),
        ("id", "p,q", KeyGeneratorType.COMPLEX),
        ("id,n", "p", KeyGeneratorType.COMPLEX),
    ],
)
def test_the_key_generator_follows_from_the_fields(keys: str, partitions: str, kind: KeyGeneratorType) -> None:
    properties = config(**{key("recordkey.field"): keys, key("partitionpath.field"): partitions})
    assert properties.key_generator is kind
    assert properties.record_key_fields == tuple(keys.split(","))
    assert properties.bucket_hash_fields == tuple(keys.split(","))
    assert properties.bucket_count == 4


def test_without_ordering_fields_the_later_write_wins() -> None:
    assert config().merge_mode == "COMMIT_TIME_ORDERING"
    assert config(**{key("precombine.field"): "ts"}).merge_mode == "EVENT_TIME_ORDERING"
    later = {key("precombine.field"): "ts", key("payload.class"): PREFIX + "OverwriteWithLatestAvroPayload"}
    assert config(**later).merge_mode == "COMMIT_TIME_ORDERING"
    with pytest.raises(OptionError, match="EVENT_TIME_ORDERING needs"):
        config(**{"hoodie.record.merge.mode": "event_time_ordering"})


def test_merge_rules_that_are_not_supported_or_contradict() -> None:
    with pytest.raises(OptionError, match="PartialUpdateAvroPayload"):
        given_merge_mode(WriteOptions.of({key("payload.class"): PREFIX + "PartialUpdateAvroPayload"}))
    both = {
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
        key("payload.class"): PREFIX + "DefaultHoodieRecordPayload",
    }
    with pytest.raises(OptionError, match="contradicts"):
        given_merge_mode(WriteOptions.of(both))


@pytest.mark.parametrize("missing", ["hoodie.table.name", key("recordkey.field")])
def test_a_new_table_needs_name_and_key(missing: str) -> None:
    options = WriteOptions.of({k: v for k, v in BASE.items() if k != missing})
    with pytest.raises(OptionError, match=missing):
        new_table_properties(options, None)


@pytest.mark.parametrize(
    ("option", "value", "stored"),
    [
        (key("recordkey.field"), "n", "id"),
        (key("partitionpath.field"), "p", ""),
        (key("precombine.field"), "other", "ts"),
        (key("hive_style_partitioning"), "true", "false"),
        (key("keygenerator.class"), "org.apache.hudi.keygen.ComplexKeyGenerator", "NON_PARTITION"),
        (key("payload.class"), PREFIX + "OverwriteWithLatestAvroPayload", "EVENT_TIME_ORDERING"),
        ("hoodie.bucket.index.num.buckets", "8", "4"),
        ("hoodie.table.name", "u", "t"),
        ("hoodie.metadata.index.column.stats.column.list", "id", ""),
    ],
)
def test_an_option_against_the_table_names_both_values(option: str, value: str, stored: str) -> None:
    table = config(**{key("precombine.field"): "ts"})
    with pytest.raises(OptionError, match=f"{option}=.*but the table has '{stored}'"):
        check_against_table(WriteOptions.of({option: value}), table)


def test_options_that_agree_pass() -> None:
    table = config(**{key("precombine.field"): "ts"})
    check_against_table(WriteOptions.of({**BASE, key("precombine.field"): "ts", "hoodie.index.type": "BUCKET"}), table)


def test_tables_of_apache_need_the_bucket_count() -> None:
    raw = {name: text for name, text in config().raw.items() if "bucket" not in name}
    with pytest.raises(OptionError, match=r"give hoodie.bucket.index.num.buckets"):
        bucket_count(WriteOptions.of({}), TableConfig(raw))
    options = WriteOptions.of({"hoodie.hash.index.bucket.num": "16"})
    assert bucket_count(options, TableConfig(raw)) == 16
    assert hash_fields(options, TableConfig(raw)) == ("id",)


def test_hash_fields_are_key_fields() -> None:
    with pytest.raises(OptionError, match=r"hash.field names \['x'\]"):
        config(**{"hoodie.bucket.index.hash.field": "x"})


def test_custom_mergers_are_refused_by_name() -> None:
    raw = {**config().raw, "hoodie.compaction.payload.class": "com.example.Mine"}
    with pytest.raises(UnsupportedTableError, match=r"com\.example\.Mine"):
        check_against_table(WriteOptions.of({}), TableConfig(raw))


def test_the_strategys_id_counts_where_nothing_else_is_said() -> None:
    ordered = {key("precombine.field"): "ts"}
    assert config(
        **ordered, **{"hoodie.record.merge.strategy.id": "CE9ACB64-bde0-424c-9b91-f6ebba25356d"}
    ).merge_mode == ("COMMIT_TIME_ORDERING")
    assert config(**{"hoodie.record.merge.strategy.id": EVENT_TIME_STRATEGY}).merge_mode == "COMMIT_TIME_ORDERING"
    with pytest.raises(OptionError, match="strategy"):
        config(**ordered, **{"hoodie.write.record.merge.strategy.id": "1897ef5f-18bc-4557-939c-9d6a8afd1519"})


@pytest.mark.parametrize(
    ("option", "names"),
    [
        (key("recordkey.field"), "id,x"),
        (key("partitionpath.field"), "x"),
        (key("precombine.field"), "x"),
        (key("precombine.field"), "s.x"),
        (key("precombine.field"), "n.x"),
    ],
)
def test_columns_that_the_schema_lacks_are_refused(option: str, names: str) -> None:
    schema = COLUMNS.append(pa.field("s", pa.struct([("a", pa.int32())])))
    new_table_properties(WriteOptions.of({**BASE, option: "s.a" if "precombine" in option else "id"}), schema)
    with pytest.raises(
        SchemaError, match=f"{option} names '{names.rsplit(',', maxsplit=1)[-1]}', but the table's columns will be"
    ):
        new_table_properties(WriteOptions.of({**BASE, option: names}), schema)
    new_table_properties(WriteOptions.of({**BASE, option: names}), None)


def test_a_custom_key_generator_whose_kinds_are_not_recorded(tmp_path: Path) -> None:
    """Releases before 1.0 record `part` alone; jobs have the kinds in their options."""
    table = create_table(tmp_path / "t", "id bigint, part string", record_key="id", partition_by="part", buckets=1)
    custom = "org.apache.hudi.keygen.CustomKeyGenerator"
    update_table_config(Storage(tmp_path / "t"), {"hoodie.table.keygenerator.class": custom})
    rows = [{"id": 1, "part": "a"}]
    key = "hoodie.datasource.write.partitionpath.field"
    with pytest.raises(OptionError, match=rf"give each write {key} .* such as part:SIMPLE or part:TIMESTAMP"):
        table.upsert(rows)
    assert table.upsert(rows, {key: "part:SIMPLE"}).rows_inserted == 1
