"""Past states of tables that Apache wrote and cleaned."""

from collections.abc import Callable

import pytest

from catalog import Table
from table_format.errors import OptionError
from tests.unit.conftest import GoldenTable


def instants(table: Table) -> list[str]:
    return [instant.time for instant in table.snapshot().timeline.writes]


def keys(table: Table, as_of: str | None) -> set[str]:
    return set(table.scan(columns=["_hoodie_record_key"], as_of=as_of).to_arrow()["_hoodie_record_key"].to_pylist())


def test_each_kept_state_holds_its_commits_rows(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_evolve").open()
    entries = {entry.instant: entry for entry in table.history()}
    count = 0
    for instant in instants(table):
        scan = table.scan(as_of=instant)
        rows = scan.to_arrow()
        count += (entries[instant].rows_inserted or 0) - (entries[instant].rows_deleted or 0)
        assert rows.num_rows == count
        assert max(rows["_hoodie_commit_time"].to_pylist()) <= instant
        assert scan.snapshot.instant == instant
    assert keys(table, instants(table)[-1]) == keys(table, None)


def test_columns_are_those_of_the_time(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_evolve").open()
    assert "added_s" not in table.scan(as_of=instants(table)[0]).schema.names
    assert "added_s" in table.schema.names


def test_times_between_commits_and_iso_times(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_evolve").open()
    first, second = instants(table)[:2]
    shortly_before = str(int(second) - 1) if not second.endswith("000") else second[:-3] + "000"
    assert keys(table, shortly_before) in (keys(table, first), keys(table, second))
    day, clock = f"{first[:4]}-{first[4:6]}-{first[6:8]}", f"{first[8:10]}:{first[10:12]}:{first[12:14]}.{first[14:]}"
    assert keys(table, f"{day} {clock}") == keys(table, f"{day}T{clock}") == keys(table, first)
    assert keys(table, "2999-01-01") == keys(table, None)


def test_pruning_works_in_the_past(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_evolve").open()
    first = instants(table)[0]
    whole = table.scan(as_of=first).to_arrow()
    for name in ("id", "n"):
        value = next(value for value in whole[name].to_pylist() if value is not None)
        text = f"'{value}'" if isinstance(value, str) else value
        rows = table.scan(f"{name} = {text}", as_of=first).to_arrow()
        assert rows.num_rows == whole[name].to_pylist().count(value)


def test_before_the_first_commit(golden: Callable[[str], GoldenTable]) -> None:
    with pytest.raises(OptionError, match="oldest commit"):
        golden("v6_0150__bkt_evolve").open().scan(as_of="20200101000000000")


def test_no_time_at_all(golden: Callable[[str], GoldenTable]) -> None:
    with pytest.raises(OptionError, match="yesterday"):
        golden("v6_0150__bkt_evolve").open().scan(as_of="yesterday")


@pytest.mark.parametrize("metadata_table", [True, False])
def test_what_was_cleaned_away_is_refused(copied: Callable[..., str], metadata_table: bool) -> None:
    # One commit is retained: of four, the files of the first two are gone.
    table = Table.open(copied("v6_0150__bkt_np_types", metadata_table=metadata_table))
    first, _, third, last = instants(table)
    with pytest.raises(OptionError, match=r"cleaned away.*kept"):
        table.scan(as_of=first)
    assert keys(table, third)
    assert keys(table, last) == keys(table, None)


def test_states_before_the_archive_and_archived_ones_without_files_are_refused(
    golden: Callable[[str], GoldenTable],
) -> None:
    table = golden("v6_0150__bkt_archive").open()
    archived = sorted(table.snapshot().timeline.archive.writes)
    with pytest.raises(OptionError, match="cleaned away"):
        table.scan(as_of=archived[-1])
    with pytest.raises(OptionError, match=f"oldest commit.*{archived[0]}"):
        table.scan(as_of=str(int(archived[0]) - 1))


def test_history(golden: Callable[[str], GoldenTable]) -> None:
    entries = golden("v6_0150__bkt_hive").open().history()
    assert [entry.operation for entry in entries] == ["INSERT", "UPSERT", "DELETE", "CLEAN", "UPSERT", "CLEAN"]
    assert [(e.rows_inserted, e.rows_updated, e.rows_deleted) for e in entries if e.action == "commit"] == [
        (80, 0, 0),
        (40, 24, 0),
        (0, 0, 15),
        (3, 17, 0),
    ]
    assert entries[0].files_written == 15
    assert entries[3].files_removed == 15
    assert all(entry.state == "COMPLETED" for entry in entries)
    replaced = golden("v6_0150__bloom_replace").open().history()
    assert {"INSERT_OVERWRITE", "DELETE_PARTITION"} <= {entry.operation for entry in replaced}
    rolled_back = golden("v6_1200__bkt_rollback").open().history()
    assert any(entry.operation.startswith("ROLLBACK of ") for entry in rolled_back)
    assert any(entry.state != "COMPLETED" for entry in rolled_back)
