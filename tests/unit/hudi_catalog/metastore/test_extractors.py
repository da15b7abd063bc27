"""Apache's partition value extractors by name."""

import pytest

from hudi_catalog.metastore.metastore import HivePartition
from hudi_catalog.metastore.partitions import check_extractor
from table_format.errors import OptionError

PACKAGE = "org.apache.hudi.hive."


def check(name: str, path: str, *values: str) -> None:
    check_extractor(name, {path: HivePartition(values, "file:///x")})


# Values as the tests of Apache Hudi's classes have them.
@pytest.mark.parametrize(
    ("name", "path", "values"),
    [
        ("MultiPartKeysValueExtractor", "ds=2021-04-02/hh=03", ("2021-04-02", "03")),
        ("MultiPartKeysValueExtractor", "2021-04-02/03", ("2021-04-02", "03")),
        ("HiveStylePartitionValueExtractor", "datestr=2021-04-02", ("2021-04-02",)),
        ("SinglePartPartitionValueExtractor", "2018-12-12", ("2018-12-12",)),
        ("SlashEncodedDayPartitionValueExtractor", "2022/10/05", ("2022-10-05",)),
        ("SlashEncodedDayPartitionValueExtractor", "year=2022/month=10/day=5", ("2022-10-05",)),
        ("SlashEncodedHourPartitionValueExtractor", "2020/12/20/01", ("2020-12-20-01",)),
        ("NonPartitionedExtractor", "", ()),
    ],
)
def test_classes_that_agree(name: str, path: str, values: tuple[str, ...]) -> None:
    check(PACKAGE + name, path, *values)
    check(name, path, *values)


@pytest.mark.parametrize(
    ("name", "path", "values", "message"),
    [
        ("MultiPartKeysValueExtractor", "2018/08/31", ("2018-08-31",), r"\[2018, 08, 31\] from partition '2018/08/31'"),
        ("SlashEncodedDayPartitionValueExtractor", "2018-08-31", ("2018-08-31",), r"no values .*\[2018-08-31\]"),
        ("HiveStylePartitionValueExtractor", "a", ("a",), "no values"),
        ("NonPartitionedExtractor", "a", ("a",), r"\[\] .*\[a\]"),
        ("SinglePartPartitionValueExtractor", "p=a", ("a",), r"\[p=a\] .*\[a\]"),
    ],
)
def test_classes_that_disagree_are_named_with_both_values(
    name: str, path: str, values: tuple[str, ...], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        check(name, path, *values)


def test_none_and_unknown_ones() -> None:
    check_extractor(None, {})
    with pytest.raises(OptionError, match=r"com.x.Mine is unknown; leave it out, or name MultiPart"):
        check_extractor("com.x.Mine", {})
