"""Key generators: record keys and partition paths of rows, as in Hudi."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.config.table_config import GENERATOR_CLASSES, KeyGeneratorType
from table_format.errors import OptionError, RecordError
from table_format.keys.bucket_index import EMPTY_KEY_PART, NULL_KEY_PART, BucketHashRule, bucket_ids_of_keys
from table_format.keys.java_hash import Int32Array, UInt32Array, buckets_of_hashes, java_string_hash, list_hash_of
from table_format.keys.key_text import key_texts, raw_column, text_column
from table_format.keys.number_texts import Numbers, joined_numbers, number_hashes, numbers_of
from table_format.keys.partition_values import path_segment
from table_format.keys.timestamp_keys import TimestampFormat

Batch = pa.Table | pa.RecordBatch
SingleKeyForm = Literal["value", "field:value"]
GENERATORS = tuple(kind.value for kind in KeyGeneratorType if kind is not KeyGeneratorType.OTHER)
_CONSISTENT_TIMESTAMPS = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"


class HasProperties(Protocol):
    """An object with table properties, such as `TableConfig`."""

    @property
    def raw(self) -> Mapping[str, str]:
        """The properties in `hoodie.properties`."""


@dataclass(frozen=True, slots=True)
class KeySpec:
    """Settings of a table's key generator.

    Attributes:
        record_key_fields: `hoodie.table.recordkey.fields`, in order.
        partition_fields: `hoodie.table.partition.fields`, in order, without `:SIMPLE` and the like.
        generator: one of `GENERATORS`.
        hive_style: partition segments are `field=value`.
        url_encode: partition values are escaped.
        slash_dates: replace dashes of partition values by slashes (releases from 1.2 on).
        complex_single_field_form: form of keys of a complex generator with one field. Releases 0.14.1 to 1.0 write the
            value; 0.14.0, and from 1.1 on, `field:value`. A table must have one form only.
        timestamp_fields: the partition fields formatted by `timestamp_format`.
        timestamp_format: set if there are such fields.
    """

    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...] = ()
    generator: str = "SIMPLE"
    hive_style: bool = False
    url_encode: bool = False
    slash_dates: bool = False
    complex_single_field_form: SingleKeyForm = "value"
    timestamp_fields: tuple[str, ...] = ()
    timestamp_format: TimestampFormat | None = None

    def __post_init__(self) -> None:
        if self.generator not in GENERATORS:
            raise OptionError(f"key generator {self.generator!r} is not supported; one of {', '.join(GENERATORS)} is")
        if not self.record_key_fields:
            raise OptionError("hoodie.table.recordkey.fields is empty: write to it by Apache Hudi")
        one_partition = self.generator in ("SIMPLE", "TIMESTAMP")
        if one_partition and len(self.partition_fields) != 1:
            raise OptionError(
                f"a {self.generator} key generator takes one partition field, not {self.partition_fields}"
            )
        if one_partition and len(self.record_key_fields) != 1:
            raise OptionError(
                f"a {self.generator} key generator takes one record key field, not {self.record_key_fields}; "
                "use the COMPLEX one"
            )

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the record key; of a nested field the one that holds it."""
        return tuple(dict.fromkeys(field.split(".", 1)[0] for field in self.record_key_fields))

    @property
    def prefixed(self) -> bool:
        """Whether record keys are `field:value,…` rather than a plain value."""
        if len(self.record_key_fields) > 1 or self.generator == "GLOBAL_DELETE":
            return True
        return self.generator == "COMPLEX" and self.complex_single_field_form == "field:value"

    @property
    def is_partitioned(self) -> bool:
        """Whether the table has partitions."""
        return bool(self.partition_fields) and self.generator not in ("NON_PARTITION", "GLOBAL_DELETE")


