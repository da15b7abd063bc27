"""`hoodie.properties`: typed table properties; loading, creating and updating them."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from table_format.config.properties import format_properties, parse_properties
from table_format.errors import (
    CorruptFileError,
    MissingFileError,
    OptionError,
    StorageError,
    TableExistsError,
    TableNotFoundError,
    TransactionError,
    UnsupportedTableError,
)
from table_format.storage import Storage

PROPERTIES_PATH: Final = ".hoodie/hoodie.properties"
BACKUP_PATH: Final = ".hoodie/hoodie.properties.backup"
CHECKSUM: Final = "hoodie.table.checksum"
_ESCAPED: Final = re.compile("file:.*%[0-9A-Fa-f]{2}")
BASE_FILE_FORMAT: Final = "hoodie.table.base.file.format"
#: Table versions that are read, with the timeline layout of each.
LAYOUTS: Final = {6: 1, 8: 2, 9: 2}
#: Table versions that are written.
WRITABLE_VERSIONS: Final = (6,)
COMMIT_TIME: Final = "COMMIT_TIME_ORDERING"
EVENT_TIME: Final = "EVENT_TIME_ORDERING"
CUSTOM: Final = "CUSTOM"
#: The most bytes of a file in a table whose buckets may have several file groups.
BUCKET_FILE_SIZE: Final = "hoodie.catalog.bucket.max.file.size"
#: What such a table records as its index: a type that Apache's readers know, and none of its Spark writers takes.
NO_SPARK_INDEX: Final = "FLINK_STATE"
_BUCKET_INDEXES: Final = ("BUCKET", "BUCKET_INDEX", "BUCKET_HASH_INDEX")
_EVENT_TIME_PAYLOADS: Final = ("DefaultHoodieRecordPayload", "EventTimeAvroPayload")
_COMMIT_TIME_PAYLOADS: Final = ("OverwriteWithLatestAvroPayload",)
_STRATEGIES: Final = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": EVENT_TIME,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": COMMIT_TIME,
    "1897ef5f-18bc-4557-939c-9d6a8afd1519": CUSTOM,
    "00000000-0000-0000-0000-000000000000": CUSTOM,
}


class KeyGeneratorType(Enum):
    """How record keys and partition paths are made from rows."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"
    GLOBAL_DELETE = "GLOBAL_DELETE"
    OTHER = "OTHER"


GENERATOR_CLASSES: Final = {
    "SimpleKeyGenerator": KeyGeneratorType.SIMPLE,
    "ComplexKeyGenerator": KeyGeneratorType.COMPLEX,
    "NonpartitionedKeyGenerator": KeyGeneratorType.NON_PARTITION,
    "TimestampBasedKeyGenerator": KeyGeneratorType.TIMESTAMP,
    "CustomKeyGenerator": KeyGeneratorType.CUSTOM,
    "GlobalDeleteKeyGenerator": KeyGeneratorType.GLOBAL_DELETE,
}


