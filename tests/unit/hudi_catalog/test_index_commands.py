"""`hudi-catalog index …`: what it prints, what it changes, and its exit codes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hudi_catalog.cli.index_commands import ProgressThreads
from hudi_catalog.cli.main import app
from table_format.errors import OptionError, TransactionError
from table_format.table.client import TableClient
from table_writer.commit.transaction import WriteTransaction
from tests.support.indexed_tables import BUCKETS, change_index, data_places, make, rows
from tests.support.local_writes import LocalTable

BY_PARTITION = "hoodie.metadata.record.level.index.enable=true"


@pytest.fixture
def table(tmp_path: Path) -> LocalTable:
    made = make(tmp_path, BUCKETS)
    made.write("upsert", rows(0, 20))
    return made


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["index", *arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def test_from_nothing_to_a_verified_index(table: LocalTable) -> None:
    path = table.client.storage.uri
    assert "no record index" in run("show", path)
    assert json.loads(run("show", path, "--json"))["state"] == "none"
    built = json.loads(run("bootstrap", path, "--groups", "2", "--json"))
    assert (built["keys"], built["groups"], built["duplicates"]) == (20, 2, 0)
    shown = json.loads(run("show", path, "--json"))
    assert (shown["state"], shown["scope"], shown["read_by_apache"]) == ("in use", "global", True)
    assert (shown["file_groups"], shown["entries_in_base_files"], shown["log_files"]) == (2, 20, 2)
    assert shown["base_bytes"] > shown["log_bytes"] > 0
    assert "20 entries" in run("show", path)
    assert "the index agrees with the data" in run("verify", path)
    assert json.loads(run("verify", path, "--sample", "0.5", "--json"))["slices"] == 2


@pytest.mark.slow
def test_faults_and_their_repair(table: LocalTable) -> None:
    path = table.client.storage.uri
    run("bootstrap", path)
    change_index(table.client, ("k003", "p1", None), ("zzz", *data_places(table.client)["k002"].pop()))
    text = run("verify", path, code=1)
    assert "missing  k003" in text
    assert "extra    zzz" in text
    report = json.loads(run("verify", path, "--json", code=1))
    assert (report["is_right"], report["counts"]["missing"], report["counts"]["extra"]) == (False, 1, 1)
    assert "repaired by the commit" in run("verify", path, "--repair")
    assert json.loads(run("verify", path, "--json"))["is_right"] is True


def test_duplicates_stay_and_point_at_an_index_by_partition(table: LocalTable) -> None:
    path = table.client.storage.uri
    table.write("upsert", rows(0, 5, partitions=1))
    text = run("bootstrap", path)
    assert "2 rows have the key of another row" in text
    assert BY_PARTITION in text
    run("verify", path, "--repair", code=1)
    assert "the key of another row" not in run("bootstrap", path, "-o", BY_PARTITION)
    assert "each partition by itself" in run("show", path)
    run("verify", path)


def test_duplicates_in_one_partition_do_not(table: LocalTable) -> None:
    table.write("bulk_insert", rows(0, 2))
    text = run("bootstrap", table.client.storage.uri)
    assert "2 rows have the key of another row" in text
    assert BY_PARTITION not in text


def test_options_and_waiting(table: LocalTable, tmp_path: Path) -> None:
    path = table.client.storage.uri
    config = tmp_path / "options"
    config.write_text("hoodie.metadata.record.index.min.filegroup.count=4\n")
    assert json.loads(run("bootstrap", path, "--config", str(config), "--json"))["groups"] == 4
    with pytest.raises(OptionError, match="write key=value"):
        run("bootstrap", path, "-o", "nonsense")
    with WriteTransaction.begin(table.client, "commit", "UPSERT"), pytest.raises(TransactionError, match="pending"):
        run("bootstrap", path, "--wait", "0")


def test_resize(table: LocalTable) -> None:
    path = table.client.storage.uri
    run("bootstrap", path, "--groups", "2")
    shown = json.loads(run("resize", path, "5", "--json"))
    assert (shown["file_groups"], shown["entries_in_base_files"]) == (5, 20)
    assert json.loads(run("verify", path, "--json"))["is_right"] is True


def test_a_stale_private_index_is_shown_as_such(table: LocalTable) -> None:
    path = table.client.storage.uri
    run("bootstrap", path, "-o", "hoodie.catalog.record.index.hash=xxhash64")
    shown = json.loads(run("show", path, "--json"))
    assert (shown["state"], shown["hash"], shown["read_by_apache"]) == ("in use", "xxhash64", False)
    assert "Apache Hudi does not read it" in run("show", path)
    client = TableClient.open(path)
    with WriteTransaction.begin(client, "commit", "UPSERT") as transaction:
        schema = client.table_schema_json()
        assert schema
        transaction.commit([], schema_json=schema)  # by a writer that does not keep the index
    assert "no record index" in run("show", path) or "stale" in run("show", path)


def test_the_mapper_keeps_order_and_stops_at_an_error() -> None:
    with ProgressThreads() as view:
        view.begin_step("counting")
        assert view(lambda number: number * 2, list(range(50))) == list(range(0, 100, 2))
        assert view(len, []) == []
        done: list[int] = []

        def fails(number: int) -> None:
            if number == 3:
                raise ValueError("three")
            done.append(number)

        with pytest.raises(ValueError, match="three"):
            view(fails, list(range(10_000)))
        assert len(done) < 10_000
    assert view.steps == ["counting"]


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_build_and_drop(table: LocalTable, tmp_path: Path) -> None:
    path = table.client.storage.uri
    text = run("build", path, "bloom_filters", "--groups", "2")
    assert [line.split()[0] for line in lines(text)] == ["index", "files", "columns", "size", "time"]
    assert "index bloom_filters, new" in lines(text)
    listed = "hoodie.metadata.index.column.stats.column.list"
    built = json.loads(run("build", path, "column_stats", "-o", f"{listed}=x", "--json"))
    assert (built["index"], built["replaced"], built["columns"][-1]) == ("column_stats", True, "x")
    assert json.loads(run("drop", path, "bloom_filters", "--json")) == {
        "dropped": "bloom_filters",
        "indexes": ["column_stats"],
    }
    assert lines(run("drop", path, "column_stats")) == ["dropped column_stats; indexes of the table: none"]
    assert TableClient.open(path).config.metadata_partitions == ("files",)
    for wrong in (["drop", path, "column_stats"], ["drop", path, "column_stat"], ["build", path, "bloom_filter"]):
        with pytest.raises(OptionError, match=r"the table has no column_stats|did you mean"):
            run(*wrong)
    with pytest.raises(OptionError, match="index bootstrap"):
        run("build", path, "record_index")
    with pytest.raises(OptionError, match=r"which are not columns of the table"):
        run("build", path, "column_stats", "-o", f"{listed}=none")


def test_lookup_and_changes(table: LocalTable) -> None:
    path = table.client.storage.uri
    run("bootstrap", path)
    [first] = table.client.timeline().writes
    table.write("upsert", rows(18, 22))
    found = json.loads(run("lookup", path, "k001", "k021", "--json"))
    assert (sorted(entry["key"] for entry in found["entries"]), found["unknown"]) == (["k001", "k021"], [])
    text = run("lookup", path, "k001", "gone", code=1)
    assert lines(text)[0] == "key partition file_id"
    assert lines(text)[-1] == "gone is not in the table"
    earlier = json.loads(run("lookup", path, "k021", "--as-of", first.time, "--json", code=1))
    assert earlier["unknown"] == ["k021"]
    changes = json.loads(run("changes", path, first.time, "--json"))
    assert sorted((row["change"], row["key"]) for row in changes) == [("insert", "k020"), ("insert", "k021")]
    text = run("changes", path, first.time)
    assert lines(text)[0] == "2 inserts, 0 moves, 0 deletes"
    assert lines(run("changes", path, first.time, "--end", first.time))[0] == "0 inserts, 0 moves, 0 deletes"
