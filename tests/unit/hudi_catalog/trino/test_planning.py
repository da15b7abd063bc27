import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Catalog
from catalog.planner import make_plan
from catalog.slices.file_slice import FileSlice
from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.security import Secret
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.trino import batches, planning
from hudi_catalog.trino.base.names import TableName, TableNames
from hudi_catalog.trino.batches import OpenScans, SplitBatches
from hudi_catalog.trino.options import TrinoOptions
from hudi_catalog.trino.planning import SplitPlanner
from hudi_catalog.trino.split_id import Purpose, SplitCodec, TrinoSplit
from table_format.errors import ServiceError, SplitError, TableNotFoundError
from tests.support.local_writes import LocalTable
from tests.support.trino_calls import EVERYTHING, NOTHING, between, domain, points, ranges

SCHEMA = pa.schema([("k", pa.int64()), ("day", pa.string()), ("v", pa.float64())])
TRIPS = TableName("db", "trips")
LARGE = TableName("default", "large")


def rows(keys: range) -> pa.Table:
    days = [f"2026-01-0{key % 3 + 1}" for key in keys]
    return pa.table({"k": list(keys), "day": days, "v": [key / 4 for key in keys]}, SCHEMA)


def create(path: Path, **more: str) -> LocalTable:
    options = {
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.clean.automatic": "false",
        **more,
    }
    return LocalTable.create(str(path), SCHEMA, options)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warehouse")
    (folder / "db").mkdir()
    create(folder / "db" / "trips").write("insert", rows(range(300)))
    large = create(folder / "large", **{"hoodie.parquet.block.size": "4096", "hoodie.bucket.index.num.buckets": "1"})
    large.write("bulk_insert", rows(range(20_000)))
    create(folder / "empty")
    return folder


class Serving:
    """A planner, as one process has it."""

    def __init__(self, warehouse: Path, **options: str) -> None:
        self.warehouse = warehouse
        self.codec = SplitCodec(Secret(b"of the planner's tests"))
        self.scans = OpenScans()
        self.log = QueryLog()
        parsed = TrinoOptions.parse({f"hoodie.catalog.trino.{key.replace('_', '.')}": v for key, v in options.items()})
        self.tables = WarehouseTables(Catalog(str(warehouse)))
        handed = SplitBatches(self.codec, self.scans, parsed.split_size)
        self.planner = SplitPlanner(self.tables, TableNames(self.tables), parsed, handed, self.log)

    @classmethod
    def of(cls, other: "Serving") -> "Serving":
        return cls(other.warehouse)

    def batch(
        self,
        table: TableName,
        constraint: Any = EVERYTHING,
        most: int = 1_000,
        token: bytes | None = None,
        desired: list[str] | None = ["k"],  # noqa: B006
    ) -> tuple[list[TrinoSplit], bytes | None]:
        planned = self.planner.splits(table, desired=desired, constraint=constraint, limit=most, token=token)
        return [self.codec.unpack(one) for one in planned.split_ids], planned.next_token


def key_of(one: FileSlice) -> tuple[Any, ...]:
    return one.partition, one.file_id, one.base, one.row_groups


def slices(splits: Iterable[TrinoSplit]) -> list[FileSlice]:
    return [one for split in splits for one in split.slices]


def keys(splits: Iterable[TrinoSplit]) -> list[tuple[Any, ...]]:
    return [key_of(one) for one in slices(splits)]


@pytest.fixture
def serving(warehouse: Path) -> Serving:
    return Serving(warehouse)


def test_a_split_names_the_snapshot_and_the_file(serving: Serving, warehouse: Path) -> None:
    splits, token = serving.batch(TRIPS)
    assert token is None
    assert len(splits) == 12
    assert all(len(split.slices) == 1 for split in splits)
    assert keys(splits) == sorted(keys(splits))
    snapshot = serving.tables.newest("db.trips")[1]
    for split in splits:
        assert serving.tables.at(split.table, split.pin) is snapshot
        assert (split.constraint, split.keys, split.key_columns) == (b"", b"", ())
        (one,) = split.slices
        assert (warehouse / "db" / "trips" / str(one.base)).is_file()
        assert one.instant == snapshot.instant
        assert (one.row_groups, one.logs, one.record_count) == (None, (), None)
    assert len({split.scan for split in splits}) == 1


def test_the_domain_prunes_and_travels(serving: Serving) -> None:
    splits, _ = serving.batch(TRIPS, domain(day=points("varchar", "2026-01-02")))
    assert {one.partition for one in slices(splits)} == {"2026-01-02"}
    assert all(split.constraint for split in splits)
    splits, _ = serving.batch(TRIPS, domain(k=points("bigint", 7)))
    assert len({int(one.file_id[:8]) for one in slices(splits)}) == 1
    assert len(splits) <= 3  # of one bucket, one of them in each partition at most


