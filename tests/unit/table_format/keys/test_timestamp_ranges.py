"""The range of a column that a path of the timestamp-based key generator gives."""

import datetime as dt

import pyarrow as pa
import pytest

from table_format.errors import OptionError
from table_format.keys.timestamp_keys import TimestampFormat, bounds_of_paths, path_of_text, range_of_path

DAY = 86_400_000
HOUR = 3_600_000


def form(pattern: str = "yyyy/MM/dd", kind: str = "EPOCHMILLISECONDS", zone: str | None = "UTC") -> TimestampFormat:
    options = {"timestamp.type": kind, "output.dateformat": pattern} | ({"timezone": zone} if zone else {})
    return TimestampFormat.from_options({f"hoodie.keygen.timebased.{key}": value for key, value in options.items()})


@pytest.mark.parametrize(
    ("pattern", "text", "first", "last"),
    [
        ("yyyy/MM/dd", "1970/01/02", DAY, 2 * DAY - 1),
        ("yyyy-MM", "1970-02", 31 * DAY, 59 * DAY - 1),
        ("yyyy-MM", "1969-12", -31 * DAY, -1),
        ("yyyy", "1970", 0, 365 * DAY - 1),
        ("yyyyMMddHH", "1970010101", HOUR, 2 * HOUR - 1),
        ("yyyy-MM-dd HH:mm", "1970-01-01 00:01", 60_000, 119_999),
        ("yyyy-MM-dd HH:mm:ss", "1970-01-01 00:00:01", 1_000, 1_999),
        ("dd.MM.yyyy", "02.01.1970", DAY, 2 * DAY - 1),
        ("'day='yyyy-M-d", "day=1970-1-2", DAY, 2 * DAY - 1),
    ],
)
def test_patterns(pattern: str, text: str, first: int, last: int) -> None:
    span = range_of_path(text, form(pattern))
    assert span is not None
    assert (span.first, span.last) == (first, last)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("MM/dd", "01/02"),  # of every year
        ("yy/MM/dd", "70/01/02"),  # of every century
        ("YYYY/MM/dd", "1970/01/02"),  # before and after Christ
        ("yyyy/MM/dd/hh", "1970/01/02/03"),  # in the morning and the afternoon
        ("yyyy/dd", "1970/02"),
        ("yyyy MMM", "1970 Jan"),  # in which language?
        ("xxxx/ww", "1970/02"),
        ("yyyy-MM-dd yyyy", "1970-01-02 1970"),
        ("yyyy/MM/dd", "1970/1/2"),
        ("yyyy/MM/dd", "1970/02/30"),
        ("yyyy/MM/dd", "1970/01/02 "),
        ("yyyy/MM/dd", "12345/01/02"),
        ("yyyy", "9999"),  # the year after is none of Python's
        ("yyyy/MM/dd", "__HIVE_DEFAULT_PARTITION__"),
        ("yyyy/MM/dd", ""),
    ],
)
def test_texts_without_a_range(pattern: str, text: str) -> None:
    assert range_of_path(text, form(pattern)) is None


def test_zones_shift_the_day() -> None:
    east = range_of_path("2024/07/01", form(zone="GMT+5:30"))
    assert east is not None
    midnight = int(dt.datetime(2024, 7, 1, tzinfo=dt.UTC).timestamp() * 1000)
    assert (east.first, east.last) == (midnight - 19_800_000, midnight - 19_800_000 + DAY - 1)
    paris = range_of_path("2024/07/01", form(zone="Europe/Paris"))
    assert paris is not None
    assert (paris.first, paris.last) == (
        midnight - 5 * HOUR,
        midnight + DAY - 1 + HOUR,
    )  # two hours, and three either way
    for zone in (None, "UTC+8"):
        unsure = range_of_path("2024/07/01", form(zone=zone))
        assert unsure is not None
        assert (unsure.first, unsure.last) == (midnight - 16 * HOUR, midnight + DAY - 1 + 16 * HOUR)