def key_spec_of_properties(properties: Mapping[str, str], *, single_field_form: SingleKeyForm | None = None) -> KeySpec:
    """Read the key generator's settings from table properties.

    Args:
        properties: `hoodie.properties`, possibly with `hoodie.write.complex.keygen.new.encoding`.
        single_field_form: detected from the table's data (`detect_single_field_form`). If None, that of the
            release that wrote the properties: those before 1.0 record a generator class and write the value.

    Raises:
        OptionError: a generator or setting that is not supported.
    """
    if _flag(properties, _CONSISTENT_TIMESTAMPS):
        raise OptionError(
            f"{_CONSISTENT_TIMESTAMPS}=true is not supported: such keys depend on the time zone of the writing machine"
        )
    generator = _generator_of(properties)
    entries = _split_list(properties.get("hoodie.table.partition.fields"))
    names = tuple(entry.partition(":")[0] for entry in entries)
    timed = _timestamp_fields(generator, entries)
    if single_field_form is None:
        new_encoding = properties.get("hoodie.write.complex.keygen.new.encoding", "").lower()
        old_style = not properties.get("hoodie.table.keygenerator.type")
        single_field_form = "value" if new_encoding == "true" or (old_style and not new_encoding) else "field:value"
    return KeySpec(
        record_key_fields=_split_list(properties.get("hoodie.table.recordkey.fields")),
        partition_fields=() if generator in ("NON_PARTITION", "GLOBAL_DELETE") else names,
        generator=generator,
        hive_style=_flag(properties, "hoodie.datasource.write.hive_style_partitioning"),
        url_encode=_flag(properties, "hoodie.datasource.write.partitionpath.urlencode"),
        slash_dates=_flag(properties, "hoodie.datasource.write.slash.separated.date.partitioning"),
        complex_single_field_form=single_field_form,
        timestamp_fields=timed,
        timestamp_format=TimestampFormat.from_options(properties) if timed else None,
    )


def from_table_config(config: HasProperties, *, single_field_form: SingleKeyForm | None = None) -> KeyGenerator:
    """Make the key generator of a table, see `key_spec_of_properties`."""
    return KeyGenerator(
        key_spec_of_properties(config.raw, single_field_form=single_field_form),
        BucketHashRule.of_properties(config.raw),
    )


def detect_single_field_form(record_key: str, value_text: str, field: str) -> SingleKeyForm | None:
    """Detect a table's form by one stored record key and the key field's value text in the same row.

    Returns:
        None if the key has neither form, as from another key generator.
    """
    if record_key == value_text:
        return "value"
    return "field:value" if record_key == f"{field}:{value_text}" else None


class KeyFields:
    """The record key fields of a batch, each converted once.

    Args:
        batch: rows with the key columns.
        fields: names of the record key fields.

    Raises:
        SchemaError: a key column is missing.
    """

    def __init__(self, batch: Batch, fields: Sequence[str]) -> None:
        self._columns: dict[str, Any] = {field: raw_column(batch, field) for field in fields}
        self._numbers = {field: numbers_of(column) for field, column in self._columns.items()}
        self._texts: dict[str, pa.Array[Any]] = {}

    def text(self, field: str) -> pa.Array[Any]:
        """The texts of a field."""
        if field not in self._texts:
            self._texts[field] = key_texts(self._columns[field], field)
        return self._texts[field]

    def hashes(self, field: str) -> UInt32Array:
        """Java's hash of each text of a field."""
        numbers = self._numbers[field]
        return java_string_hash(self.text(field)).view(np.uint32) if numbers is None else number_hashes(numbers)

    def joined(self, labels: Sequence[str]) -> pa.Array[Any] | None:
        """The texts of all fields, each after its label, without making them one by one; None where that is slower."""
        columns: list[Numbers] = [numbers for numbers in self._numbers.values() if numbers is not None]
        return joined_numbers(columns, labels) if len(columns) == len(self._columns) else None


