import pytest

from table_format.config.table_config import (
    BACKUP_PATH,
    COMMIT_TIME,
    CUSTOM,
    EVENT_TIME,
    PROPERTIES_PATH,
    KeyGeneratorType,
    TableConfig,
    create_table_config,
    load_table_config,
    parse_table_config,
    recover_table_config,
    require_writable,
    update_table_config,
)
from table_format.errors import (
    CorruptFileError,
    MissingFileError,
    OptionError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedTableError,
)
from table_format.storage import Storage
from tests.support.golden_tables import FILES, NAMES, facts

BASIC = {"hoodie.table.name": "t", "hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"}


@pytest.fixture
def storage(tmp_path):
    return Storage(str(tmp_path))


@pytest.fixture
def table(storage):
    create_table_config(storage, BASIC)
    return storage


class Broken(Storage):
    """Fails at the n-th change of a file, as a killed process does."""

    def __init__(self, uri, left):
        super().__init__(uri)
        self.left = left

    def _step(self):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt

    def create(self, path, data):
        self._step()
        super().create(path, data)

    def overwrite(self, path, data):
        self._step()
        super().overwrite(path, data)

    def delete(self, path, *, missing_ok=True):
        self._step()
        super().delete(path, missing_ok=missing_ok)


@pytest.mark.parametrize("name", NAMES)
def test_properties_of_apache(name):
    config = parse_table_config(FILES[f"{name}/.hoodie/hoodie.properties"], "p")
    assert config.raw == facts(name)["properties"]
    assert config.version == 6
    assert config.table_type == "COPY_ON_WRITE"
    assert str(config.checksum) == config.raw["hoodie.table.checksum"]
    assert config.key_generator is not KeyGeneratorType.OTHER
    assert config.written_by_1x == name.startswith("v6_1200")


def test_checksum_of_a_table_in_a_database():
    config = TableConfig({"hoodie.table.name": "v9_txns_mor_complex_nometa", "hoodie.database.name": "default"})
    assert config.checksum == 1157628692


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"class": "org.apache.hudi.keygen.SimpleKeyGenerator"}, KeyGeneratorType.SIMPLE),
        ({"class": "org.apache.hudi.keygen.ComplexAvroKeyGenerator"}, KeyGeneratorType.COMPLEX),
        ({"class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator"}, KeyGeneratorType.NON_PARTITION),
        ({"class": "org.apache.hudi.keygen.TimestampBasedAvroKeyGenerator"}, KeyGeneratorType.TIMESTAMP),
        ({"class": "com.example.Mine"}, KeyGeneratorType.OTHER),
        ({"type": "COMPLEX_AVRO"}, KeyGeneratorType.COMPLEX),
        ({"type": "NON_PARTITION"}, KeyGeneratorType.NON_PARTITION),
        ({}, KeyGeneratorType.NON_PARTITION),
    ],
)
def test_key_generators(values, expected):
    assert TableConfig({f"hoodie.table.keygenerator.{k}": v for k, v in values.items()}).key_generator is expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"hoodie.table.precombine.field": "ts", "hoodie.table.keygenerator.class": "x.Simple"}, COMMIT_TIME),
        ({"hoodie.table.precombine.field": "ts", "hoodie.table.keygenerator.type": "SIMPLE"}, EVENT_TIME),
        ({"hoodie.table.keygenerator.type": "SIMPLE"}, COMMIT_TIME),
        ({"hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}, EVENT_TIME),
        ({"hoodie.compaction.payload.class": "a.OverwriteWithLatestAvroPayload"}, COMMIT_TIME),
        ({"hoodie.compaction.payload.class": "com.example.Mine"}, CUSTOM),
        ({"hoodie.record.merge.mode": "event_time_ordering", "hoodie.compaction.payload.class": "x.Y"}, EVENT_TIME),
    ],
)
def test_merge_modes(values, expected):
    assert TableConfig(values).merge_mode == expected


def test_lists_and_flags():
    config = TableConfig(
        {
            "hoodie.table.recordkey.fields": "a, b,",
            "hoodie.table.partition.fields": "d:TIMESTAMP,e:SIMPLE",
            "hoodie.datasource.write.hive_style_partitioning": "TRUE",
            "hoodie.populate.meta.fields": "",
            "hoodie.bucket.index.num.buckets": "16",
        }
    )
    assert config.record_key_fields == ("a", "b")
    assert config.partition_fields == ("d", "e")
    assert config.hive_style
    assert config.populate_meta_fields
    assert config.bucket_count == 16
    assert config.bucket_hash_fields is None
    assert config.timeline_timezone == "LOCAL"


@pytest.mark.parametrize(
    ("key", "value", "attribute"),
    [
        ("hoodie.populate.meta.fields", "yes", "populate_meta_fields"),
        ("hoodie.table.version", "six", "version"),
    ],
)
def test_unusable_values_name_their_key(key, value, attribute):
    with pytest.raises(OptionError, match=f"{key}='{value}'"):
        getattr(TableConfig({key: value}), attribute)


def test_create_update_load(table):
    config = update_table_config(table, {"hoodie.table.metadata.partitions": "files", "x": "é:=", "y": None})
    assert load_table_config(table).raw == config.raw
    assert config.metadata_partitions == ("files",)
    update_table_config(table, {"x": None})
    assert "x" not in load_table_config(table).raw
    assert not table.exists(BACKUP_PATH)


def test_a_name_beyond_ascii_keeps_its_checksum(storage):
    """Java reads the file as Latin-1: the checksum must hold for it too."""
    create_table_config(storage, BASIC | {"hoodie.table.name": "日本"})
    assert storage.read(PROPERTIES_PATH).isascii()
    assert load_table_config(storage).name == "日本"


