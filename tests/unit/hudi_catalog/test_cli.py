"""The command line: what it prints, and how it fails."""

import itertools
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import pytest
from typer.testing import CliRunner

from hudi_catalog.cli.main import app, main
from tests.unit.conftest import GoldenTable


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@dataclass(frozen=True)
class Outcome:
    code: object
    stdout: str
    stderr: str


@pytest.fixture
def run_main(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Calls `main` as the installed script does."""

    def call(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["hudi-catalog", *arguments])
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
        with pytest.raises(SystemExit) as caught:
            main()
        return Outcome(caught.value.code, *capfd.readouterr())

    return call


@pytest.fixture
def hive(golden: Callable[[str], GoldenTable]) -> str:
    return golden("v6_0150__bkt_hive").path


def test_version() -> None:
    assert run("--version") == f"hudi-catalog {version('hudi-catalog')}\n"


def test_tables(golden_folder: str) -> None:
    entries = json.loads(run("tables", golden_folder, "--json"))
    assert len(entries) == 22
    entry = next(entry for entry in entries if entry["name"] == "v6_0150__bkt_hive.table")
    assert entry["partition_fields"] == ["part"]
    assert entry["version"] == 6
    assert "v6_0150__bkt_hive.table" in run("tables", golden_folder)


def test_a_table_whose_newest_commit_is_cut_is_listed_with_the_reason(copied: Callable[..., str]) -> None:
    path = copied("v6_0150__bkt_hive")
    newest = max(name for name in os.listdir(f"{path}/.hoodie") if name.endswith(".commit"))
    os.truncate(f"{path}/.hoodie/{newest}", 40)
    (entry,) = json.loads(run("tables", path, "--json"))
    assert f"{newest}: at byte " in entry["problem"]
    assert entry["version"] == 6
    assert "cut off" in " ".join(run("tables", path).split())


def test_show(hive: str) -> None:
    facts = json.loads(run("show", hive, "--json"))
    assert facts["name"] == "bkt_hive"
    assert facts["files"] == 15
    assert facts["partitions"] == 5
    assert {"name": "dec", "type": "decimal128(12, 3)"} in facts["schema"]
    text = run("show", hive)
    assert "15 files in 5 partitions" in text
    assert "timestamp[us, tz=UTC]" in text


def test_history(hive: str) -> None:
    entries = json.loads(run("history", hive, "--json"))
    assert [entry["operation"] for entry in entries][:3] == ["INSERT", "UPSERT", "DELETE"]
    assert "upsert" in run("history", hive)


def test_plan_json(hive: str) -> None:
    plan = json.loads(run("plan", hive, "--where", "part = 'eu' AND id = 'k00004'", "--buckets", "3", "--json"))
    stages = {stage["name"]: stage for stage in plan["stages"]}
    assert plan["files_total"] == plan["stages"][0]["files_in"] == 15
    assert stages["partition"]["files_out"] == 3
    assert stages["bucket"]["files_out"] == 1
    for before, after in itertools.pairwise(plan["stages"]):
        assert before["files_out"] == after["files_in"]
    assert plan["files_kept"] == len(plan["splits"]) == plan["stages"][-1]["files_out"]
    for split in plan["splits"]:
        assert split["partition_values"] == {"part": "eu"}
        assert split["residual"] == "id = 'k00004'"
        assert os.path.getsize(split["path"].removeprefix("file:")) == split["size"] == split["length"]


def test_plan_and_explain_in_words(hive: str, tmp_path: Any) -> None:
    assert "15 of 15 files" in run("plan", hive)
    page = tmp_path / "plan.html"
    text = run("explain", hive, "--where", "part = 'eu' AND s = lower(s)", "--html", str(page))
    assert "1 of 5 partitions can match by part" in text
    assert "not understood" in text
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    explained = json.loads(run("explain", hive, "--where", "part = 'eu'", "--json"))
    assert "splits" not in explained
    assert explained["stages"][0]["files_out"] == 3


def test_read_json_is_one_object_a_row(golden: Callable[[str], GoldenTable]) -> None:
    table = golden("v6_0150__bkt_np_types")
    rows = [json.loads(line) for line in run("read", table.path, "--json").splitlines()]
    key = lambda row: row["_hoodie_record_key"]  # noqa: E731
    assert sorted(rows, key=key) == sorted(table.rows, key=key)
    assert list(rows[0])[:6] == [*(name for name in table.rows[0] if name.startswith("_hoodie_")), "id"]


def test_read_with_filter_columns_and_limit(hive: str) -> None:
    lines = run("read", hive, "--json", "--where", "part = 'eu'", "--columns", "id, part", "--limit", "2").splitlines()
    assert len(lines) == 2
    assert all(list(json.loads(line)) == ["id", "part"] and json.loads(line)["part"] == "eu" for line in lines)
    assert run("read", hive, "--json", "--limit", "0") == ""
    assert "first 50 rows" in run("read", hive)


def test_read_the_past(golden: Callable[[str], GoldenTable]) -> None:
    path = golden("v6_0150__bkt_evolve").path
    first = json.loads(run("history", path, "--json"))[0]["instant"]
    rows = run("read", path, "--as-of", first, "--json").splitlines()
    assert {json.loads(row)["_hoodie_commit_time"] for row in rows} == {first}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", "/nowhere"], 1, "no Hudi table"),
        (["tables", "/nowhere"], 1, "no such folder"),
        (["read", "HIVE", "--where", "nothing = 1"], 1, "no column nothing"),
        (["read", "HIVE", "--where", "part ="], 1, "an operand is missing"),
        (["read", "HIVE", "--where", "soundex(id) = 'A'", "--json"], 1, "not understood"),
        (["read", "HIVE", "--where", "rand() < id", "--json"], 1, "not understood"),
        (["read", "HIVE", "--columns", "nothing"], 1, "no column nothing"),
        (["plan", "HIVE", "-o", "hoodie.nothing=1"], 1, "hoodie.nothing"),
        (["plan", "HIVE", "-o", "hoodie.bucket.index.num.buckets=many"], 1, "many"),
        (["plan", "HIVE", "--as-of", "soon"], 1, "soon"),
        (["plan", "HIVE", "--incremental", "soon.."], 1, "soon"),
        (["plan", "HIVE", "--incremental", "20200101"], 1, "begin..end"),
        (["plan", "HIVE", "--incremental", "2026-11-21..2026-11-20"], 1, "before the beginning"),
        (["read", "HIVE", "--incremental", "..", "--as-of", "2026-11-21"], 1, "as_of"),
        (["explain", "HIVE", "--html", "/nowhere/plan.html"], 1, "--html /nowhere/plan.html: no such file"),
        (["read"], 2, "Usage"),
        (["read", "HIVE", "--nothing"], 2, "nothing"),
        (["nothing"], 2, "nothing"),
        (["plan", "HIVE", "--buckets", "0"], 2, "Invalid"),
        (["raed", "HIVE"], 2, "Did you mean 'read'"),
        (["index", "shwo", "HIVE"], 2, "Did you mean 'show'"),
        (["read", "HIVE", "--wehre", "x = 1"], 2, "--where"),
        (["read", "HIVE", "--columns", "id,prat"], 1, "no column prat (did you mean part?)"),
        (["read", "HIVE", "--where", "PRAT = 'x'"], 1, "(did you mean part?)"),
        (["plan", "HIVE", "-o", "hoodie.catalog.scan.thread=2"], 1, "(did you mean hoodie.catalog.scan.threads?)"),
        (["read", "HIVE", "--sample", "3"], 1, "hoodie.catalog.scan.sample='3': write k/n, such as 3/64"),
        (
            ["plan", "HIVE", "--sample", "1/2"],
            1,
            "the bucket count is not in hoodie.properties; give the scan hoodie.bucket",
        ),
        (["plan", "HIVE", "-o", "hoodie.datasource.query.type=x"], 1, "Apache Hudi's that a scan does not read"),
        (["index", "verify", "HIVE", "-o", "hoodie.catalog.write.task=2"], 1, "mean hoodie.catalog.write.tasks?"),
    ],
)
def test_errors_are_one_line(
    run_main: Callable[..., Outcome], hive: str, arguments: list[str], code: int, words: str
) -> None:
    result = run_main(*[hive if argument == "HIVE" else argument for argument in arguments])
    assert result.code == code
    assert result.stdout == ""
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert code == 2 or len(result.stderr.splitlines()) == 1


def test_an_option_that_does_nothing_is_one_line_of_warning(run_main: Callable[..., Outcome], hive: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = run_main("index", "verify", hive, "-o", "hoodie.upsert.shufle.parallelism=2")
    first, second = result.stderr.splitlines()
    assert first.startswith("hudi-catalog: warning: hoodie.upsert.shufle.parallelism: neither Apache Hudi nor")
    assert "no record index" in second


def test_a_damaged_file_is_named(run_main: Callable[..., Outcome], copied: Callable[..., str]) -> None:
    path = copied("v6_0150__bkt_np_types")
    victim = json.loads(run("plan", path, "--json"))["splits"][0]["path"].removeprefix("file:")
    with open(victim, "r+b") as stream:
        stream.truncate(100)
    result = run_main("read", path, "--json")
    assert result.code == 1
    assert os.path.basename(victim) in result.stderr
    os.remove(victim)
    assert os.path.basename(victim) in run_main("read", path, "--json").stderr


def test_a_version_that_is_not_read_is_refused_by_name(
    run_main: Callable[..., Outcome], copied: Callable[..., str]
) -> None:
    result = run_main("read", copied("v6_0150__bkt_hive", {"hoodie.table.version": "10"}), "--json")
    assert result.code == 1
    assert "version 10" in result.stderr


def test_an_incremental_read(golden: Callable[[str], GoldenTable]) -> None:
    path = golden("v6_1200__cluster").path
    first, second = (entry["instant"] for entry in json.loads(run("history", path, "--json"))[:2])
    written = dict.fromkeys((first, second), 0)
    for line in run("read", path, "--incremental", f"earliest..{second}", "--json").splitlines():
        written[json.loads(line)["_hoodie_commit_time"]] += 1
    assert all(written.values())
    lines = run("read", path, "--incremental", f"{first}..", "--json").splitlines()
    assert {json.loads(line)["_hoodie_commit_time"] for line in lines} > {second}
    assert first not in {json.loads(line)["_hoodie_commit_time"] for line in lines}
    assert "instant range" in run("explain", path, "--incremental", f"{first}..")


def test_read_optimized_of_a_table_without_logs_is_all_of_it(hive: str) -> None:
    assert run("read", hive, "--read-optimized", "--json") == run("read", hive, "--json")


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(golden: Callable[[str], GoldenTable]) -> None:
    main = f"{sys.executable} -c 'from hudi_catalog.cli.main import main; main()'"
    code = f"{main} read {golden('v6_0150__bkt_np_types').path} --json | head -n 1"
    result = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False)
    assert len(result.stdout.splitlines()) == 1
    assert result.stderr == ""