@dataclass(frozen=True, slots=True)
class KeyGenerator:
    """Computes record keys, partition paths and buckets of batches."""

    spec: KeySpec
    hash_rule: BucketHashRule = BucketHashRule.SPLIT

    def key_fields(self, batch: Batch) -> KeyFields:
        """The record key fields, for `record_keys` and `bucket_ids` of the same rows."""
        return KeyFields(batch, self.spec.record_key_fields)

    def record_keys(self, batch: Batch, fields: KeyFields | None = None) -> pa.Array[Any]:
        """`_hoodie_record_key` of each row, a `string` array.

        Args:
            batch: rows with the key columns.
            fields: see `key_fields`, if converted already.

        Raises:
            RecordError: a row without a key: null or empty, or a composite key whose parts all are.
            SchemaError: a key column is missing or has an unsupported type.
        """
        fields = fields or self.key_fields(batch)
        prefixed, names = self.spec.prefixed, self.spec.record_key_fields
        labels = [f"{',' if i else ''}{name}:" if prefixed else "" for i, name in enumerate(names)]
        joined = fields.joined(labels)
        if joined is not None:
            return joined
        texts = [fields.text(name) for name in names]
        if not prefixed:
            _refuse(pc.fill_null(pc.equal(texts[0], ""), fill_value=True), self.spec.record_key_fields)
            return _plain(texts[0])
        always = [self._always_has_text(batch, name) for name in names]
        parts = [text if has_text else _key_part(text) for text, has_text in zip(texts, always, strict=True)]
        if not any(always):
            blank = [pc.is_in(part, pa.array([NULL_KEY_PART, EMPTY_KEY_PART])) for part in parts]
            _refuse(_all_of(blank), self.spec.record_key_fields)
        pieces = [piece for pair in zip(labels, parts, strict=True) for piece in pair]
        keys: pa.Array[Any] = pc.binary_join_element_wise(*pieces, "")
        return keys

    def partition_paths(self, batch: Batch) -> pa.Array[Any]:
        """`_hoodie_partition_path` of each row, a `string` array.

        Raises:
            RecordError: a value that cannot be a folder name.
            SchemaError: a partition column is missing or has an unsupported type.
        """
        if not self.spec.is_partitioned:
            return pa.repeat(pa.scalar("", pa.string()), batch.num_rows)
        segments = [self._segments(batch, field) for field in self.spec.partition_fields]
        paths: pa.Array[Any] = pc.binary_join_element_wise(*segments, "/") if len(segments) > 1 else segments[0]
        return paths

    def bucket_ids(
        self,
        batch: Batch,
        bucket_count: int,
        hash_fields: Sequence[str] = (),
        keys: pa.Array[Any] | None = None,
        fields: KeyFields | None = None,
    ) -> Int32Array:
        """Bucket of each row, as computed by Apache's writers from the record key.

        Args:
            batch: rows with the key columns.
            bucket_count: `hoodie.bucket.index.num.buckets`.
            hash_fields: `hoodie.bucket.index.hash.field`, a subset of the record key fields; all of them when empty.
            keys: the record keys, if computed already.
            fields: see `key_fields`, if converted already.
        """
        hashed = self._hash_fields(hash_fields)
        fields = fields or self.key_fields(batch)
        prefixed, all_fields = self.spec.prefixed, self.spec.record_key_fields
        # by either way a bucket follows from the key alone, whatever other rows the batch has
        if (prefixed and len(all_fields) == 1) or self._needs_texts(batch):
            keys = self.record_keys(batch, fields) if keys is None else keys
            return bucket_ids_of_keys(keys, hashed, bucket_count, self.hash_rule)
        hashes = [fields.hashes(field) for field in all_fields if field in hashed]
        return buckets_of_hashes(list_hash_of(hashes), bucket_count)

    def _always_has_text(self, batch: Batch, field: str) -> bool:
        """Whether no value of a key column is null or an empty text, judged by its type and nulls."""
        column = raw_column(batch, field)
        return column.null_count == 0 and pa.types.is_integer(column.type)

    def _needs_texts(self, batch: Batch) -> bool:
        """Whether a key value stands otherwise in a key's hash than in its column; numbers and dates never do.

        It has a separator of composite keys, or is a word that these have for null or an empty text.
        """
        prefixed = self.spec.prefixed
        for field in self.spec.record_key_fields:
            kind = raw_column(batch, field).type
            if pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_boolean(kind):
                continue
            text = text_column(batch, field)
            if any(pc.any(pc.match_substring(text, separator)).as_py() for separator in (":," if prefixed else ":")):
                return True
            if prefixed and pc.any(pc.is_in(text, pa.array([NULL_KEY_PART, EMPTY_KEY_PART]))).as_py():
                return True
        return False

    def _hash_fields(self, hash_fields: Sequence[str]) -> tuple[str, ...]:
        fields = tuple(hash_fields) or self.spec.record_key_fields
        extra = [field for field in fields if field not in self.spec.record_key_fields]
        if extra:
            raise OptionError(
                f"hoodie.bucket.index.hash.field names {extra}, which are not record key fields "
                f"{list(self.spec.record_key_fields)}"
            )
        return fields

    def _segments(self, batch: Batch, field: str) -> pa.Array[Any]:
        spec = self.spec
        if spec.timestamp_format is not None and field in spec.timestamp_fields:
            texts = spec.timestamp_format.partition_texts(raw_column(batch, field))
        else:
            texts = text_column(batch, field)
        encoded = pc.dictionary_encode(texts)
        distinct = [*encoded.dictionary.to_pylist(), None]
        # as Hudi 1.2 does: with hive style not at all, a single field without encoding, several after it
        slashes = spec.slash_dates and not spec.hive_style
        encode = spec.url_encode and not (slashes and len(spec.partition_fields) == 1)
        segments = [path_segment(t, field, hive_style=spec.hive_style, url_encode=encode) for t in distinct]
        if slashes:
            segments = [segment.replace("-", "/") for segment in segments]
        rows = encoded.indices.fill_null(len(distinct) - 1)
        result: pa.Array[Any] = pa.array(segments, pa.string()).take(rows)
        return result


