"""Options of the proxy are typed, and refused by name."""

import pytest

from hudi_catalog.gateway.options import PROXY_KEYS, UPSTREAM, ProxySettings
from table_format.errors import OptionError

START = "hoodie.catalog.gateway."


def test_every_option_is_read() -> None:
    texts = {
        UPSTREAM: "https://trino.example:8443/",
        f"{START}uris": "forwarded",
        f"{START}connect.timeout": "1.5",
        f"{START}answer.timeout": "2",
        f"{START}rewrite.timeout": "3",
        f"{START}rewrite.threads": "4",
        f"{START}statement.size": "5",
        f"{START}prepared.header.size": "6",
        f"{START}connections": "7",
        f"{START}abandoned.after": "8",
    }
    assert set(texts) == set(PROXY_KEYS)
    assert ProxySettings.parse(texts, host="::1", port=9) == ProxySettings(
        "https://trino.example:8443", "forwarded", 1.5, 2.0, 3.0, 4, 5, 6, 7, 8.0, "::1", 9
    )
    assert ProxySettings.parse(None) == ProxySettings()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("upstream", "trino:8080", "is not http"),
        ("upstream", "ftp://trino", "is not http"),
        ("upstream", "http://", "is not http"),
        ("upstream", "http://a:99999", "is not http"),
        ("upstream", "http://a:b", "is not http"),
        ("upstream", "http://a/path", "is not http"),
        ("upstream", "http://user:password@a", "is not http"),
        ("uris", "magic", "auto, host, forwarded, rewrite"),
        ("connections", "0", "whole number"),
        ("connections", "many", "whole number"),
        ("rewrite.timeout", "0", "seconds"),
        ("rewrite.timeout", "inf", "seconds"),
        ("rewrite.timeout", "nan", "seconds"),
        ("no.such", "1", "no such option"),
    ],
)
def test_what_does_not_fit_is_named(key: str, value: str, says: str) -> None:
    with pytest.raises(OptionError, match=says) as error:
        ProxySettings.parse({f"{START}{key}": value})
    assert f"{START}{key}" in str(error.value)


def test_the_names_of_the_upstream() -> None:
    settings = ProxySettings("http://[::1]:8080")
    assert (settings.scheme, settings.authority) == ("http", "[::1]:8080")