@pytest.mark.parametrize("constraint", [NOTHING, domain(k=ranges())])
def test_a_domain_that_nothing_meets_has_no_splits(serving: Serving, constraint: Any) -> None:
    assert serving.batch(TRIPS, constraint) == ([], None)


def test_a_table_without_commits_has_no_splits(serving: Serving) -> None:
    assert serving.batch(TableName("default", "empty")) == ([], None)


def test_the_log_tells_what_was_planned(serving: Serving) -> None:
    serving.batch(
        TRIPS, domain(day=points("varchar", "2026-01-02", "2026-01-03"), v=ranges(between("double", None, 9.5)))
    )
    record = serving.log.recent()[0]
    assert record["table"] == "db.trips"
    assert record["columns"] == ["k"]
    assert record["received"] == {
        "day": {"ranges": ["'2026-01-02'", "'2026-01-03'"], "null": False},
        "v": {"ranges": ["(-inf, 9.5]"], "null": False},
    }
    assert record["expression"] == "day IN ('2026-01-02', '2026-01-03') AND v <= 9.5e0"
    assert record["files_in"] == 12
    assert record["files_out"] == 8 == next(s["out"] for s in record["stages"] if s["name"] == "column statistics")
    assert record["ms"] > 0


def all_batches(serving: Serving, table: TableName, most: int, constraint: Any = EVERYTHING) -> list[list[TrinoSplit]]:
    planned, token = [], None
    while True:
        splits, token = serving.batch(table, constraint, most, token)
        planned.append(splits)
        if token is None:
            return planned