def _key_part(text: pa.Array[Any]) -> Any:
    return pc.if_else(pc.equal(text, ""), EMPTY_KEY_PART, text).fill_null(NULL_KEY_PART)


def _all_of(masks: Sequence[Any]) -> Any:
    result = masks[0]
    for mask in masks[1:]:
        result = pc.and_(result, mask)
    return result


def _plain(text: Any) -> pa.Array[Any]:
    result: pa.Array[Any] = text if pa.types.is_string(text.type) else pc.cast(text, pa.string())
    return result


def _refuse(missing: Any, fields: Sequence[str]) -> None:
    count = pc.sum(missing).as_py() or 0
    if count:
        row = int(np.flatnonzero(missing.to_numpy(zero_copy_only=False))[0])
        raise RecordError(
            f"{count} row(s) have no record key, the first is row {row} of its batch: "
            f"{', '.join(fields)} must not be null or empty"
        )


def _generator_of(properties: Mapping[str, str]) -> str:
    kind = properties.get("hoodie.table.keygenerator.type")
    if kind:
        return kind.upper()
    name = properties.get("hoodie.table.keygenerator.class", "").rpartition(".")[2].replace("Avro", "")
    if name:
        if name not in GENERATOR_CLASSES:
            raise OptionError(
                f"hoodie.table.keygenerator.class: {name!r} is not supported; {', '.join(GENERATOR_CLASSES)} are"
            )
        return GENERATOR_CLASSES[name].value
    if not _split_list(properties.get("hoodie.table.partition.fields")):
        return "NON_PARTITION"
    several = any("," in properties.get(f"hoodie.table.{key}.fields", "") for key in ("recordkey", "partition"))
    return "COMPLEX" if several else "SIMPLE"


def _timestamp_fields(generator: str, entries: Sequence[str]) -> tuple[str, ...]:
    if generator == "TIMESTAMP":
        return tuple(entries)
    if generator != "CUSTOM":
        return ()
    for entry in entries:
        if entry.partition(":")[2].upper() not in ("SIMPLE", "TIMESTAMP"):
            raise OptionError(
                f"hoodie.table.partition.fields has {entry!r}, without the kind that the custom key generator needs, "
                "as releases before 1.0 record it: give each write hoodie.datasource.write.partitionpath.field as the "
                f"table's jobs have it, such as {entry.partition(':')[0]}:SIMPLE or {entry.partition(':')[0]}:TIMESTAMP"
            )
    return tuple(entry.partition(":")[0] for entry in entries if entry.upper().endswith(":TIMESTAMP"))


def _split_list(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _flag(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "false").strip().lower() == "true"
