"""The properties of a new table from write options, and checks of options against an existing table's properties."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from table_format.codecs.avro_schema import schema_text
from table_format.config.table_config import NO_SPARK_INDEX, KeyGeneratorType, TableConfig, load_table_config
from table_format.errors import CorruptFileError, OptionError, SchemaError, UnsupportedTableError, did_you_mean
from table_format.keys.partition_buckets import REGEX, BucketRules, StoredRules, agreed_rules, claimed_rules
from table_format.table.bucket_counts import RESIZES, RULES, announced_rules
from table_format.table.client import TableClient
from table_writer.plan import option_registry as registry
from table_writer.plan.bucket_options import BUCKET_FILES, PARTITION_BUCKETS, PARTITION_RULE
from table_writer.plan.merge_rule import check_merge_rule, given_merge_mode, new_table_rule, ordering_properties
from table_writer.plan.option import Option
from table_writer.plan.options import WriteOptions

_LOG = logging.getLogger(__name__)
_GENERATORS: Final = {
    KeyGeneratorType.SIMPLE: "org.apache.hudi.keygen.SimpleKeyGenerator",
    KeyGeneratorType.COMPLEX: "org.apache.hudi.keygen.ComplexKeyGenerator",
    KeyGeneratorType.NON_PARTITION: "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    KeyGeneratorType.TIMESTAMP: "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    KeyGeneratorType.CUSTOM: "org.apache.hudi.keygen.CustomKeyGenerator",
}
_KEPT_PREFIXES: Final = (
    "hoodie.keygen.timebased.",
    "hoodie.keygen.datetime.",
    "hoodie.datasource.write.slash.separated.",
)
_SAME_INDEX: Final = {
    "BUCKET_HASH_INDEX": "BUCKET",
    "BUCKET_INDEX": "BUCKET",
    "GLOBAL_RECORD_LEVEL_INDEX": "RECORD_INDEX",
}
_RECORD_INDEXES: Final = ("RECORD_INDEX", "RECORD_LEVEL_INDEX")


def new_table_properties(options: WriteOptions, schema: pa.Schema | None) -> dict[str, str]:
    """Properties of a new table.

    The key generator is stored by its class and the merge rule by its payload class, which releases 0.15 and 1.x both
    read. The index, the bucket count and hash fields are extra keys, which Apache's writers keep and ignore.

    Args:
        options: of the job.
        schema: user columns, if known.

    Raises:
        OptionError: the table's name or record key is missing or no such, or options contradict each other.
        SchemaError: a key, partition or ordering column is not among the columns, or has a nested type.
    """
    name = options.text(registry.TABLE_NAME)
    keys = options.names(registry.RECORD_KEY)
    if not name:
        raise OptionError(f"{registry.TABLE_NAME.key} is missing: a new table needs a name")
    if not name.isprintable() or not {"/", "\\"}.isdisjoint(name):
        raise OptionError(f"{registry.TABLE_NAME.key}={name!r}: a table's name has no slashes or control characters")
    if not keys:
        raise OptionError(f"{registry.RECORD_KEY.key} is missing: a new table needs a record key")
    partitions = tuple(entry.split(":", 1)[0] for entry in options.names(registry.PARTITION_PATH))
    ordering = options.names(registry.ORDERING)
    named = {registry.RECORD_KEY: keys, registry.PARTITION_PATH: partitions, registry.ORDERING: ordering}
    for option, columns in named.items():
        twice = next((column for column in columns if columns.count(column) > 1), None)
        if twice is not None:
            raise OptionError(f"{option.key}={','.join(columns)}: {twice} stands twice")
    if schema is not None:
        _refuse_absent(schema, named)
    properties = {
        "hoodie.table.name": name,
        "hoodie.database.name": options.text(registry.DATABASE),
        "hoodie.table.type": "COPY_ON_WRITE",
        "hoodie.table.version": "6",
        "hoodie.timeline.layout.version": "1",
        "hoodie.table.recordkey.fields": ",".join(keys),
        "hoodie.table.partition.fields": ",".join(partitions) or None,
        **ordering_properties(ordering),
        "hoodie.table.keygenerator.class": _GENERATORS[_generator(options, keys, partitions)],
        "hoodie.datasource.write.hive_style_partitioning": options.text(registry.HIVE_STYLE),
        "hoodie.datasource.write.partitionpath.urlencode": options.text(registry.URL_ENCODE),
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.compaction.payload.class": new_table_rule(options, ordering),
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.timeline.timezone": options.text(registry.TIMEZONE),
        "hoodie.archivelog.folder": "archived",
        "hoodie.populate.meta.fields": "true",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.table.create.schema": None if schema is None else schema_text(schema, name),
        **_index_properties(options, keys),
        registry.COLUMN_STATS_LIST.key: options.text(registry.COLUMN_STATS_LIST),
    }
    declared = {key: text for key, text in options.texts.items() if key.startswith(_KEPT_PREFIXES)}
    return {key: text for key, text in properties.items() if text is not None} | declared


def refuse_kinds(config: TableConfig) -> None:
    """Refuse tables that no option makes writable.

    Raises:
        UnsupportedTableError: rows have no record keys, or files lack columns that ours have.
    """
    for lacks, kind in (
        (not config.populate_meta_fields, "whose files have no meta columns (hoodie.populate.meta.fields=false)"),
        (
            config.drop_partition_columns,
            "whose files have no partition columns (hoodie.datasource.write.drop.partition.columns=true)",
        ),
        (not config.record_key_fields, "without record keys (hoodie.table.recordkey.fields)"),
    ):
        if lacks:
            raise UnsupportedTableError(f"a table {kind} can be read, and is not written; write it with Apache Hudi")


def check_against_table(options: WriteOptions, config: TableConfig) -> None:
    """Refuse options that contradict the table, and tables that cannot be written.

    Raises:
        OptionError: an option differs from the table's property; both values are named.
        UnsupportedTableError: the table's merge rule, key generator or files are not supported.
    """
    refuse_kinds(config)
    for key, chosen, stored in _comparisons(options, config):
        if chosen != stored:
            raise OptionError(
                f"{key}={chosen!r}, but the table has {stored!r}: leave the option out, or write to another table"
            )
    check_merge_rule(options, config)
    index_type(options, config)


def _refuse_absent(schema: pa.Schema, fields: Mapping[Option, Sequence[str]]) -> None:
    for option, names in fields.items():
        for name in names:
            members: Any = schema
            if "." in name and name in schema.names:
                raise SchemaError(
                    f"column {name!r}, of {option.key}: names with dots are not supported; rename the column"
                )
            for part in name.split("."):
                known = [members.field(index).name for index in range(_member_count(members))]
                if part not in known:
                    raise SchemaError(
                        f"{option.key} names {name!r}, but the table's columns will be {schema.names}"
                        f"{did_you_mean(part, known)}"
                    )
                members = members.field(part).type
            if pa.types.is_nested(members):
                lack = "has no order" if option is registry.ORDERING else "cannot be part of a key or partition path"
                raise SchemaError(f"{option.key} names {name!r}, which is {members}: such a column {lack}")


def _member_count(kind: Any) -> int:
    """Number of fields of a schema or a struct type; 0 for other types."""
    return len(kind) if isinstance(kind, pa.Schema) else kind.num_fields if pa.types.is_struct(kind) else 0


def index_type(options: WriteOptions, config: TableConfig) -> str:
    """The index by which a write finds files: `BUCKET`, `RECORD_INDEX` or (one per partition) `RECORD_LEVEL_INDEX`.

    Raises:
        UnsupportedTableError: the table has another one.
    """
    kind = _plain_index(config.index_type or options.text(registry.INDEX_TYPE) or "BUCKET")
    if kind != "BUCKET" and kind not in _RECORD_INDEXES:
        raise UnsupportedTableError(
            f"the table has the index {kind}; only BUCKET and RECORD_INDEX are supported: write to it by Apache Hudi"
        )
    return kind


def bucket_count(options: WriteOptions, config: TableConfig) -> int:
    """File groups per partition, as the table records it or, for Apache's tables, as the job gives it.

    Raises:
        OptionError: neither has it.
    """
    if config.bucket_count is not None:
        return config.bucket_count
    if not options.is_set(registry.BUCKETS):
        raise OptionError(
            f"this table does not record its bucket count, as Apache's do not: give {registry.BUCKETS.key} as the jobs "
            f"that wrote it did (Apache's default is 256), or {registry.INDEX_TYPE.key}=RECORD_INDEX to use its record "
            "index"
        )
    return int(options.texts[registry.BUCKETS.key])


def warn_of_other_count(options: WriteOptions, config: TableConfig) -> None:
    """Warn of a job whose bucket count is not the table's, which was resized since."""
    chosen = options.texts.get(registry.BUCKETS.key)
    if chosen is not None and config.bucket_count is not None and chosen != str(config.bucket_count):
        _LOG.warning(
            "%s: this table was resized to %d buckets, which count; %s=%s of this job does not: leave the option out",
            config.name,
            config.bucket_count,
            registry.BUCKETS.key,
            chosen,
        )
    rules, given = config.raw.get(PARTITION_BUCKETS.key, ""), options.texts.get(PARTITION_BUCKETS.key)
    if given is not None and config.raw.get(RULES) and given != rules:
        _LOG.warning(
            "%s: partitions of this table were resized, and %s=%s counts; %s of this job does not: leave it out",
            config.name,
            PARTITION_BUCKETS.key,
            rules,
            given,
        )


