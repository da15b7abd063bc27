"""Resizes of a table with buckets: what is written, what happens beside them, and after a crash at any step."""

import json
import logging
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog.table import create_table, open_table
from table_format.config.table_config import load_table_config, update_table_config
from table_format.errors import ArgumentError, ConflictError, OptionError, TransactionError, UnsupportedTableError
from table_format.keys.bucket_index import bucket_ids_of_keys
from table_format.storage import Storage
from table_format.table.bucket_counts import RESIZES, bucket_count_as_of
from table_format.table.client import TableClient
from table_writer import resize as job
from table_writer.clustering import rescale
from table_writer.execution.local import LocalExecutor
from table_writer.plan.options import WriteOptions
from tests.property.profile import STRIDE
from tests.support.bucketed_tables import (
    COUNT,
    EAGER,
    QUIET,
    SCHEMA,
    assert_pruned_plans_find_all,
    bucket_verdict,
    content,
    faulty,
    rows_in,
    tables_of,
)
from tests.support.crashed_jobs import publishes
from tests.support.faults import Faults, FaultyStorage, dying, overtaken
from tests.support.local_writes import EXECUTORS

rows = rows_in(("a", "b"))
make = tables_of(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "way", "executor"),
    [
        (4, 12, "split", "threads"),
        (6, 2, "merge", "threads"),
        (4, 6, "overwrite", "threads"),
        (3, 4, "overwrite", "files"),
    ],
)
def test_rows_stay_and_lie_where_their_hash_says(
    before: int, after: int, way: str, executor: str, tmp_path: Path
) -> None:
    table = make(tmp_path, before)
    table.upsert(rows(1, 7, 70, value=100), QUIET)
    table.bootstrap_index(QUIET)
    old = content(table)
    client = TableClient.open(str(tmp_path / "t"))
    report = job.resize(client, WriteOptions.of(QUIET), EXECUTORS[executor](), job.ResizeRequest(after))
    assert (report.before, report.after, report.way, report.rows) == (before, after, way, len(old))
    table = open_table(tmp_path / "t")
    assert content(table) == old  # their commit times, too
    assert table.verify_index().is_right
    assert table.config.bucket_count == after
    assert table.history()[-1].operation == "BUCKET_RESCALE"
    for file in table.files().to_pylist():
        stored = table.scan(f"_hoodie_file_name = '{file['path'].rpartition('/')[2]}'").to_arrow()
        keys = stored["_hoodie_record_key"].combine_chunks()
        assert set(bucket_ids_of_keys(keys, ["id"], after).tolist()) == {int(file["file_id"][:8])}
        assert keys.to_pylist() == sorted(keys.to_pylist())
    assert_pruned_plans_find_all(table, old)
    assert bucket_verdict(table) == f"1 of {after} buckets can hold the keys named by id"
    table.upsert(rows(*range(10), value=500), QUIET)
    assert len(content(table.refresh())) == len(old)


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
@pytest.mark.parametrize("hashed", ["b", "a,b"])
def test_keys_of_several_fields(kind: pa.DataType, hashed: str, tmp_path: Path) -> None:
    """Whole numbers are hashed by columns, texts, which may hold commas and colons, by record keys."""
    texts = pa.types.is_string(kind)
    values = [[f"{n % 7},:" if texts else n % 7 for n in range(80)], [f"{n}:x" if texts else n for n in range(80)]]
    options = {**QUIET, "hoodie.bucket.index.hash.field": hashed}
    table = create_table(
        tmp_path / "t", pa.schema([("a", kind), ("b", kind)]), record_key=["a", "b"], buckets=3, options=options
    )
    table.insert(pa.table(values, schema=pa.schema([("a", kind), ("b", kind)])), options)
    for count in (6, 2, 5):
        table.resize(count, options=QUIET)
        table = open_table(tmp_path / "t")
        for file in table.files().to_pylist():
            keys = table.scan(f"_hoodie_file_name = '{file['path']}'").to_arrow()["_hoodie_record_key"]
            buckets = bucket_ids_of_keys(keys.combine_chunks(), hashed.split(","), count)
            assert set(buckets.tolist()) == {int(file["file_id"][:8])}
        table.upsert(pa.table([column[:9] for column in values], schema=pa.schema([("a", kind), ("b", kind)])), QUIET)
        assert table.refresh().scan().count() == 80


