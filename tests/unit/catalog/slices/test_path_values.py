"""The values that partition paths give."""

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest

from catalog.slices.path_values import PathValues, path_values
from pushdown import CannotPrune
from table_format.config.table_config import TableConfig

SIMPLE = {"hoodie.table.keygenerator.type": "SIMPLE", "hoodie.table.partition.fields": "p"}


def told(properties: dict[str, str], kind: pa.DataType, paths: list[str]) -> list[Any]:
    """The value of each path, `...` for paths that give none."""
    found = path_values(TableConfig({**SIMPLE, **properties}), pa.schema([("p", kind)]), paths)
    if isinstance(found, CannotPrune):
        return [...] * len(paths)
    return [value if known else ... for value, known in zip(found.values["p"].to_pylist(), found.known, strict=True)]


@pytest.mark.parametrize(
    ("kind", "paths", "values"),
    [
        (pa.string(), ["a", "é ü", "__HIVE_DEFAULT_PARTITION__", "a=b"], ["a", "é ü", None, "a=b"]),
        (pa.string(), ["2024/01/02", "a"], [..., "a"]),
        (pa.int32(), ["5", "-7", "__HIVE_DEFAULT_PARTITION__"], [5, -7, None]),
        (pa.int32(), ["01", "+1", " 1", "1.0", "x", "99999999999", "1"], [..., ..., ..., ..., ..., ..., 1]),
        (pa.int64(), ["9223372036854775807"], [2**63 - 1]),
        (pa.bool_(), ["true", "false", "True", "1"], [True, False, ..., ...]),
        (pa.date32(), ["2024-02-29", "19700", "2024-2-9"], [dt.date(2024, 2, 29), ..., ...]),
        (pa.decimal128(6, 2), ["1.50", "1.5", "-0.01"], [decimal.Decimal("1.50"), ..., decimal.Decimal("-0.01")]),
        (pa.float64(), ["0.1"], [...]),
        (pa.float32(), ["0.1"], [...]),
        (pa.timestamp("us", "UTC"), ["1000000"], [...]),
        (pa.binary(), ["ff"], [...]),
    ],
)
def test_plain_paths(kind: pa.DataType, paths: list[str], values: list[Any]) -> None:
    assert told({}, kind, paths) == values


def test_hive_style_and_encoding() -> None:
    style = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    assert told(style, pa.string(), ["p=a", "a", "q=a", "p=", "p=a=b"]) == ["a", ..., ..., ..., "a=b"]
    encode = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    assert told(encode, pa.string(), ["a%2Fb", "50%25", "a%2fb", "50%", "a b"]) == ["a/b", "50%", ..., ..., "a b"]
    assert told(style | encode, pa.string(), ["p=a%2Fb", "p=a/b"]) == ["a/b", ...]


def test_several_fields() -> None:
    config = TableConfig({"hoodie.table.keygenerator.type": "COMPLEX", "hoodie.table.partition.fields": "p,q"})
    schema = pa.schema([("q", pa.int32()), ("p", pa.string())])
    found = path_values(config, schema, ["a/1", "b/2/3", "__HIVE_DEFAULT_PARTITION__/4", "c"])
    assert isinstance(found, PathValues)
    assert found.known.tolist() == [True, False, True, False]
    assert found.values["p"].to_pylist() == ["a", None, None, None]
    assert found.values["q"].to_pylist() == [1, None, 4, None]
    statistics = found.statistics["p"]
    assert statistics.lower.to_pylist() == ["a", None, "", None]
    assert statistics.upper.to_pylist() == ["a", None, "__HIVE_DEFAULT_PARTITION__", None]
    assert statistics.null_count.to_pylist() == [0, None, None, None]


def test_a_field_of_a_type_that_paths_do_not_tell_hides_no_other() -> None:
    config = TableConfig({"hoodie.table.keygenerator.type": "COMPLEX", "hoodie.table.partition.fields": "p,q"})
    found = path_values(config, pa.schema([("p", pa.float64()), ("q", pa.int32())]), ["0.5/1"])
    assert isinstance(found, PathValues)
    assert set(found.statistics) == {"q"}


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.table.partition.fields": ""},
        {"hoodie.table.keygenerator.type": "TIMESTAMP"},
        {"hoodie.table.keygenerator.type": "CUSTOM", "hoodie.table.partition.fields": "p"},
        {"hoodie.table.keygenerator.type": "CUSTOM", "hoodie.table.partition.fields": "p:TIMESTAMP"},
        {"hoodie.table.keygenerator.type": "SOMETHING_NEW"},
        {"hoodie.keygen.timebased.output.dateformat": "yyyy"},
        {"hoodie.table.metadata.partitions": "files,record_index"},
        {"hoodie.table.partition.fields": "gone"},
    ],
)
def test_tables_whose_paths_tell_nothing(properties: dict[str, str]) -> None:
    found = path_values(TableConfig({**SIMPLE, **properties}), pa.schema([("p", pa.string())]), ["a"])
    assert isinstance(found, CannotPrune)
    assert found.reason