@pytest.mark.parametrize(
    ("kind", "unit", "lower", "upper"),
    [
        (pa.int64(), "UNIX_TIMESTAMP", 86_400, 172_799),
        (pa.int32(), "UNIX_TIMESTAMP", 86_400, 172_799),
        (pa.int64(), "EPOCHMILLISECONDS", DAY, 2 * DAY - 1),
        (pa.int64(), "EPOCHMICROSECONDS", DAY * 1000 - 999, 2 * DAY * 1000 - 1),
        (
            pa.timestamp("us", "UTC"),
            "EPOCHMICROSECONDS",
            dt.datetime(1970, 1, 1, 23, 59, 59, 999_001, dt.UTC),
            dt.datetime(1970, 1, 2, 23, 59, 59, 999_999, dt.UTC),
        ),
    ],
)
def test_bounds_in_the_columns_type(kind: pa.DataType, unit: str, lower: object, upper: object) -> None:
    bounds = bounds_of_paths(["1970/01/02", None, "x"], form(kind=unit), kind)
    assert bounds is not None
    assert bounds[0].type == bounds[1].type == kind
    assert bounds[0].to_pylist() == [lower, None, None]
    assert bounds[1].to_pylist() == [upper, None, None]


def test_days_are_numbers_too() -> None:
    options = {"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "DAYS", "output.dateformat": "yyyy-MM"}
    scalar = TimestampFormat.from_options(
        {f"hoodie.keygen.timebased.{k}": v for k, v in options.items()} | {"hoodie.keygen.timebased.timezone": "UTC"}
    )
    bounds = bounds_of_paths(["2024-02"], scalar, pa.date32())
    assert bounds is not None
    assert [side[0].as_py() for side in bounds] == [dt.date(2024, 2, 1), dt.date(2024, 2, 29)]


def test_a_stretch_beyond_the_type_is_no_bound() -> None:
    bounds = bounds_of_paths(["2200/01/01"], form(kind="UNIX_TIMESTAMP"), pa.int32())
    assert bounds is not None
    assert bounds[0].null_count == bounds[1].null_count == 1


@pytest.mark.parametrize(
    ("kind", "unit"),
    [
        (pa.timestamp("us", "UTC"), "EPOCHMILLISECONDS"),  # the moment, or the raw microseconds taken for milliseconds
        (pa.timestamp("ms"), "EPOCHMILLISECONDS"),
        (pa.string(), "DATE_STRING"),
        (pa.int64(), "DATE_STRING"),
        (pa.float64(), "UNIX_TIMESTAMP"),
        (pa.decimal128(20, 3), "UNIX_TIMESTAMP"),
    ],
)
def test_types_that_paths_tell_nothing_of(kind: pa.DataType, unit: str) -> None:
    assert bounds_of_paths(["1970/01/02"], form(kind=unit), kind) is None


def test_a_zone_that_is_none_is_an_error() -> None:
    with pytest.raises(OptionError, match="Nowhere"):
        bounds_of_paths(["1970/01/02"], form(zone="Nowhere/Land"), pa.int64())


def text_form(pattern: str, output: str = "yyyyMMdd", **settings: str) -> TimestampFormat:
    options = {"timestamp.type": "DATE_STRING", "input.dateformat": pattern, "output.dateformat": output}
    options |= {key.replace("_", "."): value for key, value in settings.items()}
    return TimestampFormat.from_options({f"hoodie.keygen.timebased.{key}": value for key, value in options.items()})


@pytest.mark.parametrize(
    ("form_of", "text", "path"),
    [
        (text_form("yyyy-MM-dd HH:mm:ss"), "2024-01-02 03:04:05", "20240102"),
        (
            text_form("yyyy-MM-dd'T'HH:mm:ss.SSS", "yyyy/MM/dd/HH", timezone="Europe/Paris"),
            "2024-01-02T03:04:05.678",
            "2024/01/02/03",
        ),
        (text_form("yyyy-M-d", input_timezone="UTC"), "2024-1-2", "20240102"),
        (text_form("yyyy-MM-dd"), "2024-1-2", None),  # read by releases, but not as it is written
        (text_form("yyyy-MM-dd"), "24-01-02", None),
        (text_form("yyyy-MM-dd"), "x", None),
        (text_form("yyyy-MM-dd,yyyyMMdd"), "2024-01-02", None),
        (text_form("yyyy-MM-ddZ"), "2024-01-02+0000", None),
        (text_form("yyyy-MM-dd", input_timezone="UTC", output_timezone="Asia/Tokyo"), "2024-01-02", None),
        (text_form("yyyy-MM-dd", "EEE yyyy"), "2024-01-02", None),
        (text_form("yyyy MMM dd"), "2024 Jan 02", None),
        (text_form("yy-MM-dd"), "24-01-02", None),
        (form(), "2024-01-02", None),
    ],
)
def test_paths_of_times_that_are_texts(form_of: TimestampFormat, text: str, path: str | None) -> None:
    assert path_of_text(text, form_of) == path
    if path is not None:
        assert form_of.partition_texts(pa.array([text])).to_pylist() == [path]