@pytest.mark.parametrize("most", [1, 5, 11, 12, 13])
def test_batches_are_as_small_as_asked_for(serving: Serving, most: int) -> None:
    whole, _ = serving.batch(TRIPS)
    batches = all_batches(serving, TRIPS, most)
    assert [len(batch) for batch in batches] == [most] * (12 // most) + [12 % most] * (12 % most > 0)
    assert [key for batch in batches for key in keys(batch)] == keys(whole)
    assert [record["table"] for record in serving.log.recent()].count("db.trips") == 2  # planned once each


@pytest.mark.parametrize("most", [0, -1])
def test_no_splits_cannot_be_asked_for(serving: Serving, most: int) -> None:
    with pytest.raises(ServiceError, match="at least one"):
        serving.batch(TRIPS, most=most)


def test_large_files_are_divided(warehouse: Path) -> None:
    whole, _ = Serving(warehouse).batch(LARGE)
    assert [one.row_groups for one in slices(whole)] == [None] * 3
    splits, _ = Serving(warehouse, split_size="20000").batch(LARGE)
    assert len(splits) >= 6
    assert all(len(split.slices) == 1 for split in splits)
    for whole_file in slices(whole):
        groups = [one.row_groups for one in slices(splits) if one.base == whole_file.base]
        flat = [group for part in groups for group in part or ()]
        assert flat == list(range(len(flat)))
        assert len(flat) > len(groups) > 1


def test_services_whose_plans_differ_take_turns(warehouse: Path) -> None:
    """The second service leaves out more files than the first, which still has its own plan when it goes on."""
    first, second = Serving(warehouse), Serving(warehouse)
    wanted = domain(day=points("varchar", "2026-01-03"))
    must = keys(first.batch(TRIPS, wanted)[0])
    splits, token = first.batch(TRIPS, EVERYTHING, 1)
    more, token = second.batch(TRIPS, wanted, 2, token)
    rest, token = first.batch(TRIPS, EVERYTHING, 1_000, token)
    assert token is None
    served = keys([*splits, *more, *rest])
    assert len(set(served)) == len(served)
    assert set(must) <= set(served)


def test_a_plan_is_evicted_with_its_last_splits(serving: Serving) -> None:
    plans = serving.planner._batches._plans
    splits, token = serving.batch(TRIPS, most=11)
    assert [scan for scan, _ in plans.items()] == [splits[0].scan]
    assert serving.batch(TRIPS, most=11, token=token)[1] is None
    assert len(plans) == 0
    assert len(serving.batch(TRIPS, most=11, token=token)[0]) == 1  # asked for again: planned again


@pytest.mark.parametrize("most", [1, 2, 7])
@pytest.mark.parametrize("size", ["20000", "5000000"])
def test_another_instance_goes_on_where_the_first_ended(warehouse: Path, most: int, size: str) -> None:
    """Each batch by a service that has never heard of the scan, every other one with other sizes of splits."""
    wanted = parts_of(Serving(warehouse, split_size="1").batch(LARGE)[0])
    planned: list[TrinoSplit] = []
    token = None
    for number in range(100):
        serving = Serving(warehouse, split_size=size if number % 2 else "20000")
        splits, token = serving.batch(LARGE, EVERYTHING, most, token)
        planned += splits
        if token is None:
            break
    handed = slices(planned)
    counts = Counter(one.base for one in handed)
    assert len(counts) == 3
    whole = {one.base for one in handed if one.row_groups is None}
    assert {part for part in parts_of(planned) if part[0] not in whole} == {p for p in wanted if p[0] not in whole}
    assert all(counts[base] == 1 for base in whole)
    flat = [(one.base, group) for one in handed for group in one.row_groups or ()]
    assert len(flat) == len(set(flat))


def parts_of(splits: Iterable[TrinoSplit]) -> set[tuple[str | None, int]]:
    return {(one.base, group) for one in slices(splits) for group in one.row_groups or ()}


@pytest.fixture
def written(tmp_path: Path) -> LocalTable:
    table = create(tmp_path / "trips", **{"hoodie.metadata.enable": "true"})
    table.write("insert", rows(range(300)))
    return table


def test_a_scan_stays_at_its_snapshot(written: LocalTable, tmp_path: Path) -> None:
    name = TableName("default", "trips")
    serving = Serving(tmp_path)
    before, _ = serving.batch(name)
    first, token = serving.batch(name, most=5)
    written.write("upsert", rows(range(250, 400)))
    second, token_2 = serving.batch(name, most=4, token=token)
    other, none = Serving(tmp_path).batch(name, most=4, token=token_2)  # one that never saw the older state
    assert none is None
    assert keys(first + second + other) == keys(before)
    assert {split.pin for split in first + second + other} == {before[0].pin}
    after, _ = serving.batch(name)
    assert after[0].pin != before[0].pin
    assert {one.base for one in slices(after)}.isdisjoint({one.base for one in slices(before)})


def test_order_does_not_depend_on_refreshes(written: LocalTable, tmp_path: Path) -> None:
    """Slices that a refresh adds come after the others in a snapshot, but not in one that is newly loaded."""
    name = TableName("default", "trips")
    serving = Serving(tmp_path)
    serving.batch(name)
    written.write("upsert", rows(range(250, 252)))
    first, token = serving.batch(name, most=3)
    rest, _ = Serving(tmp_path).batch(name, token=token)
    fresh, _ = Serving(tmp_path).batch(name)
    assert keys(first + rest) == keys(fresh)


def test_a_table_as_of_a_time(written: LocalTable, tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    before, _ = serving.batch(TableName("default", "trips"))
    written.write("upsert", rows(range(250, 400)))
    instant = slices(before)[0].instant
    then, _ = serving.batch(TableName("default", f"trips__at_{instant}"))
    assert keys(then) == keys(before)
    now, _ = serving.batch(TableName("default", "trips__at_99991231"))
    assert keys(now) == keys(serving.batch(TableName("default", "trips"))[0])
    with pytest.raises(SplitError, match="9999-99-99"):
        serving.batch(TableName("default", "trips__at_99999999"))
    with pytest.raises(SplitError, match="oldest commit"):
        serving.batch(TableName("default", "trips__at_20010101"))


def test_a_state_that_is_gone_is_an_error(written: LocalTable, tmp_path: Path) -> None:
    name = TableName("default", "trips")
    _, token = Serving(tmp_path).batch(name, most=1)
    for folder in (tmp_path / "trips" / ".hoodie").glob("**/*"):
        if folder.is_file() and folder.suffix in {".commit", ".inflight", ".requested"}:
            os.unlink(folder)
    with pytest.raises(SplitError):
        Serving(tmp_path).batch(name, most=1, token=token)


def test_tokens_are_of_one_table_and_not_forged(serving: Serving) -> None:
    _, token = serving.batch(TRIPS, most=1)
    assert token is not None
    with pytest.raises(SplitError, match=r"of db\.trips for large"):
        serving.batch(LARGE, token=token)
    with pytest.raises(SplitError, match="did not sign"):
        serving.batch(TRIPS, token=token[:-1] + bytes([token[-1] ^ 1]))
    with pytest.raises(SplitError, match="did not sign"):
        serving.batch(TRIPS, token=b"x" * 80)
    with pytest.raises(SplitError, match="unreadable"):
        serving.batch(TRIPS, token=serving.codec.seal(Purpose.SPLITS_TOKEN, b"[1]"))


@pytest.mark.parametrize(
    "name", [TableName("db", "nothing"), TableName("nodb", "trips"), TableName("db", "trips__at_2026")]
)
def test_unknown_tables(serving: Serving, name: TableName) -> None:
    with pytest.raises(TableNotFoundError, match="there is no table"):
        serving.batch(name)


def test_a_column_that_is_not_there_does_not_prune(serving: Serving) -> None:
    splits, _ = serving.batch(TRIPS, domain(gone=points("bigint", 7), day=points("varchar", "2026-01-02")))
    assert len(splits) == 4
    assert serving.log.recent()[0]["unknown"] == ["there is no column gone"]


def test_unread_scans_are_counted(serving: Serving) -> None:
    splits, token = serving.batch(TRIPS, most=11)
    scan = splits[0].scan
    assert serving.scans.count() == 1
    for _ in splits:
        serving.scans.page_served(scan, is_last=True)
    assert serving.scans.count() == 1  # there are more splits
    serving.batch(TRIPS, most=11, token=token)
    assert serving.scans.count() == 1
    serving.scans.page_served(scan, is_last=False)
    serving.scans.page_served(scan, is_last=True)
    assert serving.scans.count() == 0
    serving.batch(TRIPS, NOTHING)
    assert serving.scans.count() == 0


def test_small_files_go_together(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    single, _ = serving.batch(TRIPS)
    monkeypatch.setattr(batches, "_MIN_SPLITS", 3)
    for most in (1, 2, 10):
        splits = [split for batch in all_batches(serving, TRIPS, most) for split in batch]
        assert 3 <= len(splits) <= 6
        assert keys(splits) == keys(single)
    first, token = serving.batch(TRIPS, most=2)
    other, _ = Serving.of(serving).batch(TRIPS, token=token)
    assert keys(first + other) == keys(single)
    monkeypatch.setattr(batches, "_MAX_FILES", 2)
    assert [len(split.slices) for split in serving.batch(TRIPS)[0]] == [2] * 6
    monkeypatch.setattr(batches, "_MIN_SPLITS", 32)
    assert [len(split.slices) for split in serving.batch(TRIPS)[0]] == [1] * 12


def test_parts_of_large_files_stay_alone(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_MIN_SPLITS", 1)
    whole, _ = Serving(warehouse).batch(LARGE)
    assert [len(split.slices) for split in whole] == [3]
    parts, _ = Serving(warehouse, split_size="20000").batch(LARGE)
    assert {len(split.slices) for split in parts} == {1}


def test_counts_are_known_by_statistics(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = [one.record_count for one in slices(serving.batch(TRIPS, desired=[])[0])]
    assert sum(count or 0 for count in counted) == 300
    assert all(counted)
    assert len(serving.batch(TRIPS, desired=[])[0]) == 1  # there is nothing to read
    for desired, constraint in (([], domain(k=ranges(between("bigint", 5)))), (["k"], EVERYTHING), (None, EVERYTHING)):
        assert {one.record_count for one in slices(serving.batch(TRIPS, constraint, desired=desired)[0])} == {None}
    assert {one.record_count for one in slices(serving.batch(LARGE, desired=[])[0])} != {None}


def test_a_batch_is_no_larger_than_a_frame_may_be(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = serving.batch(TRIPS)
    monkeypatch.setattr(batches, "_MAX_BATCH_BYTES", 700)
    planned = all_batches(serving, TRIPS, 1_000)
    assert 3 <= len(planned) <= 6
    assert [key for batch in planned for key in keys(batch)] == keys(whole)
    monkeypatch.setattr(batches, "_MAX_BATCH_BYTES", 0)
    assert [len(batch) for batch in all_batches(serving, TRIPS, 1_000)] == [1] * 12


def test_scans_are_planned_with_the_options_of_scans(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []

    def spy(snapshot: Any, expression: Any, options: Any) -> Any:
        planned.append(options)
        return make_plan(snapshot, expression, options)

    monkeypatch.setattr(planning, "make_plan", spy)
    serving = Serving(warehouse)
    parsed = TrinoOptions.parse({"hoodie.catalog.scan.footer.limit": "7", "hoodie.catalog.scan.threads": "3"})
    handed = SplitBatches(serving.codec, serving.scans, parsed.split_size)
    serving.planner = SplitPlanner(serving.tables, TableNames(serving.tables), parsed, handed, serving.log)
    serving.batch(TRIPS)
    assert [(options.footer_limit, options.threads) for options in planned] == [(7, 3)]