def test_columns_that_files_leave_out_are_null_in_the_default_partition() -> None:
    dropped = {**SIMPLE, "hoodie.datasource.write.drop.partition.columns": "true"}
    found = path_values(TableConfig(dropped), pa.schema([("p", pa.string())]), ["__HIVE_DEFAULT_PARTITION__"])
    assert isinstance(found, PathValues)
    assert found.statistics["p"].null_count.to_pylist() == [1]


TIMED = {
    "hoodie.table.keygenerator.type": "TIMESTAMP",
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.timezone": "UTC",
}
DAY = 86_400_000


def ranges(properties: dict[str, str], kind: pa.DataType, paths: list[str]) -> list[tuple[Any, Any]]:
    found = path_values(TableConfig({**SIMPLE, **TIMED, **properties}), pa.schema([("p", kind)]), paths)
    assert isinstance(found, PathValues), found
    assert not found.values
    statistics = found.statistics["p"]
    assert statistics.null_count.null_count == len(paths)
    pairs = [*zip(statistics.lower.to_pylist(), statistics.upper.to_pylist(), strict=True)]
    assert found.known.tolist() == [pair != (None, None) for pair in pairs]
    return pairs


def test_paths_of_the_timestamp_key_generator_tell_ranges() -> None:
    paths = ["1970/01/02", "1970/1/2", "1970/01", "x", "__HIVE_DEFAULT_PARTITION__", "1969/12/31"]
    none = (None, None)
    assert ranges({}, pa.int64(), paths) == [(DAY, 2 * DAY - 1), none, none, none, none, (-DAY, -1)]
    hive = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    assert ranges(hive, pa.int64(), ["p=1970/01/02", "1970/01/02"]) == [(DAY, 2 * DAY - 1), none]
    encoded = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    assert ranges(encoded, pa.int64(), ["1970%2F01%2F02", "1970/01/02"]) == [(DAY, 2 * DAY - 1), none]


def test_custom_key_generators_mix_values_and_times() -> None:
    properties = {
        **TIMED,
        "hoodie.table.keygenerator.type": "CUSTOM",
        "hoodie.table.partition.fields": "r:SIMPLE,p:TIMESTAMP",
    }
    schema = pa.schema([("p", pa.int64()), ("r", pa.string())])
    found = path_values(TableConfig(properties), schema, ["eu/1970/01/02", "eu/1970/01", "/1970/01/02"])
    assert isinstance(found, PathValues)
    assert found.known.tolist() == [True, False, False]
    assert found.values["r"].to_pylist() == ["eu", None, None]
    assert set(found.values) == {"r"}
    assert found.statistics["p"].lower.to_pylist()[:2] == [DAY, None]


def test_custom_key_generators_without_times_are_like_others() -> None:
    properties = {"hoodie.table.keygenerator.type": "CUSTOM", "hoodie.table.partition.fields": "p:SIMPLE"}
    assert told(properties, pa.string(), ["a"]) == ["a"]


def test_dates_whose_dashes_became_slashes() -> None:
    slashes = {"hoodie.datasource.write.slash.separated.date.partitioning": "true"}
    paths = ["2024/02/29", "2024/2/29", "2024-02/29", "__HIVE_DEFAULT_PARTITION__"]
    assert told(slashes, pa.date32(), paths) == [dt.date(2024, 2, 29), ..., ..., None]
    hive = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    assert told(slashes | hive, pa.date32(), ["p=2024/02/29"]) == [dt.date(2024, 2, 29)]


def test_texts_whose_slashes_may_have_been_dashes_have_a_range() -> None:
    found = path_values(TableConfig(SIMPLE), pa.schema([("p", pa.string())]), ["2024/01/02", "a"])
    assert isinstance(found, PathValues)
    assert found.known.tolist() == [False, True]
    assert found.statistics["p"].lower.to_pylist() == ["2024-01-02", "a"]
    assert found.statistics["p"].upper.to_pylist() == ["2024/01/02", "a"]
    assert found.values["p"].to_pylist() == [None, "a"]


def test_times_that_are_texts_are_compared_by_what_paths_say() -> None:
    text = {**TIMED, "hoodie.keygen.timebased.timestamp.type": "DATE_STRING"}
    found = path_values(TableConfig({**SIMPLE, **text}), pa.schema([("p", pa.string())]), ["1970/01/02", "x"])
    assert isinstance(found, PathValues)
    assert not found.statistics
    assert found.times["p"].segments == ("1970/01/02", None)
    assert found.known.tolist() == [True, False]
