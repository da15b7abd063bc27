"""Table services by the command line: what they print, and how they fail."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hudi_catalog
from catalog import table_stats
from hudi_catalog.cli.main import app
from table_format.errors import ArgumentError, OptionError, TableNotFoundError, UnsupportedTableError

BY_HAND = {"hoodie.clean.automatic": "false"}


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def shop(tmp_path: Path) -> str:
    """A table of one file group with four versions."""
    path = str(tmp_path / "shop")
    table = hudi_catalog.create_table(path, "id bigint, v bigint", record_key="id", buckets=1, options=BY_HAND)
    for value in range(4):
        table.upsert([{"id": 1, "v": value}])
    return path


def test_clean(shop: str) -> None:
    files = {path.name: path.stat().st_size for path in Path(shop).glob("*.parquet")}
    planned = json.loads(run("clean", shop, "--commits", "1", "--dry-run", "--json"))
    assert planned["dry_run"]
    assert {path.name for path in Path(shop).glob("*.parquet")} == set(files)
    assert run("clean", shop, "--versions", "1", "--dry-run").startswith("would delete 3 files of 1 partition, free ")
    text = run("clean", shop, "--commits", "1")
    assert text.startswith("deleted 2 files of 1 partition, freed ")
    assert f"states from {planned['earliest']} on stay readable" in text
    left = {path.name for path in Path(shop).glob("*.parquet")}
    assert planned["bytes"] == sum(size for name, size in files.items() if name not in left)
    assert run("clean", shop, "--commits", "1") == "nothing to clean\n"
    assert hudi_catalog.open_table(shop).scan().to_arrow()["v"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("--commits", "1", "--hours", "2"), ArgumentError, "give one of them"),
        (("--commits", "0"), OptionError, "hoodie.clean.commits.retained"),
        (("-o", "hoodie.clean.policy=KEEP_LATEST_COMMIT"), OptionError, "KEEP_LATEST_COMMITS"),
        (("-o", "hoodie.catalog.repair.hours=1"), OptionError, "hoodie.catalog.repair.hours"),
    ],
)
def test_wrong_options_of_clean(shop: str, arguments: tuple[str, ...], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        CliRunner().invoke(app, ["clean", shop, *arguments], catch_exceptions=False)


def test_repair(shop: str) -> None:
    assert run("repair", shop) == "nothing to repair\n"
    last = max(Path(shop).glob("*.parquet"), key=lambda path: path.name.rsplit("_", 1)[-1])
    time = last.stem.rsplit("_", 1)[-1]
    stray = Path(shop) / f"00000009-1111-1111-1111-111111111111-0_1-9-9_{int(time) - 1}.parquet"
    stray.write_bytes(b"stray")
    assert run("repair", shop) == "1 file of no instant left alone, too young: see --minutes\n"
    planned = json.loads(run("repair", shop, "--minutes", "0", "--dry-run", "--json"))
    assert stray.exists()
    assert (planned["files"][0]["path"], planned["bytes"], planned["dry_run"]) == (stray.name, 5, True)
    assert run("repair", shop, "--minutes", "0").splitlines() == [
        f"{stray.name}: deleted (5 B), the table has no instant of its time",
        "deleted 1 file, freed 5 B",
    ]
    assert not stray.exists()
    assert hudi_catalog.open_table(shop).scan().to_arrow()["v"].to_pylist() == [3]


def test_stats(shop: str) -> None:
    size = sum(path.stat().st_size for path in Path(shop).glob("*.parquet"))
    statistics = json.loads(run("stats", shop, "--json", "--orphans", "--small", "1"))
    assert (statistics["files"]["files"], statistics["files"]["older_files"], statistics["files"]["small"]) == (1, 3, 0)
    assert statistics["files"]["bytes"] + statistics["files"]["older_bytes"] == size
    assert statistics["orphans"] == {"files": 0, "bytes": 0, "young": 0, "unclear": 0}
    assert json.loads(run("stats", shop, "--json"))["orphans"] is None
    text = run("stats", shop, "--orphans")
    assert "older files" in text
    assert "of no instant" in text


def test_resize(shop: str) -> None:
    hudi_catalog.open_table(shop).upsert([{"id": number, "v": number} for number in range(2, 40)])
    assert run("resize", shop, "--buckets", "4", "--dry-run").startswith(
        "would resize 1 to 4 buckets by split: 1 files"
    )
    assert run("resize", shop, "--buckets", "4").startswith("resized 1 to 4 buckets by split: 1 files")
    assert run("resize", shop, "--buckets", "4") == "nothing to do: 4 buckets\n"
    report = json.loads(run("resize", shop, "--auto", "--json"))
    assert (report["before"], report["after"], report["way"], report["rows"]) == (4, 1, "merge", 39)
    assert hudi_catalog.open_table(shop).scan("id = 7").count() == 1
    for arguments, words in (((), "--buckets N"), (("--buckets", "3", "--auto"), "--buckets N")):
        result = CliRunner().invoke(app, ["resize", shop, *arguments], catch_exceptions=False)
        assert result.exit_code == 2
        assert words in result.output
    with pytest.raises(UnsupportedTableError, match="a table without partitions is resized as a whole"):
        CliRunner().invoke(app, ["resize", shop, "--buckets", "3", "--partition", "a"], catch_exceptions=False)


def test_stats_tell_when_files_of_buckets_are_too_large(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "resize to" not in run("stats", shop)
    monkeypatch.setattr(table_stats, "FILE_TARGET", 1000)
    monkeypatch.setattr(table_stats.advised_buckets, "__defaults__", (1000,))
    skew = json.loads(run("stats", shop, "--json"))["skew"]
    assert skew["count"] == 1
    assert skew["advised"] > 1
    assert f"resize to {skew['advised']} (hudi-catalog resize PATH --auto)" in run("stats", shop)


def test_stats_tell_which_partition_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "visits")
    visits = hudi_catalog.create_table(path, "id bigint, p string", record_key="id", partition_by="p", buckets=2)
    visits.insert([{"id": n, "p": "big one" if n >= 8 else f"p{n}"} for n in range(4000)])
    target = 2 * max(file.stat().st_size for file in tmp_path.glob("visits/p1/*.parquet"))
    monkeypatch.setattr(table_stats.advised_buckets, "__defaults__", (target,))
    skew = json.loads(run("stats", path, "--json"))["skew"]
    assert (skew["count"], skew["partition"]) == (2, "big one")
    assert f"resize to {skew['advised']} (hudi-catalog resize PATH --auto --partition 'big one')" in run("stats", path)
    text = run("resize", path, "--buckets", str(skew["advised"]), "--partition", "big*")
    assert text.startswith(f"resized 2 to {skew['advised']} buckets by split: 2 files")
    assert "1.1 and later follow the table's new rules" in text
    again = json.loads(run("stats", path, "--json"))["skew"]
    assert (again["count"], again["advised"], again["partition"]) == (skew["advised"], skew["advised"], "big one")
    assert "resize to" not in run("stats", path)


@pytest.mark.parametrize("command", ["clean", "repair", "stats"])
def test_an_empty_folder(tmp_path: Path, command: str) -> None:
    with pytest.raises(TableNotFoundError):
        CliRunner().invoke(app, [command, str(tmp_path)], catch_exceptions=False)
    assert not list(tmp_path.iterdir())
