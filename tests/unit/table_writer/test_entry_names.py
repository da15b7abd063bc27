"""Table locations from entries of a session's catalog; the catalog is a fake of Spark's objects."""

import traceback
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from pyspark.errors import AnalysisException

from spark_writer.session import table_place
from table_format.errors import OptionError, TableNotFoundError


def option(value: Any) -> Any:
    return SimpleNamespace(isDefined=lambda: value is not None, get=lambda: value)


def java_uri(text: str) -> Any:
    parts = urlsplit(text)
    return SimpleNamespace(
        getScheme=lambda: parts.scheme or None,
        getAuthority=lambda: parts.netloc or None,
        getPath=lambda: unquote(parts.path),
    )


def session(location: str | None, provider: str | None = "hudi", base: str | None = None) -> Any:
    def table_metadata(identifier: str) -> Any:
        if identifier != "shop.orders":
            raise AnalysisException(f"[TABLE_OR_VIEW_NOT_FOUND] no {identifier}\nand more")
        uri = None if location is None else java_uri(location)
        return SimpleNamespace(
            provider=lambda: option(provider),
            storage=lambda: SimpleNamespace(locationUri=lambda: option(uri)),
            location=lambda: uri,
            properties=lambda: SimpleNamespace(get=lambda key: option(base if key.endswith("base.path") else None)),
        )

    state = SimpleNamespace(
        sqlParser=lambda: SimpleNamespace(parseTableIdentifier=lambda name: name),
        catalog=lambda: SimpleNamespace(getTableMetadata=table_metadata),
    )
    return SimpleNamespace(_jsparkSession=SimpleNamespace(sessionState=lambda: state))


@pytest.mark.parametrize(
    ("location", "base", "expected"),
    [
        ("file:///data/my%20orders/a%25b", None, "/data/my orders/a%b"),
        ("/data/orders", None, "/data/orders"),
        ("s3a://lake/shop/orders", None, "s3://lake/shop/orders"),
        ("s3n://lake/shop/orders", None, "s3://lake/shop/orders"),
        ("hdfs://nn:8020/shop/orders", None, "hdfs://nn:8020/shop/orders"),
        ("hdfs:///shop/orders", None, "hdfs:///shop/orders"),
        ("local:///orders", "file:/data/orders", "file:/data/orders"),
    ],
)
def test_places(location: str, base: str | None, expected: str) -> None:
    assert table_place(session(location, base=base), "shop.orders") == expected


@pytest.mark.parametrize(("location", "provider"), [("file:///a", "parquet"), ("file:///a", None), (None, "HUDI")])
def test_entries_of_other_tables_are_refused(location: str | None, provider: str | None) -> None:
    with pytest.raises(TableNotFoundError, match=r"shop\.orders: not a Hudi table's entry; its provider is"):
        table_place(session(location, provider), "shop.orders")


def test_the_providers_name_has_no_case() -> None:
    assert table_place(session("file:///a", "Hudi"), "shop.orders") == "/a"


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(TableNotFoundError, match=r"^shop\.nothing: \[TABLE_OR_VIEW_NOT_FOUND\] no shop\.nothing$"):
        table_place(session("file:///a"), "shop.nothing")


def test_a_handler_that_spark_cannot_load() -> None:
    message = "HiveException: Error in loading storage handler.hudicatalog.hive.HudiStorageHandler"

    def fail() -> Any:
        raise AnalysisException(message)

    broken = SimpleNamespace(_jsparkSession=SimpleNamespace(sessionState=fail))
    with pytest.raises(OptionError, match=r"put what `hudi-catalog hive-jar` prints into spark\.jars"):
        table_place(broken, "shop.orders")


def test_a_name_that_does_not_parse_is_told_by_sparks_first_words() -> None:
    def fail() -> Any:
        raise AnalysisException("\n[PARSE_SYNTAX_ERROR] Syntax error\n\nJVM stacktrace:\n\tat org.apache.spark")

    broken: Any = SimpleNamespace(_jsparkSession=SimpleNamespace(sessionState=fail))
    with pytest.raises(TableNotFoundError, match=r"^a b: \[PARSE_SYNTAX_ERROR\] Syntax error$") as refused:
        table_place(broken, "a b")
    assert "JVM stacktrace" not in "".join(traceback.format_exception(refused.value))


def test_spark_connect_has_no_names() -> None:
    with pytest.raises(OptionError, match="only a classic Spark session can look up names"):
        table_place(SimpleNamespace(), "shop.orders")  # type: ignore[arg-type]