def bucket_rules(options: WriteOptions, config: TableConfig) -> BucketRules | None:
    """Bucket counts by partition, as the table records them or, for Apache's tables, as the job gives them.

    Raises:
        OptionError: they are malformed.
    """
    if config.bucket_count is not None:
        return claimed_rules(config.raw, config.bucket_count)
    if not options.is_set(PARTITION_BUCKETS) or index_type(options, config) != "BUCKET":
        return None
    return claimed_rules(options.texts, bucket_count(options, config))


def checked_rules(
    options: WriteOptions, client: TableClient, is_committed: Callable[[str], bool], *, recorded: bool = False
) -> BucketRules | None:
    """`bucket_rules`, where the table's file of rules agrees.

    Apache's jobs from 1.1 on obey rules among their own options without recording them anywhere. A write goes by
    these, too, as it goes by a job's bucket count, and base files show whether they can be right
    (`slots.current.refuse_other_count`).

    Args:
        options: of the job.
        client: the table.
        is_committed: whether the write of an instant completed.
        recorded: refuse rules that only the job has.

    Raises:
        OptionError: rules are malformed.
        UnsupportedTableError: the table has other ones, or they are not understood.
    """
    uri = client.storage.uri
    try:
        # properties as they are now: a resize names its file there first
        stored = StoredRules.load(
            client.storage, is_committed, lambda: announced_rules(load_table_config(client.storage))
        )
    except CorruptFileError as error:
        raise UnsupportedTableError(f"{uri}: bucket counts differ between partitions: {error}") from error
    claimed = bucket_rules(options, client.config)
    if claimed is not None and stored is None and client.config.bucket_count is None:
        if recorded:
            raise UnsupportedTableError(
                f"{uri}: only the job's options give bucket counts by partition ({PARTITION_BUCKETS.key}="
                f"{claimed.expressions!r}); the table has no file of rules in .hoodie/.bucket_index. Such a table is "
                "written and not resized: copy it into a new table with the counts that you want"
            )
        return claimed
    return agreed_rules(claimed, stored, uri)