def test_files_without_rows_leave_none(tmp_path: Path) -> None:
    table = make(tmp_path, 2, 6)
    table.delete("v >= 0", QUIET)
    for count, number in ((6, 6), (4, 7), (2, 8)):
        report = table.resize(count, options=QUIET)
        assert (report.rows, report.files_after) == (number - 6, number - 6)
        table.upsert(rows(*range(number - 5)), QUIET)
        assert open_table(tmp_path / "t").scan().count() == number - 5


@pytest.mark.slow
def test_past_states_are_pruned_by_their_own_count(tmp_path: Path) -> None:
    table = make(tmp_path, 2)
    times, states = [table.history()[-1].instant], [content(table)]
    for number, count in enumerate((8, 4, 3)):
        report = table.resize(count, options=QUIET)
        table.upsert(rows(number, value=100), QUIET)
        assert report.instant is not None
        times += [report.instant, table.history()[-1].instant]
        states += [states[-1], content(table.refresh())]
    for time, state in zip(times, states, strict=True):
        assert content(table, as_of=time) == state
        assert_pruned_plans_find_all(table, state, as_of=time)
    changed = content(table, incremental=(times[0], None))
    assert [row["id"] for row in changed] == ["k0", "k1", "k2"]


@pytest.mark.parametrize("undo", ["rollback", "restore"])
def test_a_resize_is_taken_back(undo: str, tmp_path: Path) -> None:
    table = make(tmp_path)
    first, before = table.history()[-1].instant, content(table)
    report = table.resize(8, options=QUIET)
    assert report.instant is not None
    if undo == "rollback":
        table.rollback(report.instant)
    else:
        table.restore(first)
    table = open_table(tmp_path / "t")
    assert (table.config.bucket_count, table.config.raw.get(RESIZES, "")) == (4, "")
    assert content(table) == before
    assert_pruned_plans_find_all(table, before)
    table.upsert(rows(3, value=9), QUIET)
    assert len(content(open_table(tmp_path / "t"))) == len(before)
    assert table.resize(2, options=QUIET).before == 4


def test_rows_beyond_a_tasks_memory_are_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_TASK_BYTES", 1)
    monkeypatch.setattr(job, "_EXCHANGED_BYTES", 1)
    table = make(tmp_path)
    before = content(table)
    monkeypatch.setattr(rescale, "rescale_classes", None)  # not called
    assert table.resize(8, options=QUIET).files_after > 8
    assert table.resize(2, options=QUIET).files_after == 4
    assert content(open_table(tmp_path / "t")) == before


def test_the_order_of_a_clustered_table_stays_when_files_are_split(tmp_path: Path) -> None:
    table = make(tmp_path, 1, 40)
    table.cluster("v", options=QUIET)
    table.resize(2, options=QUIET)
    for file in table.refresh().files()["path"].to_pylist():
        values = table.scan(f"_hoodie_file_name = '{file.rpartition('/')[2]}'").to_arrow()["v"].to_pylist()
        assert values == sorted(values)


def test_a_write_that_began_before_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that would only make new file groups, which no file group of the resize is."""
    table = make(tmp_path, 4, 2)
    overtaken(monkeypatch, lambda: open_table(tmp_path / "t").resize(16, options=QUIET))
    table.upsert(pa.table([["new"], ["c"], [1]], schema=SCHEMA), QUIET)
    table = open_table(tmp_path / "t")
    assert table.config.bucket_count == 16
    [file] = [one for one in table.files().to_pylist() if one["partition"] == "c"]
    wanted = bucket_ids_of_keys(pa.array(["new"]), ["id"], 16)[0]
    assert int(file["file_id"][:8]) == wanted
    overtaken(monkeypatch, lambda: open_table(tmp_path / "t").resize(2, options=QUIET))
    with pytest.raises(ConflictError, match="changed the number of buckets"):
        table.upsert(rows(5), {**QUIET, "hoodie.catalog.write.retries": "0"})


def test_a_resize_begins_again_when_another_write_was_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, 4, 20)
    plain = job._rewritten

    def rewritten(*arguments: Any) -> Any:
        monkeypatch.setattr(job, "_rewritten", plain)
        open_table(tmp_path / "t").upsert(pa.table([["new"], ["c"], [1]], schema=SCHEMA), QUIET)
        return plain(*arguments)

    monkeypatch.setattr(job, "_rewritten", rewritten)
    assert table.resize(8, options=QUIET).rows == 21
    assert_pruned_plans_find_all(open_table(tmp_path / "t"), content(open_table(tmp_path / "t")))


@pytest.mark.parametrize("undo", [False, True])
def test_a_write_of_no_rows_beside_a_resize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undo: bool) -> None:
    """Its instant is later than the resize's and it records the count before; it changed no file group."""
    table = make(tmp_path, 4, 20)
    plain = job._rewritten

    def rewritten(*arguments: Any) -> Any:
        open_table(tmp_path / "t").delete("id = 'nobody'", QUIET)
        return plain(*arguments)

    monkeypatch.setattr(job, "_rewritten", rewritten)
    report = table.resize(8, options=QUIET)
    assert bucket_verdict(open_table(tmp_path / "t")).startswith("1 of 8")
    assert_pruned_plans_find_all(open_table(tmp_path / "t"), content(open_table(tmp_path / "t")))
    if undo:
        [later] = [one for one in open_table(tmp_path / "t").client.timeline().writes if one.time > str(report.instant)]
        open_table(tmp_path / "t").rollback(later.time)
        open_table(tmp_path / "t").rollback(str(report.instant))
    open_table(tmp_path / "t").upsert(rows(21, value=7), QUIET)
    table = open_table(tmp_path / "t")
    assert (table.config.bucket_count, len(content(table))) == (4 if undo else 8, 21)
    assert_pruned_plans_find_all(table, content(table))
    assert table.resize(16, options=QUIET).state == "completed"


