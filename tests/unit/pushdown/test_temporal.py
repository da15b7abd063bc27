"""Time zones by name and by offset."""

import datetime as dt

import pytest

from pushdown.errors import ExpressionError
from pushdown.temporal import zone_of


@pytest.mark.parametrize("name", ["+25:00", "-24:00", "Europe/Nowhere"])
def test_zones_that_do_not_exist(name: str) -> None:
    with pytest.raises(ExpressionError, match="there is no time zone"):
        zone_of(name)


def test_offsets_are_zones() -> None:
    assert zone_of("-23:59").utcoffset(None) == -dt.timedelta(hours=23, minutes=59)