def lacks_bucket_count(options: WriteOptions, config: TableConfig) -> bool:
    """Whether a table of ours with buckets has no bucket count yet, so that its first write decides it."""
    if config.bucket_count is not None or options.is_set(registry.BUCKETS):
        return False
    return config.index_type is not None and _plain_index(config.index_type) == "BUCKET"


def hash_fields(options: WriteOptions, config: TableConfig) -> tuple[str, ...]:
    """Fields that decide the bucket."""
    return config.bucket_hash_fields or _hash_fields(options, config.record_key_fields)


def adopted_file_size(options: WriteOptions, config: TableConfig) -> dict[str, str]:
    """Properties by which buckets may have several file groups from this write on, where the job says so.

    Apache's bucket writers know one file group of each bucket only, and its other writers no buckets. So the index
    type that the table records is one with which its Spark jobs fail, also those that do not name an index.

    Raises:
        OptionError: the table has no buckets, or is one of Apache's, whose other jobs would be shut out.
    """
    size = options.texts.get(BUCKET_FILES.key)
    if size is None or size == config.raw.get(BUCKET_FILES.key):
        return {}
    if index_type(options, config) != "BUCKET":
        raise OptionError(f"{BUCKET_FILES.key}={size}: the table has no buckets; {registry.FILE_SIZE.key} is the like")
    if config.index_type is None:
        raise OptionError(
            f"{BUCKET_FILES.key}={size}: another tool made this table, and its jobs could not write it any more; copy "
            "it into a table of ours"
        )
    return {registry.INDEX_TYPE.key: NO_SPARK_INDEX, BUCKET_FILES.key: size}


