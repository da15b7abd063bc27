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


def values_of_paths(properties: dict[str, str], kind: pa.DataType, paths: list[str]) -> list[Any]:
    """The value of each path, `...` for paths that give none."""
    parsed = path_values(TableConfig({**SIMPLE, **properties}), pa.schema([("p", kind)]), paths)
    if isinstance(parsed, CannotPrune):
        return [...] * len(paths)
    return [value if known else ... for value, known in zip(parsed.values["p"].to_pylist(), parsed.known, strict=True)]


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
    assert values_of_paths({}, kind, paths) == values


def test_hive_style_and_encoding() -> None:
    style = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    assert values_of_paths(style, pa.string(), ["p=a", "a", "q=a", "p=", "p=a=b"]) == ["a", ..., ..., ..., "a=b"]
    encode = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    assert values_of_paths(encode, pa.string(), ["a%2Fb", "50%25", "a%2fb", "50%", "a b"]) == [
        "a/b",
        "50%",
        ...,
        ...,
        "a b",
    ]
    assert values_of_paths(style | encode, pa.string(), ["p=a%2Fb", "p=a/b"]) == ["a/b", ...]


def test_several_fields() -> None:
    config = TableConfig({"hoodie.table.keygenerator.type": "COMPLEX", "hoodie.table.partition.fields": "p,q"})
    schema = pa.schema([("q", pa.int32()), ("p", pa.string())])
    parsed = path_values(config, schema, ["a/1", "b/2/3", "__HIVE_DEFAULT_PARTITION__/4", "c"])
    assert isinstance(parsed, PathValues)
    assert parsed.known.tolist() == [True, False, True, False]
    assert parsed.values["p"].to_pylist() == ["a", None, None, None]
    assert parsed.values["q"].to_pylist() == [1, None, 4, None]
    statistics = parsed.statistics["p"]
    assert statistics.lower.to_pylist() == ["a", None, "", None]
    assert statistics.upper.to_pylist() == ["a", None, "__HIVE_DEFAULT_PARTITION__", None]
    assert statistics.null_count.to_pylist() == [0, None, None, None]


def test_a_field_of_a_type_that_paths_do_not_tell_hides_no_other() -> None:
    config = TableConfig({"hoodie.table.keygenerator.type": "COMPLEX", "hoodie.table.partition.fields": "p,q"})
    parsed = path_values(config, pa.schema([("p", pa.float64()), ("q", pa.int32())]), ["0.5/1"])
    assert isinstance(parsed, PathValues)
    assert set(parsed.statistics) == {"q"}


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
    verdict = path_values(TableConfig({**SIMPLE, **properties}), pa.schema([("p", pa.string())]), ["a"])
    assert isinstance(verdict, CannotPrune)
    assert verdict.reason


def test_columns_that_files_leave_out_are_null_in_the_default_partition() -> None:
    dropped = {**SIMPLE, "hoodie.datasource.write.drop.partition.columns": "true"}
    parsed = path_values(TableConfig(dropped), pa.schema([("p", pa.string())]), ["__HIVE_DEFAULT_PARTITION__"])
    assert isinstance(parsed, PathValues)
    assert parsed.statistics["p"].null_count.to_pylist() == [1]


TIMED = {
    "hoodie.table.keygenerator.type": "TIMESTAMP",
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.timezone": "UTC",
}
DAY = 86_400_000


def ranges(properties: dict[str, str], kind: pa.DataType, paths: list[str]) -> list[tuple[Any, Any]]:
    parsed = path_values(TableConfig({**SIMPLE, **TIMED, **properties}), pa.schema([("p", kind)]), paths)
    assert isinstance(parsed, PathValues), parsed
    assert not parsed.values
    statistics = parsed.statistics["p"]
    assert statistics.null_count.null_count == len(paths)
    pairs = [*zip(statistics.lower.to_pylist(), statistics.upper.to_pylist(), strict=True)]
    assert parsed.known.tolist() == [pair != (None, None) for pair in pairs]
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
    parsed = path_values(TableConfig(properties), schema, ["eu/1970/01/02", "eu/1970/01", "/1970/01/02"])
    assert isinstance(parsed, PathValues)
    assert parsed.known.tolist() == [True, False, False]
    assert parsed.values["r"].to_pylist() == ["eu", None, None]
    assert set(parsed.values) == {"r"}
    assert parsed.statistics["p"].lower.to_pylist()[:2] == [DAY, None]


def test_custom_key_generators_without_times_are_like_others() -> None:
    properties = {"hoodie.table.keygenerator.type": "CUSTOM", "hoodie.table.partition.fields": "p:SIMPLE"}
    assert values_of_paths(properties, pa.string(), ["a"]) == ["a"]


def test_dates_whose_dashes_became_slashes() -> None:
    slashes = {"hoodie.datasource.write.slash.separated.date.partitioning": "true"}
    paths = ["2024/02/29", "2024/2/29", "2024-02/29", "__HIVE_DEFAULT_PARTITION__"]
    assert values_of_paths(slashes, pa.date32(), paths) == [dt.date(2024, 2, 29), ..., ..., None]
    hive = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    assert values_of_paths(slashes | hive, pa.date32(), ["p=2024/02/29"]) == [dt.date(2024, 2, 29)]


def test_texts_whose_slashes_may_have_been_dashes_have_a_range() -> None:
    parsed = path_values(TableConfig(SIMPLE), pa.schema([("p", pa.string())]), ["2024/01/02", "a"])
    assert isinstance(parsed, PathValues)
    assert parsed.known.tolist() == [False, True]
    assert parsed.statistics["p"].lower.to_pylist() == ["2024-01-02", "a"]
    assert parsed.statistics["p"].upper.to_pylist() == ["2024/01/02", "a"]
    assert parsed.values["p"].to_pylist() == [None, "a"]


def test_texts_with_slashes_where_dashes_are_written_so_are_unknown() -> None:
    """Earlier releases of this project escaped the slashes."""
    settings = {
        "hoodie.datasource.write.slash.separated.date.partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
    }
    paths = ["2024%2F01%2F02", "2024/01/02", "a%2Eb", "a"]
    assert values_of_paths(settings, pa.string(), paths) == [..., ..., ..., "a"]


def test_times_that_are_texts_are_compared_by_what_paths_say() -> None:
    text = {**TIMED, "hoodie.keygen.timebased.timestamp.type": "DATE_STRING"}
    parsed = path_values(TableConfig({**SIMPLE, **text}), pa.schema([("p", pa.string())]), ["1970/01/02", "x"])
    assert isinstance(parsed, PathValues)
    assert not parsed.statistics
    assert parsed.times["p"].segments == ("1970/01/02", None)
    assert parsed.known.tolist() == [True, False]