def test_a_table_is_not_made_twice(table):
    with pytest.raises(TableExistsError):
        create_table_config(table, BASIC)


def test_no_table(storage):
    with pytest.raises(TableNotFoundError, match=r"hoodie\.properties"):
        load_table_config(storage)


@pytest.mark.parametrize("version", ["5", "7", "10", "0", "77"])
def test_other_versions_are_refused(storage, version):
    create_table_config(storage, BASIC | {"hoodie.table.version": version})
    with pytest.raises(UnsupportedTableError, match=f"table version {version}"):
        load_table_config(storage)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.bootstrap.base.path", "s3://old/table"),
        ("hoodie.table.format", "iceberg"),
        ("hoodie.table.base.file.format", "LANCE"),
        ("hoodie.table.base.file.format", "orc"),
        ("hoodie.table.ro.file.format", "HFILE"),
        ("hoodie.table.base.file.format", "what is to come"),
    ],
)
def test_tables_whose_rows_or_timeline_lie_elsewhere(storage, key, value):
    create_table_config(storage, BASIC | {key: value})
    with pytest.raises(UnsupportedTableError, match=value):
        load_table_config(storage)


@pytest.mark.parametrize(("version", "layout"), [("6", "2"), ("8", "1"), ("9", "1"), ("9", "3")])
def test_a_layout_that_does_not_go_with_the_version(storage, version, layout):
    create_table_config(storage, BASIC | {"hoodie.table.version": version, "hoodie.timeline.layout.version": layout})
    with pytest.raises(UnsupportedTableError, match=rf"layout\.version={layout}"):
        load_table_config(storage)


@pytest.mark.parametrize(
    ("version", "folder"), [("6", ".hoodie"), ("8", ".hoodie/timeline"), ("9", ".hoodie/timeline")]
)
def test_the_timeline_lies_where_the_layout_has_it(storage, version, folder):
    # Hudi 1.2 writes the folder's name into tables of version 6 too, where it means nothing
    layout = "1" if version == "6" else "2"
    values = {"hoodie.table.version": version, "hoodie.timeline.layout.version": layout}
    config = create_table_config(storage, BASIC | values | {"hoodie.timeline.path": "timeline"})
    assert config.timeline_folder == folder


@pytest.mark.parametrize(
    ("properties", "mode"),
    [
        ({"hoodie.record.merge.strategy.id": "ce9acb64-bde0-424c-9b91-f6ebba25356d"}, "COMMIT_TIME_ORDERING"),
        ({"hoodie.record.merge.strategy.id": "EEB8D96F-b1e4-49fd-bbf8-28ac514178e5"}, "EVENT_TIME_ORDERING"),
        ({"hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000"}, "CUSTOM"),
        ({"hoodie.record.merge.mode": "commit_time_ordering"}, "COMMIT_TIME_ORDERING"),
        ({"hoodie.compaction.payload.class": "org.example.Mine"}, "CUSTOM"),
    ],
)
def test_merge_modes_of_version_8(properties, mode):
    assert TableConfig({"hoodie.table.version": "8", **properties}).merge_mode == mode


def test_what_is_only_read_is_not_written(table):
    for changes in (
        {"hoodie.table.version": "8"},
        {"hoodie.table.type": "MERGE_ON_READ"},
        {"hoodie.table.cdc.enabled": "true"},
    ):
        with pytest.raises(UnsupportedTableError, match=r"version 8|MERGE_ON_READ|cdc\.enabled"):
            require_writable(TableConfig({**BASIC, **changes}), "/t")
    require_writable(load_table_config(table), "/t")


def test_a_wrong_checksum_names_file_and_place(table):
    data = table.read(PROPERTIES_PATH)
    table.overwrite(PROPERTIES_PATH, data.replace(b"name=t", b"name=u"))
    with pytest.raises(CorruptFileError, match=r"hoodie\.properties: at byte \d+: hoodie\.table\.checksum") as caught:
        load_table_config(table)
    assert data[caught.value.offset :].startswith(b"hoodie.table.checksum")


def test_the_backup_serves_while_the_file_is_missing_or_damaged(table):
    good = table.read(PROPERTIES_PATH)
    table.create(BACKUP_PATH, good)
    for bad in (b"", good[:40], b"hoodie.table.name=t\nhoodie.ta", good.replace(b"name=t", b"name=u")):
        table.overwrite(PROPERTIES_PATH, bad)
        assert load_table_config(table).version == 6
    table.delete(PROPERTIES_PATH)
    assert load_table_config(table).name == "t"
    recover_table_config(table)
    assert table.read(PROPERTIES_PATH) == good
    assert not table.exists(BACKUP_PATH)


def test_an_update_that_ends_between_two_looks_is_no_missing_table(table):
    class Late(Storage):
        def read(self, path):
            if not self.options.get("seen"):
                self.options["seen"] = True
                raise MissingFileError(path)
            return super().read(path)

    assert load_table_config(Late(table.uri)).name == "t"


def test_stale_side_files_of_hadoop_go(table, tmp_path):
    side = tmp_path / ".hoodie" / ".hoodie.properties.crc"
    side.write_bytes(b"crc\x00")
    update_table_config(table, {"x": "1"})
    assert not side.exists()


@pytest.mark.parametrize("left", range(4))
def test_an_update_killed_at_any_step_leaves_the_old_or_the_new(table, left):
    old = load_table_config(table).raw
    broken = Broken(table.uri, left)
    try:
        update_table_config(broken, {"x": "1"})
    except KeyboardInterrupt:
        assert left < 3
    values = load_table_config(table).raw
    assert values in (old, {**old, "x": "1"})
    update_table_config(table, {"y": "2"})
    assert load_table_config(table).raw == {**values, "y": "2"}
    assert not table.exists(BACKUP_PATH)