def _plain_index(name: str) -> str:
    return _SAME_INDEX.get(name.upper(), name.upper())


def _index_properties(options: WriteOptions, keys: tuple[str, ...]) -> dict[str, str | None]:
    """Properties of a new table about its index.

    Raises:
        OptionError: a record index without the metadata table that holds it.
    """
    kind = _plain_index(options.text(registry.INDEX_TYPE) or "BUCKET")
    size = options.texts.get(BUCKET_FILES.key)
    if kind == "BUCKET":
        return {
            registry.INDEX_TYPE.key: kind if size is None else NO_SPARK_INDEX,
            BUCKET_FILES.key: size,
            registry.BUCKETS.key: options.text(registry.BUCKETS),
            registry.HASH_FIELDS.key: ",".join(_hash_fields(options, keys)),
            **_rule_properties(options),
        }
    if not options.flag(registry.METADATA):
        raise OptionError(
            f"{registry.INDEX_TYPE.key}={kind} needs the metadata table, which {registry.METADATA.key}=false turns off"
        )
    buckets = options.text(registry.BUCKETS) if options.is_set(registry.BUCKETS) else None
    for key, text in ((registry.BUCKETS.key, buckets), (BUCKET_FILES.key, size)):
        if text is not None:
            raise OptionError(f"{key}={text!r}: a table with {kind} has no buckets; leave it out")
    return {registry.INDEX_TYPE.key: kind}


def _rule_properties(options: WriteOptions) -> dict[str, str]:
    """Properties of a new table about bucket counts by partition.

    Raises:
        OptionError: malformed rules, no partitions, or no count for other partitions.
    """
    buckets = int(options.texts[registry.BUCKETS.key]) if options.is_set(registry.BUCKETS) else None
    rules = claimed_rules(options.texts, buckets)
    if rules is None:
        return {}
    if not options.names(registry.PARTITION_PATH):
        raise OptionError(f"{PARTITION_BUCKETS.key}: a table without partitions has one number of buckets")
    return {PARTITION_BUCKETS.key: rules.expressions, PARTITION_RULE.key: REGEX}