@dataclass(frozen=True)
class TableConfig:
    """Properties of a table.

    Attributes:
        raw: all properties as in the file.
    """

    raw: Mapping[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        """The table's name."""
        return self.raw.get("hoodie.table.name", "")

    @property
    def database(self) -> str:
        """The database's name, or `""`."""
        return self.raw.get("hoodie.database.name", "")

    @property
    def table_type(self) -> str:
        """`COPY_ON_WRITE` or `MERGE_ON_READ`."""
        return self.raw.get("hoodie.table.type", "COPY_ON_WRITE").upper()

    @property
    def version(self) -> int:
        """The table version."""
        return self._int("hoodie.table.version", 0)

    @property
    def layout_version(self) -> int:
        """Timeline layout: 1 up to table version 7, 2 from version 8 on."""
        return self._int("hoodie.timeline.layout.version", LAYOUTS.get(self.version, 1))

    @functools.cached_property
    def record_key_fields(self) -> tuple[str, ...]:
        """Fields of the record key; empty if Hudi generates keys."""
        return self._list("hoodie.table.recordkey.fields")

    @functools.cached_property
    def partition_fields(self) -> tuple[str, ...]:
        """Fields of the partition path, without the type suffix of custom key generators."""
        return tuple(name.split(":", 1)[0] for name in self._list("hoodie.table.partition.fields"))

    @property
    def key_columns(self) -> list[str]:
        """The columns of the record key; of a nested field the one that holds it."""
        return list(dict.fromkeys(field.split(".", 1)[0] for field in self.record_key_fields))

    @property
    def identity_columns(self) -> list[str]:
        """The columns of the record key and then those of the partition path, each once."""
        partition = (field.split(".", 1)[0] for field in self.partition_fields)
        return list(dict.fromkeys((*self.key_columns, *partition)))

    @functools.cached_property
    def ordering_fields(self) -> tuple[str, ...]:
        """Fields that order versions of a record (ordering fields of 1.1 and later, else the precombine field)."""
        return self._list("hoodie.table.ordering.fields") or self._list("hoodie.table.precombine.field")

    @functools.cached_property
    def key_generator(self) -> KeyGeneratorType:
        """The key generator, from its type or its class; inferred as by Apache if neither is set."""
        kind = self.raw.get("hoodie.table.keygenerator.type", "").upper().removesuffix("_AVRO")
        if kind:
            return KeyGeneratorType(kind) if kind in KeyGeneratorType.__members__ else KeyGeneratorType.OTHER
        name = self.raw.get("hoodie.table.keygenerator.class", "")
        if name:
            short = name.rsplit(".", 1)[-1].replace("AvroKeyGenerator", "KeyGenerator")
            return GENERATOR_CLASSES.get(short, KeyGeneratorType.OTHER)
        if not self.partition_fields:
            return KeyGeneratorType.NON_PARTITION
        single = len(self.partition_fields) == 1 and len(self.record_key_fields) <= 1
        return KeyGeneratorType.SIMPLE if single else KeyGeneratorType.COMPLEX

    @property
    def written_by_1x(self) -> bool:
        """Whether a 1.x release created the table: it records the key generator's type, older ones its class."""
        return "hoodie.table.keygenerator.type" in self.raw

    @property
    def hive_style(self) -> bool:
        """Whether partition folders are `field=value`."""
        return self._bool("hoodie.datasource.write.hive_style_partitioning", default=False)

    @property
    def url_encode(self) -> bool:
        """Whether partition values are percent-encoded."""
        return self._bool("hoodie.datasource.write.partitionpath.urlencode", default=False)

    @property
    def populate_meta_fields(self) -> bool:
        """Whether data files have the five meta columns."""
        return self._bool("hoodie.populate.meta.fields", default=True)

    @property
    def logs_changes(self) -> bool:
        """Whether writers log the changes of rows, for queries of change data."""
        return self._bool("hoodie.table.cdc.enabled", default=False)

    @property
    def drop_partition_columns(self) -> bool:
        """Whether data files lack the partition columns."""
        return self._bool("hoodie.datasource.write.drop.partition.columns", default=False)

    @property
    def timeline_timezone(self) -> str:
        """`LOCAL` or `UTC`: the zone of instant times."""
        return self.raw.get("hoodie.table.timeline.timezone", "LOCAL").upper()

    @functools.cached_property
    def metadata_partitions(self) -> tuple[str, ...]:
        """Partitions of the metadata table that are ready for use."""
        return self._list("hoodie.table.metadata.partitions")

    @property
    def payload_class(self) -> str | None:
        """The payload class, the merge rule of tables of version 6."""
        return self.raw.get("hoodie.compaction.payload.class")

    @property
    def merge_mode(self) -> str:
        """`COMMIT_TIME_ORDERING`, `EVENT_TIME_ORDERING` or `CUSTOM`.

        If the table records none, that of the release that created it: 0.15 overwrites with the latest unless a job's
        options differ, 1.x orders by event time if there is an ordering field.
        """
        return self.recorded_merge_mode or (EVENT_TIME if self.written_by_1x and self.ordering_fields else COMMIT_TIME)

    @property
    def recorded_merge_mode(self) -> str | None:
        """The merge mode, if the table records one.

        An explicit mode wins, then the payload class, then (from table version 8 on) the merge strategy's id. Releases
        up to 0.15 record nothing in copy-on-write tables: each job's options decide.
        """
        mode = self.raw.get("hoodie.record.merge.mode", "").upper()
        if mode:
            return mode
        if self.payload_class:
            return merge_mode_of_payload(self.payload_class)
        strategy = self.raw.get("hoodie.record.merge.strategy.id", "")
        return merge_mode_of_strategy(strategy) if self.layout_version > 1 else None

    @property
    def partial_update_mode(self) -> str | None:
        """How partial records are merged (table version 9), e.g. `IGNORE_DEFAULTS`."""
        return self.raw.get("hoodie.table.partial.update.mode") or None

    @functools.cached_property
    def merge_properties(self) -> Mapping[str, str]:
        """Merge properties (table version 9), without their prefix."""
        prefix = "hoodie.record.merge.property."
        return {key.removeprefix(prefix): value for key, value in self.raw.items() if key.startswith(prefix)}

    @property
    def timeline_folder(self) -> str:
        """Folder of the active timeline: `.hoodie`, from layout 2 on a folder in it."""
        return (
            ".hoodie" if self.layout_version == 1 else f".hoodie/{self.raw.get('hoodie.timeline.path') or 'timeline'}"
        )

    @property
    def history_folder(self) -> str:
        """Folder of archived instants."""
        if self.layout_version == 1:
            return f"{self.timeline_folder}/{self.raw.get('hoodie.archivelog.folder') or 'archived'}"
        return f"{self.timeline_folder}/{self.raw.get('hoodie.timeline.history.path') or 'history'}"

    @property
    def index_type(self) -> str | None:
        """The index type, if recorded by our writer."""
        return "BUCKET" if self.bucket_file_size is not None else self.raw.get("hoodie.index.type")

    @property
    def has_buckets(self) -> bool | None:
        """Whether files are found by buckets; None if no index is recorded."""
        return None if self.index_type is None else self.index_type.upper() in _BUCKET_INDEXES

    @property
    def bucket_file_size(self) -> int | None:
        """Bytes of a file beyond which a bucket gets another file group; None where each has one."""
        return self._int(BUCKET_FILE_SIZE, 0) or None

    @property
    def bucket_count(self) -> int | None:
        """Number of buckets per partition, if recorded by our writer; Apache's writers do not."""
        return self._int("hoodie.bucket.index.num.buckets", 0) or None

    @property
    def block_size(self) -> int | None:
        """Size in bytes at which writers close a row group, if recorded."""
        return self._int("hoodie.parquet.block.size", 0) or None

    @property
    def bucket_hash_fields(self) -> tuple[str, ...] | None:
        """Hash fields of the bucket index, if recorded by our writer."""
        return self._list("hoodie.bucket.index.hash.field") or None

    @property
    def create_schema(self) -> str | None:
        """The Avro schema given at creation, without meta columns."""
        return self.raw.get("hoodie.table.create.schema")

    @property
    def checksum(self) -> int:
        """Expected `hoodie.table.checksum`: CRC-32 of `<database>.<name>`."""
        return zlib.crc32(f"{self.database}.{self.name}".encode())

    def _int(self, key: str, default: int) -> int:
        text = self.raw.get(key, "").strip()
        if not text:
            return default
        try:
            return int(text)
        except ValueError as error:
            raise OptionError(f"{PROPERTIES_PATH}: {key}={text!r} is not a whole number") from error

    def _bool(self, key: str, *, default: bool) -> bool:
        text = self.raw.get(key, "").strip().lower()
        if text not in ("", "true", "false"):
            raise OptionError(f"{PROPERTIES_PATH}: {key}={text!r} is neither true nor false")
        return text == "true" if text else default

    def _list(self, key: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.raw.get(key, "").split(",") if part.strip())


def merge_mode_of_payload(class_name: str) -> str:
    """Merge mode of a payload class, with or without its package; `CUSTOM` for unknown classes."""
    short = class_name.rsplit(".", 1)[-1]
    if short in _EVENT_TIME_PAYLOADS:
        return EVENT_TIME
    return COMMIT_TIME if short in _COMMIT_TIME_PAYLOADS else CUSTOM


def merge_mode_of_strategy(strategy: str) -> str | None:
    """Merge mode of a merge strategy's id; None for an unknown one."""
    return _STRATEGIES.get(strategy.lower())


def load_table_config(storage: Storage) -> TableConfig:
    """Read a table's properties, from the backup during an update or after an interrupted one.

    Raises:
        TableNotFoundError: there are no properties.
        CorruptFileError: they are malformed or the checksum does not match, in the backup too.
        UnsupportedTableError: the table version, timeline layout or kind of table is not supported.
    """
    config = _load_raw(storage)
    version = config.version
    if version not in LAYOUTS:
        raise UnsupportedTableError(
            f"{storage.uri}: table version {version}; this release reads {', '.join(map(str, LAYOUTS))} and writes "
            f"{', '.join(map(str, WRITABLE_VERSIONS))}; upgrade or downgrade the table with Apache Hudi"
        )
    if config.layout_version != LAYOUTS[version]:
        raise UnsupportedTableError(
            f"{storage.uri}: hoodie.timeline.layout.version={config.layout_version} does not go with table version "
            f"{version}; its layout is {LAYOUTS[version]}; restore hoodie.properties"
        )
    _refuse_other_kinds(config, storage.uri)
    return config


def _refuse_other_kinds(config: TableConfig, uri: str) -> None:
    """Refuse bootstrapped tables and other table formats, whose rows or timeline are elsewhere."""
    bootstrapped = config.raw.get("hoodie.bootstrap.base.path")
    if bootstrapped:
        raise UnsupportedTableError(
            f"{uri}: a table bootstrapped from {bootstrapped}, where its rows may still be; copy it with Apache Hudi "
            "into a table of its own, or read it with Apache Hudi"
        )
    table_format = config.raw.get("hoodie.table.format") or "native"
    if table_format.lower() != "native":
        raise UnsupportedTableError(
            f"{uri}: hoodie.table.format={table_format}; only native tables are read; read it with that format"
        )
    for key in (BASE_FILE_FORMAT, "hoodie.table.ro.file.format"):
        file_format = config.raw.get(key, "").strip() or "PARQUET"
        if file_format.upper() != "PARQUET":
            raise UnsupportedTableError(
                f"{uri}: {key}={file_format}; base files are read in Parquet only. Copy the table with Apache Hudi "
                f"into one with {BASE_FILE_FORMAT}=PARQUET"
            )


def require_writable(config: TableConfig, uri: str) -> None:
    """Refuse to change a table that is supported for reading only.

    Raises:
        UnsupportedTableError: it is of another version, merge-on-read, or with logged changes.
    """
    if config.version not in WRITABLE_VERSIONS:
        raise UnsupportedTableError(
            f"{uri}: tables of version {config.version} are read, not written; this release writes version "
            f"{', '.join(map(str, WRITABLE_VERSIONS))}. Write to it by Apache Hudi"
        )
    if config.table_type != "COPY_ON_WRITE":
        raise UnsupportedTableError(
            f"{uri}: {config.table_type} tables are read, not written; write to it by Apache Hudi"
        )
    if config.logs_changes:
        raise UnsupportedTableError(
            f"{uri}: tables with change data (hoodie.table.cdc.enabled=true) are read, not written: queries of changes "
            "would miss ours. Write to it by Apache Hudi"
        )


def _load_raw(storage: Storage) -> TableConfig:
    failure: CorruptFileError | None = None
    # the third attempt is for an update that ended between the first two
    for path in (PROPERTIES_PATH, BACKUP_PATH, PROPERTIES_PATH):
        try:
            config = parse_table_config(storage.read(path), path)
        except MissingFileError:
            continue
        except StorageError as error:
            if isinstance(error.__cause__, NotADirectoryError):
                raise TableNotFoundError(f"{storage.uri} is a file, and not the folder of a Hudi table") from error
            raise
        except CorruptFileError as error:
            failure = failure or error
            continue
        if path == PROPERTIES_PATH and CHECKSUM not in config.raw and storage.exists(BACKUP_PATH):
            # a Java writer may have written only half of the file, without the checksum
            with contextlib.suppress(MissingFileError, CorruptFileError):
                return parse_table_config(storage.read(BACKUP_PATH), BACKUP_PATH)
        return config
    if failure is not None:
        raise failure
    literal = "; % in file: URIs stands for itself, so give the path" if _ESCAPED.match(storage.uri) else ""
    raise TableNotFoundError(f"{storage.uri}: no Hudi table here (there is no {PROPERTIES_PATH}{literal})")


def parse_table_config(data: bytes, path: str) -> TableConfig:
    """Parse properties and verify their checksum, if they have one.

    Raises:
        CorruptFileError: the checksum does not match, or there is no table name.
    """
    config = TableConfig(parse_properties(data, path))
    if not config.name:
        raise CorruptFileError(path, 0, "hoodie.table.name is missing; the file is cut off, or not a table's")
    stored = config.raw.get(CHECKSUM)
    if stored is not None and stored != str(config.checksum):
        raise CorruptFileError(
            path,
            max(0, data.find(CHECKSUM.encode())),
            f"{CHECKSUM} is {stored}, but {config.database}.{config.name} gives {config.checksum}",
        )
    return config


def create_table_config(storage: Storage, values: Mapping[str, str]) -> TableConfig:
    """Write the properties of a new table.

    Raises:
        TableExistsError: there is a table already.
    """
    if storage.exists(PROPERTIES_PATH) or storage.exists(BACKUP_PATH):
        raise TableExistsError(f"{storage.uri}: there is a Hudi table already")
    config = _with_checksum(values)
    storage.create(PROPERTIES_PATH, _format(config))
    return config


def update_table_config(storage: Storage, changes: Mapping[str, str | None]) -> TableConfig:
    """Update properties by Hudi's protocol: the backup first, so that readers always find one of the two.

    Callers with concurrent writers hold the table lock.

    Args:
        storage: rooted at the table's base folder.
        changes: new values by key; None removes a key.

    Raises:
        TransactionError: another writer changed the file meanwhile.
    """
    recover_table_config(storage)
    current = _load_raw(storage)
    values = {key: value for key, value in current.raw.items() if key not in changes}
    values |= {key: value for key, value in changes.items() if value is not None}
    config = _with_checksum(values)
    storage.create(BACKUP_PATH, _format(current))
    storage.overwrite(PROPERTIES_PATH, _format(config))
    if parse_table_config(storage.read(PROPERTIES_PATH), PROPERTIES_PATH).raw != config.raw:
        raise TransactionError(f"{storage.uri}: {PROPERTIES_PATH} changed while it was being written; try again")
    storage.delete(BACKUP_PATH)
    return config


def recover_table_config(storage: Storage) -> bool:
    """Recover from an interrupted update: restore the properties from the backup, then delete the backup.

    Returns:
        Whether there was one.
    """
    if not storage.exists(BACKUP_PATH):
        return False
    backup = storage.read(BACKUP_PATH)
    try:
        parse_table_config(storage.read(PROPERTIES_PATH), PROPERTIES_PATH)
    except (MissingFileError, CorruptFileError):
        parse_table_config(backup, BACKUP_PATH)
        storage.overwrite(PROPERTIES_PATH, backup)
    storage.delete(BACKUP_PATH)
    return True


def _with_checksum(values: Mapping[str, str]) -> TableConfig:
    config = TableConfig(dict(values))
    return TableConfig({**values, CHECKSUM: str(config.checksum)})


def _format(config: TableConfig) -> bytes:
    return format_properties(config.raw, f"Updated at {dt.datetime.now(dt.UTC).isoformat()}")