def test_a_job_with_the_old_count_goes_by_the_tables(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make(tmp_path)
    with pytest.raises(OptionError, match=COUNT):
        table.upsert(rows(1), {**QUIET, COUNT: "8"})
    table.resize(8, options=QUIET)
    with caplog.at_level(logging.WARNING):
        table.upsert(rows(1, 2, 3, value=50), {**QUIET, COUNT: "4"})
    assert [record for record in caplog.records if "resized to 8 buckets" in record.getMessage()]
    assert len(content(open_table(tmp_path / "t"))) == 60


def test_what_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    with pytest.raises(ArgumentError, match="either"):
        table.resize()
    with pytest.raises(ArgumentError, match="either"):
        table.resize(3, auto=True)
    with pytest.raises(ArgumentError, match="buckets=0"):
        table.resize(0)
    with pytest.raises(ArgumentError, match="partition c: no partition with files is named so"):
        table.resize(8, partitions="c")
    table.cluster("v", plan_only=True, options=QUIET)
    with pytest.raises(TransactionError, match="clustering"):
        table.resize(8, options=QUIET)
    found = create_table(tmp_path / "u", SCHEMA, record_key="id", index="RECORD_INDEX")
    with pytest.raises(UnsupportedTableError, match="RECORD_INDEX"):
        found.resize(8)
    assert not (tmp_path / "u/.hoodie/.temp").exists() or not any((tmp_path / "u/.hoodie/.temp").iterdir())


def test_rows_in_wrong_buckets_are_refused(tmp_path: Path) -> None:
    """As a job of Apache's with another count leaves them."""
    table = make(tmp_path, 4)
    update_table_config(Storage(tmp_path / "t"), {COUNT: "5"})
    for commit in (tmp_path / "t/.hoodie").glob("*.commit"):
        commit.write_text(commit.read_text().replace(r"\"hoodie.bucket.index.num.buckets\": \"4\"", r"\"x\": \"4\""))
    with pytest.raises(UnsupportedTableError, match="but of 5 buckets its hash gives"):
        open_table(tmp_path / "t").resize(10, options=QUIET)
    assert len(content(open_table(tmp_path / "t"))) == 60
    assert table.history()[-1].action == "rollback"


def test_a_table_whose_count_is_not_chosen_yet(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", "id bigint", record_key="id", options=QUIET)
    table.delete("id = 1")
    with pytest.raises(OptionError, match="the table has no rows yet, and its first write chooses its bucket count"):
        table.resize(4)
    table.upsert(pa.table({"id": range(10)}))
    assert open_table(tmp_path / "t").resize(4, options=QUIET).after == 4


def test_other_tools_writers_are_to_be_acknowledged(tmp_path: Path) -> None:
    table = make(tmp_path)
    [commit] = (tmp_path / "t/.hoodie").glob("*.commit")
    metadata = json.loads(commit.read_text())
    del metadata["extraMetadata"]["hoodie.catalog.table.properties"]
    commit.write_text(json.dumps(metadata))
    with pytest.raises(OptionError, match=r"left at 4.*set them to 8.*--acknowledge-fixed-writers"):
        open_table(tmp_path / "t").resize(8, options=QUIET)
    assert table.resize(8, options=QUIET, dry_run=True).state == "dry run"
    assert table.resize(8, options=QUIET, acknowledge_fixed_writers=True).state == "completed"


def test_a_pending_write_of_another_tool_is_waited_for(tmp_path: Path) -> None:
    table = make(tmp_path)
    (tmp_path / "t/.hoodie/29990101000000000.commit.requested").touch()
    never = {**QUIET, "hoodie.clean.failed.writes.policy": "NEVER"}
    with pytest.raises(TransactionError, match="of another tool is pending"):
        table.resize(8, options=never)


def test_the_number_is_chosen_by_the_size_of_files(tmp_path: Path) -> None:
    table = make(tmp_path)
    nbytes = sum(table.files()["bytes"].to_pylist())
    small = {**QUIET, "hoodie.parquet.max.file.size": str(nbytes // 2 // 14)}
    assert table.resize(auto=True, options=small, dry_run=True).after == 16
    assert table.resize(auto=True, options=QUIET).after == 1
    assert table.resize(auto=True, options=QUIET).state == "nothing"


def resized(client: TableClient, count: int) -> None:
    job.resize(client, WriteOptions.of(EAGER), LocalExecutor(1), job.ResizeRequest(count))


@pytest.mark.slow
def test_a_process_that_dies_at_any_step(tmp_path: Path) -> None:
    """Readers that opened the table before or after, and the next writer, see one of the two states."""
    make(tmp_path, 4, 30)
    before, template = content(open_table(tmp_path / "t")), tmp_path / "t"
    FaultyStorage.faults = Faults()
    shutil.copytree(template, tmp_path / "whole")
    resized(faulty(tmp_path / "whole"), 8)
    steps = FaultyStorage.faults.log
    telling = [at for at, step in enumerate(steps, 1) if publishes(step) or "hoodie.properties" in step]
    assert len(telling) >= 10
    counts = set()
    for at in sorted({*telling, *range(1, len(steps), 4 * STRIDE)}):
        copy = Path(shutil.copytree(template, tmp_path / f"copy{at}"))
        opened = open_table(copy)  # reads the properties
        with dying(at):
            resized(faulty(copy), 8)
        for table in (opened, open_table(copy)):
            assert content(table) == before
            assert_pruned_plans_find_all(table, before)
            assert bucket_verdict(table).startswith("1 of ")
        count = bucket_count_as_of(table.client.config, table.client.timeline())
        counts.add(count)
        if at % 2:
            table.upsert(rows(*range(5), 99, value=7), EAGER)
            assert load_table_config(Storage(copy)).bucket_count == count
            assert len(content(open_table(copy))) == len(before) + 1
        table.resize(8, options=EAGER)
        table = open_table(copy)
        assert (table.config.bucket_count, "?" in table.config.raw[RESIZES]) == (8, False)
        assert len(content(table)) == len(before) + at % 2
        assert_pruned_plans_find_all(table, content(table))
        shutil.rmtree(copy)
    assert counts == {4, 8}


def test_an_unconfirmed_resize_whose_instant_is_archived_prunes_nothing(tmp_path: Path) -> None:
    table = make(tmp_path)
    update_table_config(Storage(tmp_path / "t"), {RESIZES: "20200101000000000/4/8?"})
    table = open_table(tmp_path / "t")
    assert "is archived" in bucket_verdict(table)
    table.upsert(rows(1), QUIET)  # the archive does not have it
    assert open_table(tmp_path / "t").config.raw[RESIZES] == ""
    assert bucket_verdict(open_table(tmp_path / "t")).startswith("1 of 4")


def test_properties_that_another_tool_drops_come_back(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.resize(8, options=QUIET)
    raw = load_table_config(Storage(tmp_path / "t")).raw
    dropped = [key for key in raw if key.startswith(("hoodie.bucket.", "hoodie.catalog.", "hoodie.index."))]
    update_table_config(Storage(tmp_path / "t"), dict.fromkeys(dropped))
    before = content(open_table(tmp_path / "t"))
    assert_pruned_plans_find_all(open_table(tmp_path / "t"), before)
    open_table(tmp_path / "t").upsert(rows(1, value=3), {**QUIET, COUNT: "4"})
    config = load_table_config(Storage(tmp_path / "t"))
    assert config.bucket_count == 8
    assert re.fullmatch(r"\d{17}/4/8", config.raw[RESIZES])
    assert len(content(open_table(tmp_path / "t"))) == len(before)


def test_properties_that_contradict_the_newest_commit_prune_nothing(tmp_path: Path) -> None:
    make(tmp_path)
    update_table_config(Storage(tmp_path / "t"), {COUNT: "5"})
    assert "was written with 4 buckets" in bucket_verdict(open_table(tmp_path / "t"))
