"""Numbers that are given as arguments."""

import pytest

from hudi_catalog import create_table
from table_format.errors import ArgumentError


@pytest.mark.parametrize("count", [0, -1, 2.0, True])
def test_numbers_of_file_groups_are_checked(tmp_path, count) -> None:
    table = create_table(tmp_path / "t", "id bigint", record_key="id", index="RECORD_INDEX")
    table.insert([{"id": 1}])
    for call in (table.resize_index, lambda n: table.bootstrap_index(groups=n)):
        with pytest.raises(ArgumentError, match=rf"groups={count}: give a number from 1 to 9,999"):
            call(count)
    with pytest.raises(ArgumentError, match="give a number from 1"):
        table.build_index("column_stats", groups=count)
    table.upsert([{"id": 1}])
    buckets = create_table(tmp_path / "b", "id bigint", record_key="id", buckets=2)
    with pytest.raises(ArgumentError, match=rf"buckets={count}: give a number from 1"):
        buckets.resize(count)
