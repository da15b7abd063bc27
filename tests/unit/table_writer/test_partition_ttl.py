"""Partitions' time to live: which expire, and what deletes them."""

import json
import time
import types
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import hudi_catalog
import table_writer.partition_ttl as ttl
from hudi_catalog.cli.main import app
from table_format.errors import ArgumentError, OptionError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.execution.local import LocalExecutor
from table_writer.plan.options import WriteOptions
from tests.support.faults import overtaken
from tests.support.toy_table import assert_tidy

DAY = 24 * 60 * 60
WEEK = {"hoodie.partition.ttl.strategy.days.retain": "7"}
CREATED = {"hoodie.partition.ttl.management.strategy.type": "KEEP_BY_CREATION_TIME"}


@pytest.fixture(params=["BUCKET", "RECORD_INDEX"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> hudi_catalog.Table:
    made = hudi_catalog.create_table(
        tmp_path / "t", "id bigint, p string, v bigint", record_key="id", partition_by="p", index=request.param
    )
    for number, partition in enumerate(["a*", "ab", "c"]):
        made.insert([{"id": number, "p": partition, "v": number}])
    return made


def expire(table: hudi_catalog.Table, days: float, options: dict[str, str] = WEEK, **more: Any) -> ttl.ExpiryReport:
    """Delete what has expired so many days from now."""
    merged = WriteOptions.of_user(options)
    client = TableClient.open(table.client.storage.uri)
    return ttl.expire_partitions(client, merged, LocalExecutor.of(merged), now=time.time() + days * DAY, **more)


def partitions(table: hudi_catalog.Table) -> list[str]:
    table.refresh()
    return [row["p"] for row in table.scan(columns=["p"]).to_arrow().sort_by("p").to_pylist()]


def test_partitions_expire_after_their_last_write(table: hudi_catalog.Table) -> None:
    assert expire(table, 6.9).partitions == ()
    assert expire(table, 7.1, {}).partitions == ()  # without a time to live
    planned = expire(table, 7.1, dry_run=True)
    assert (planned.partitions, planned.files, planned.left, planned.instant) == (("a*", "ab", "c"), 3, 0, None)
    assert planned.bytes > 0
    assert len(table.history()) == 3
    one = expire(table, 7.1, {**WEEK, "hoodie.partition.ttl.strategy.max.delete.partitions": "1"})
    assert (one.partitions, one.left) == (("a*",), 2)
    # `*` in a path is no pattern
    assert partitions(table) == ["ab", "c"]
    *_, last = table.history()
    assert (last.instant, last.action, last.operation) == (one.instant, "replacecommit", "DELETE_PARTITION")
    chosen = expire(table, 7.1, {**WEEK, "hoodie.partition.ttl.strategy.partition.selected": "c/, nothing"})
    assert chosen.partitions == ("c",)
    assert partitions(table) == ["ab"]
    assert expire(table, 7.1).partitions == ("ab",)
    assert expire(table, 7.1).partitions == ()


def test_partitions_of_a_planned_clustering_stay(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = hudi_catalog.create_table(
        tmp_path / "t", "id bigint, p string", record_key="id", partition_by="p", index="RECORD_INDEX"
    )
    table.insert([{"id": number, "p": partition} for number, partition in enumerate("ab")])
    planned = table.cluster("id", plan_only=True, partitions="a")
    assert (expire(table, 8).partitions, expire(table, 8).left) == (("b",), 1)
    assert "expired partitions of a planned clustering stay until it has run: a" in caplog.text
    table.rollback(planned.instant or "")
    assert expire(table, 8).partitions == ("a",)


def test_creation_time(table: hudi_catalog.Table, tmp_path: Path) -> None:
    file = tmp_path / "t/c/.hoodie_partition_metadata"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("commitTime")]
    file.unlink()
    file.write_text("\n".join(["commitTime=20200101000000000", *lines]))
    by_type = {**WEEK, "hoodie.partition.ttl.management.strategy.type": "KEEP_BY_CREATION_TIME"}
    name = "org.apache.hudi.table.action.ttl.strategy.KeepByCreationTimeStrategy"
    by_class = {**WEEK, "hoodie.partition.ttl.strategy.class": name}
    for options in (by_type, by_class):
        assert expire(table, 0, options, dry_run=True).partitions == ("c",)
    assert expire(table, 0, dry_run=True).partitions == ()


def test_a_partition_that_is_written_to_meanwhile_stays(
    table: hudi_catalog.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path,) = [table.client.storage.uri]
    other = hudi_catalog.open_table(tmp_path)
    moment = time.time()
    monkeypatch.setattr(ttl, "_DAY_MS", 1)  # days of a millisecond
    overtaken(monkeypatch, lambda: other.upsert([{"id": 1, "p": "ab", "v": 9}]))
    merged = WriteOptions.of_user(WEEK)
    report = ttl.expire_partitions(TableClient.open(tmp_path), merged, LocalExecutor.of(merged), now=moment)
    assert report.partitions == ("a*", "c")
    assert partitions(table) == ["ab"]


def test_two_expiries_at_one_moment(table: hudi_catalog.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = table.client.storage.uri
    first: list[ttl.ExpiryReport] = []
    overtaken(monkeypatch, lambda: first.append(expire(table, 8)))
    client = TableClient.open(folder)
    merged = WriteOptions.of_user(WEEK)
    second = ttl.expire_partitions(client, merged, LocalExecutor.of(merged), now=time.time() + 8 * DAY)
    assert first[0].partitions == ("a*", "ab", "c")
    assert (second.partitions, second.files, second.instant) == ((), 0, None)
    writes = [entry.operation for entry in table.history() if entry.operation == "DELETE_PARTITION"]
    assert writes == ["DELETE_PARTITION"]  # no empty one
    assert not TableClient.open(folder).timeline().pending
    assert partitions(table) == []
    assert_tidy(folder)


def test_inline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    options = {**WEEK, "hoodie.partition.ttl.inline": "true"}
    table = hudi_catalog.create_table(
        tmp_path / "t", "id bigint, p string", record_key="id", partition_by="p", buckets=1, options=options
    )
    table.insert([{"id": 1, "p": "a"}])
    monkeypatch.setattr(ttl, "time", types.SimpleNamespace(time=lambda: time.time() + 8 * DAY))
    table.insert([{"id": 2, "p": "b"}])
    assert [entry.operation for entry in table.history()][-1] == "DELETE_PARTITION"
    assert partitions(table) == []
    monkeypatch.setattr(ttl, "expire_partitions", lambda *_: (_ for _ in ()).throw(OSError("away")))
    table.insert([{"id": 3, "p": "b"}])
    assert partitions(table) == ["b"]
    assert "left to the next write: away" in caplog.text


def test_inline_after_a_batch_of_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**WEEK, "hoodie.partition.ttl.inline": "true"}
    table = hudi_catalog.create_table(
        tmp_path / "t", "id bigint, p string", record_key="id", partition_by="p", buckets=1
    )
    write = table.stream_writer("job", options=options)
    write([{"id": 1, "p": "a"}], 0)
    assert partitions(table) == ["a"]
    monkeypatch.setattr(ttl, "time", types.SimpleNamespace(time=lambda: time.time() + 8 * DAY))
    write([{"id": 2, "p": "b"}], 1)
    assert partitions(table) == []
    assert write([{"id": 2, "p": "b"}], 1).replayed


def test_the_command_line_and_wrong_options(table: hudi_catalog.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table.client.storage.uri

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["expire", path, *arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    assert run("--days", "1") == "nothing has expired\n"
    monkeypatch.setattr(ttl, "_DAY_MS", 1)
    planned = json.loads(run("--days", "1", "--dry-run", "--json"))
    assert (planned["partitions"], planned["dry_run"]) == (["a*", "ab", "c"], True)
    assert run("--days", "1").splitlines()[-1].startswith("deleted 3 partitions of 3 file groups, ")
    for arguments, error, words in (
        ((), ArgumentError, "hoodie.partition.ttl.strategy.days.retain"),
        (("--days", "0"), ArgumentError, "give 1 or more"),
        (("-o", "hoodie.partition.ttl.strategy.days.retain=-2"), OptionError, "days.retain"),
        (("--days", "1", "-o", "hoodie.partition.ttl.strategy.class=Mine"), OptionError, "KeepByTimeStrategy"),
        (("--days", "1", "-o", "hoodie.partition.ttl.management.strategy.type=X"), OptionError, "KEEP_BY_TIME"),
    ):
        with pytest.raises(error, match=words):
            CliRunner().invoke(app, ["expire", path, *arguments], catch_exceptions=False)


def test_creation_times_are_read_once_a_table_until_they_may_be_over(
    table: hudi_catalog.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    creator = ttl.partition_creator

    def counted(storage: Storage, partition: str) -> str | None:
        read.append(partition)
        return creator(storage, partition)

    monkeypatch.setattr(ttl, "partition_creator", counted)
    inline = {**WEEK, **CREATED, "hoodie.partition.ttl.inline": "true"}
    table.insert([{"id": 3, "p": "d", "v": 3}], options=inline)
    assert sorted(read) == ["a*", "ab", "c", "d"]
    table.insert([{"id": 4, "p": "d", "v": 4}, {"id": 5, "p": "e", "v": 5}], options=inline)
    assert read[4:] == ["e"]
    # before one is deleted it is read again: somebody may have deleted it and created it anew
    merged = WriteOptions.of_user(inline)
    week = ttl.expire_partitions(
        table.client, merged, LocalExecutor.of(merged), now=time.time() + 8 * DAY, dry_run=True
    )
    assert week.partitions == ("a*", "ab", "c", "d", "e")
    assert sorted(read[5:]) == ["a*", "ab", "c", "d", "e"]
