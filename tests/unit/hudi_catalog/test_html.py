"""The drawn plan."""

import re
from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest

from hudi_catalog.cli.html import column_ranges, plan_html
from tests.unit.conftest import GoldenTable


def pictures(page: str) -> list[ET.Element]:
    return [ET.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def test_each_column_has_a_line_for_each_file(golden: Callable[[str], GoldenTable]) -> None:
    plan = golden("v6_0150__bkt_hive").open().scan("part IN ('eu', 'zz') AND l > 500000000000").plan()
    charts = pictures(plan_html(plan))
    assert len(charts) == 2
    for picture in charts:
        fates = [bar.attrib["class"] for bar in picture.iter("rect") if bar.attrib["class"] != "match"]
        kept = len(fates) - fates.count("gone")
        assert kept == len(plan)
        # The default partition has no one value to draw.
        assert len(fates) in {12, 15}
    [title] = [title for title in charts[0].iter("title") if plan.splits[0].file_name in (title.text or "")]
    assert "read" in (title.text or "")


def test_the_page_refers_to_nothing_outside(golden: Callable[[str], GoldenTable]) -> None:
    page = plan_html(golden("v6_0150__bkt_hive").open().scan("i > 5 OR dt = DATE '2020-01-01'").plan())
    assert not re.search(r"(src|href)\s*=|@import|url\(", page)


def test_text_is_escaped(golden: Callable[[str], GoldenTable]) -> None:
    page = plan_html(golden("v6_0150__bkt_hive").open().scan("s = '<script>&'").plan())
    assert "<script>" not in page
    assert "&lt;script&gt;&amp;" in page


@pytest.mark.parametrize("condition", [None, "part IS NULL", "length(id) = 3", "1 = 1"])
def test_any_filter_has_a_page(golden: Callable[[str], GoldenTable], condition: str | None) -> None:
    assert "</html>" in plan_html(golden("v6_0150__bkt_hive").open().scan(condition).plan())


@pytest.mark.parametrize("name", ["v6_0150__edge_stats", "v6_0150__bkt_np_types", "v6_0150__nomdt"])
def test_columns_of_every_type(golden: Callable[[str], GoldenTable], name: str) -> None:
    table = golden(name).open()
    for field in table.schema:
        plan_html(table.scan(f"{field.name} IS NOT NULL").plan())


def test_values_that_match_are_marked(golden: Callable[[str], GoldenTable]) -> None:
    import pyarrow as pa

    plan = golden("v6_0150__bkt_hive").open().scan("l > 500000000000").plan()
    ranges = column_ranges(plan, "l", pa.int64())
    assert ranges is not None
    [(start, end)] = ranges.cells
    assert 0 < start < end == 1