def _comparisons(options: WriteOptions, config: TableConfig) -> Iterator[tuple[str, str, str]]:
    """Key, value of the job and value of the table, for each option that both have."""
    lists = (
        (registry.RECORD_KEY, config.record_key_fields),
        (registry.PARTITION_PATH, config.partition_fields),
        (registry.ORDERING, config.ordering_fields),
        (registry.HASH_FIELDS, config.bucket_hash_fields),
    )
    for option, stored in lists:
        if options.is_set(option) and stored is not None:
            names = ",".join(name.split(":", 1)[0] for name in options.names(option))
            yield option.key, names, ",".join(stored)
    texts = (
        (registry.TABLE_NAME, config.name),
        (registry.DATABASE, config.database),
        (registry.TABLE_TYPE, config.table_type),
        (registry.HIVE_STYLE, str(config.hive_style).lower()),
        (registry.URL_ENCODE, str(config.url_encode).lower()),
        (registry.BUCKETS, _fixed_count(config)),
        (PARTITION_BUCKETS, _stored_rules(config)),
        (registry.COLUMN_STATS_LIST, _stored_list(config)),
    )
    if options.is_set(registry.INDEX_TYPE) and config.index_type is not None:
        index = options.texts[registry.INDEX_TYPE.key]
        yield registry.INDEX_TYPE.key, _plain_index(index), _plain_index(config.index_type)
    for option, text in texts:
        chosen = options.texts.get(option.key)
        if chosen is not None and text is not None:
            yield option.key, chosen, text
    if options.is_set(registry.KEY_GENERATOR) or options.is_set(registry.KEY_GENERATOR_TYPE):
        yield registry.KEY_GENERATOR.key, _chosen_generator(options).name, config.key_generator.name
    mode = given_merge_mode(options)
    if mode is not None:
        yield registry.PAYLOAD.key, mode, config.merge_mode


def _fixed_count(config: TableConfig) -> str | None:
    """The table's bucket count; None if jobs may still give an older one, since a resize has changed it."""
    return None if config.bucket_count is None or config.raw.get(RESIZES) else str(config.bucket_count)


def _stored_rules(config: TableConfig) -> str | None:
    """Bucket counts by partition of a table that records its count, empty for none; None as for `_fixed_count`."""
    changed = config.bucket_count is None or config.raw.get(RULES)
    return None if changed else config.raw.get(PARTITION_BUCKETS.key, "")


def _stored_list(config: TableConfig) -> str | None:
    """Columns with statistics; a table of ours without a list has them for all columns."""
    stored = config.raw.get(registry.COLUMN_STATS_LIST.key)
    return stored if stored is not None or config.bucket_count is None else ""


def _generator(options: WriteOptions, keys: tuple[str, ...], partitions: tuple[str, ...]) -> KeyGeneratorType:
    if options.is_set(registry.KEY_GENERATOR) or options.is_set(registry.KEY_GENERATOR_TYPE):
        return _chosen_generator(options)
    if not partitions:
        return KeyGeneratorType.NON_PARTITION
    return KeyGeneratorType.SIMPLE if len(keys) == len(partitions) == 1 else KeyGeneratorType.COMPLEX


def _chosen_generator(options: WriteOptions) -> KeyGeneratorType:
    raw = {
        "hoodie.table.keygenerator.class": options.text(registry.KEY_GENERATOR),
        "hoodie.table.keygenerator.type": options.text(registry.KEY_GENERATOR_TYPE),
    }
    kinds = {TableConfig({key: text}).key_generator for key, text in raw.items() if text}
    names = ", ".join(text for text in raw.values() if text)
    if len(kinds) > 1:
        raise OptionError(f"the key generators {names} contradict each other; give one")
    kind = kinds.pop()
    if kind not in _GENERATORS:
        raise OptionError(f"{registry.KEY_GENERATOR.key}={names!r} is not supported; give one of {_known()}")
    return kind


def _known() -> str:
    return ", ".join(text.rsplit(".", 1)[-1] for text in _GENERATORS.values())


def _hash_fields(options: WriteOptions, keys: tuple[str, ...]) -> tuple[str, ...]:
    fields = options.names(registry.HASH_FIELDS) or keys
    extra = [field for field in fields if field not in keys]
    if extra:
        hint = did_you_mean(extra[0], keys)
        raise OptionError(
            f"{registry.HASH_FIELDS.key} names {extra}, which are not record key fields {list(keys)}{hint}"
        )
    return fields
