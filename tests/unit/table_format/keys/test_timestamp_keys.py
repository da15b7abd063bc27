"""The timestamp-based key generator; expected paths are those of Apache Hudi's own (0.15.0 and 1.2.0, JVM in UTC)."""

import pyarrow as pa
import pytest

from table_format.errors import OptionError, RecordError
from table_format.keys.key_generator import KeyGenerator, key_spec_of_properties

MS = pa.array([1705489200123])
MICROS = pa.array([1285001107105678], pa.timestamp("us", "UTC"))
LONG = pa.array([-5])
TEXT = pa.array(["2023-04-03T12:01:00.123Z"])
NULL_TEXT, NULL_LONG = pa.nulls(1, pa.string()), pa.nulls(1, pa.int64())
ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSZ"
EVERY_LETTER = "yyyy MMM EEE EEEE MMMM D e w xxxx hh a kk yy Z ZZ"


def _path(column, **settings):
    properties = {
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "t",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.output.timezone": "UTC",
        **{
            f"hoodie.keygen.timebased.{key.replace('_', '.')}": value
            for key, value in settings.items()
            if "hoodie" not in key
        },
        **{key: value for key, value in settings.items() if "hoodie" in key},
    }
    generator = KeyGenerator(key_spec_of_properties(properties))
    return generator.partition_paths(pa.table({"id": ["a"] * len(column), "t": column})).to_pylist()[0]


@pytest.mark.parametrize(
    ("column", "settings", "path"),
    [
        (MS, {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "yyyy/MM/dd/HH"}, "2024/01/17/11"),
        (
            MS,
            {
                "timestamp_type": "EPOCHMILLISECONDS",
                "output_dateformat": "yyyy-MM-dd HH:mm:ss.SSS",
                "timezone": "GMT+8:00",
                "hoodie.datasource.write.partitionpath.urlencode": "true",
                "hoodie.datasource.write.hive_style_partitioning": "true",
            },
            "t=2024-01-17 19%3A00%3A00.123",
        ),
        (
            MICROS,
            {"timestamp_type": "EPOCHMICROSECONDS", "output_dateformat": "yyyyMMdd", "output_timezone": "Asia/Kolkata"},
            "20100920",
        ),
        (
            LONG,
            {"timestamp_type": "SCALAR", "output_dateformat": "yyyy-MM-dd", "timestamp_scalar_time_unit": "days"},
            "1969-12-27",
        ),
        (
            LONG,
            {"timestamp_type": "SCALAR", "output_dateformat": "yyyy-MM-dd HH", "timestamp_scalar_time_unit": "HOURS"},
            "1969-12-31 19",
        ),
        (LONG, {"timestamp_type": "UNIX_TIMESTAMP", "output_dateformat": "yyyy-MM-dd HH:mm:ss"}, "1969-12-31 23:59:55"),
        (
            pa.array([-1], pa.date32()),
            {"timestamp_type": "SCALAR", "output_dateformat": "yyyy-MM-dd", "timestamp_scalar_time_unit": "days"},
            "1969-12-31",
        ),
        (pa.array([0.1]), {"timestamp_type": "UNIX_TIMESTAMP", "output_dateformat": "yyyy-MM-dd"}, "1970-01-01"),
        (
            TEXT,
            {"timestamp_type": "DATE_STRING", "input_dateformat": ISO, "output_dateformat": "yyyy/MM/dd/HH"},
            "2023/04/03/12",
        ),
        (
            TEXT,
            {
                "timestamp_type": "DATE_STRING",
                "input_dateformat": f"yyyy-MM-dd,{ISO}",
                "output_dateformat": "yyyy/MM/dd/HH",
                "output_timezone": "America/New_York",
            },
            "2023/04/03/08",
        ),
        (
            NULL_TEXT,
            {"timestamp_type": "DATE_STRING", "input_dateformat": ISO, "output_dateformat": "yyyy/MM/dd/HH"},
            "1970/01/01/00",
        ),
        (
            NULL_LONG,
            {"timestamp_type": "UNIX_TIMESTAMP", "output_dateformat": "yyyy/MM/dd HH:mm:ss.SSS"},
            "1970/01/01 00:00:01.000",
        ),
        (
            NULL_LONG,
            {"timestamp_type": "SCALAR", "output_dateformat": "yyyy/MM/dd", "timestamp_scalar_time_unit": "DAYS"},
            "1970/01/02",
        ),
        (
            MS,
            {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": EVERY_LETTER},
            "2024 Jan Wed Wednesday January 17 3 3 2024 11 AM 11 24 +0000 +00:00",
        ),
    ],
)
def test_paths_equal_apaches(column, settings, path):
    assert _path(column, **settings) == path


def test_text_without_an_offset_is_in_the_input_zone():
    settings = {
        "timestamp_type": "DATE_STRING",
        "input_dateformat": "yyyyMMdd HHmm",
        "output_dateformat": "yyyy-MM-dd HH:mm",
    }
    column = pa.array(["20240131 2330"])
    assert _path(column, **settings, input_timezone="Europe/Paris") == "2024-01-31 22:30"


def test_many_moments_share_paths():
    moments = pa.array(range(1_700_000_000_000, 1_700_000_000_000 + 7_200_000, 1000))
    properties = {
        "hoodie.table.recordkey.fields": "t",
        "hoodie.table.partition.fields": "t",
        "hoodie.table.keygenerator.type": "TIMESTAMP",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd-HH",
        "hoodie.keygen.timebased.timezone": "Asia/Kolkata",
    }
    paths = KeyGenerator(key_spec_of_properties(properties)).partition_paths(pa.table({"t": moments}))
    assert paths.to_pylist()[0] == "2023-11-15-03"
    assert set(paths.to_pylist()) == {"2023-11-15-03", "2023-11-15-04", "2023-11-15-05"}


def test_custom_generator_mixes_kinds():
    properties = {
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "ms:TIMESTAMP,s:SIMPLE",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
        "hoodie.keygen.timebased.timezone": "UTC",
    }
    batch = pa.table({"id": ["a"], "ms": MS, "s": ["x"]})
    generator = KeyGenerator(key_spec_of_properties(properties))
    assert generator.partition_paths(batch).to_pylist() == ["ms=2024/01/17/s=x"]
    with pytest.raises(OptionError, match="custom key generator"):
        key_spec_of_properties(properties | {"hoodie.table.partition.fields": "ms,s"})


@pytest.mark.parametrize("text", ["", "x/y", "2023-13-01"])
def test_texts_that_are_no_dates(text):
    with pytest.raises(RecordError, match=r"input\.dateformat"):
        _path(pa.array([text]), timestamp_type="DATE_STRING", input_dateformat="yyyy-MM-dd", output_dateformat="yyyy")


@pytest.mark.parametrize(
    "settings",
    [
        {"output_dateformat": "yyyy"},
        {"timestamp_type": "EPOCHMILLISECONDS"},
        {"timestamp_type": "SCALAR", "timestamp_scalar_time_unit": "WEEKS", "output_dateformat": "yyyy"},
        {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "QQ"},
        {"timestamp_type": "EPOCHMILLISECONDS", "output_dateformat": "yyyy", "timezone": "Mars/Olympus"},
    ],
)
def test_settings_that_cannot_be_used(settings):
    with pytest.raises(OptionError):
        _path(MS, **settings)


def test_a_wrong_unit_is_noticed():
    with pytest.raises(RecordError, match="years 1 to 9999"):
        _path(MICROS, timestamp_type="EPOCHMILLISECONDS", output_dateformat="yyyy")
