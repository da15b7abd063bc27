"""Numbers of an index's file groups, and a record index whose files are gone."""

import shutil

import pytest

from hudi_catalog import create_table, open_table
from table_format.errors import ArgumentError, CorruptFileError


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


def test_a_record_index_whose_files_are_lost_is_built_anew(tmp_path) -> None:
    table = create_table(tmp_path / "t", "id bigint, n bigint", record_key="id", index="RECORD_INDEX")
    table.insert([{"id": 1, "n": 1}])
    shutil.rmtree(tmp_path / "t/.hoodie/metadata/record_index")
    table = open_table(tmp_path / "t")
    with pytest.raises(CorruptFileError, match="`hudi-catalog index bootstrap` builds it anew"):
        table.upsert([{"id": 1, "n": 2}])
    assert table.bootstrap_index().keys == 1
    open_table(tmp_path / "t").upsert([{"id": 1, "n": 2}])
    assert open_table(tmp_path / "t").scan(columns=["n"]).to_arrow().to_pylist() == [{"n": 2}]
