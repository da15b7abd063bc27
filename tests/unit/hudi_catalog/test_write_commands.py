"""`hudi-catalog create | write | delete`, and README's quickstart, unchanged."""

import errno
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import hudi_catalog
from hudi_catalog import open_table
from hudi_catalog.cli import write_commands
from hudi_catalog.cli.main import app
from table_format.errors import (
    HudiError,
    NoSpaceError,
    OptionError,
    RecordError,
    SchemaError,
    TableExistsError,
    TableNotFoundError,
    error_text,
)

README = Path(__file__).parents[3] / "README.md"
TEAS = "id,name,price,since\n1,Assam,4.20,2026-01-31\n2,Sencha,6.90,\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("teas.csv").write_text(TEAS)
    return tmp_path


def run(*arguments: str, code: int = 0, text: str | None = None) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False, input=text)
    assert result.exit_code == code, result.output
    return result.output if code else result.stdout


def summary(*arguments: str, **more) -> dict:
    return json.loads(run(*arguments, "--json", **more))


def content(path: str) -> list[dict]:
    table = hudi_catalog.open_table(path)
    names = table.columns.names
    return table.scan(columns=names).to_arrow().sort_by(names[0]).to_pylist()


def test_a_table_comes_with_its_first_rows() -> None:
    printed = run("write", "shop/teas", "--key", "id", "teas.csv")
    assert re.fullmatch(r"upsert into teas, instant \d+: 2 rows inserted, 0 updated, 0 deleted; .*\n", printed)
    assert content("shop/teas") == duckdb.sql("FROM 'teas.csv' ORDER BY id").to_arrow_table().to_pylist()
    Path("more.json").write_text('{"id": 2, "name": "Gyokuro", "price": 9}\n{"id": 3, "name": "Oolong"}\n')
    done = summary("write", "shop/teas", "more.json")
    assert (done["rows_inserted"], done["rows_updated"], done["created"]) == (1, 1, False)
    assert hudi_catalog.open_table("shop/teas").config.bucket_count == 1
    assert [(tea["name"], tea["price"]) for tea in content("shop/teas")] == [
        ("Assam", 4.2),
        ("Gyokuro", 9.0),
        ("Oolong", None),
    ]


def test_the_first_write_brings_columns() -> None:
    assert "no columns yet" in run("create", "shop/teas", "--key", "id")
    assert summary("create", "shop/cups", "--key", "id")["schema"] == []
    run("write", "shop/teas", "teas.csv")
    assert [tea["name"] for tea in content("shop/teas")] == ["Assam", "Sencha"]


def test_another_process_makes_the_table_first(monkeypatch: pytest.MonkeyPatch) -> None:
    run("create", "shop/teas", "--key", "id", "--schema", "id int, name string, price float, since date")
    real, calls = write_commands._open_if_there, iter([None])
    monkeypatch.setattr(write_commands, "_open_if_there", lambda *arguments: next(calls, real(*arguments)))
    assert summary("write", "shop/teas", "--key", "id", "teas.csv")["created"] is False
    assert hudi_catalog.open_table("shop/teas").columns.field("id").type == pa.int32()
    Path("shop/other").mkdir()
    Path("shop/other/notes.txt").touch()
    with pytest.raises(TableExistsError, match="other"):
        run("write", "shop/other", "--key", "id", "teas.csv")


def test_create_and_every_operation() -> None:
    text = "id bigint, part string, price decimal(10,2)"
    shown = run("create", "t", "--key", "id", "--partition-by", "part", "--buckets", "1", "--schema", text)
    assert "1 buckets by id" in shown
    assert "no commit yet" in shown
    pa.parquet.write_table(pa.table({"id": [1, 2], "part": ["a", "b"]}), "one.parquet")
    pa.parquet.write_table(pa.table({"id": [3], "part": ["b"]}), "two.parquet")
    assert summary("write", "t", "one.parquet", "two.parquet", "--operation", "bulk_insert")["rows_inserted"] == 3
    assert summary("write", "t", "two.parquet", "--operation", "insert_overwrite")["groups_replaced"] == 1
    assert [each["id"] for each in content("t")] == [1, 3]
    assert summary("write", "t", "one.parquet", "--operation", "insert_overwrite_table")["created"] is False
    assert [each["id"] for each in content("t")] == [1, 2]
    assert summary("delete", "t", "--where", "id = 1")["rows_deleted"] == 1
    assert summary("delete", "t", "--keys", "two.parquet")["rows_deleted"] == 0
    assert summary("delete", "t", "--keys", "one.parquet")["rows_deleted"] == 1
    run("write", "t", "one.parquet", "two.parquet")
    assert summary("delete", "t", "--partition", "b", "--partition", "c")["groups_replaced"] == 1
    assert [each["id"] for each in content("t")] == [1]


def test_a_table_like_a_file() -> None:
    facts = summary("create", "t", "--key", "id", "--buckets", "1", "--like", "teas.csv", "--ordering", "price")
    assert facts["ordering_fields"] == ["price"]
    assert [field["name"] for field in facts["schema"]][5:] == ["id", "name", "price", "since"]
    facts = summary("create", "u", "--key", "id", "--index", "record_index", "--name", "other", "--schema", "id int")
    assert (facts["name"], facts["index_type"]) == ("other", "RECORD_INDEX")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    assert summary("write", "t", "--key", "id", "--buckets", "1", "--format", "csv", "-", text=TEAS)["created"] is True
    assert len(content("t")) == 2
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id\n2\n")))
    assert summary("delete", "t", "--keys", "-", "--format", "csv", text="id\n2\n")["rows_deleted"] == 1


def test_timestamps_without_a_zone() -> None:
    Path("a.csv").write_text("id,at\n1,2026-07-01 12:00:00\n")
    with pytest.raises(SchemaError, match="--time-zone"):
        run("write", "t", "--key", "id", "--buckets", "1", "a.csv")
    assert not Path("t").exists()
    run("write", "t", "--key", "id", "--buckets", "1", "--time-zone", "Europe/Vienna", "a.csv")
    assert content("t")[0]["at"].isoformat() == "2026-07-01T10:00:00+00:00"


def test_flags_are_compared_with_the_table() -> None:
    run("write", "t", "--key", "id", "--buckets", "1", "teas.csv")
    run("write", "t", "--key", "id", "--buckets", "1", "teas.csv")
    for flag, value in (("--key", "name"), ("--buckets", "2"), ("--partition-by", "name"), ("--ordering", "price")):
        with pytest.raises(HudiError, match=value):
            run("write", "t", flag, value, "teas.csv")
    with pytest.raises(OptionError, match="by its flag; give one"):
        run("write", "t", "--key", "id", "-o", "hoodie.datasource.write.recordkey.field=name", "teas.csv")


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(TableNotFoundError, match="t: there is no Hudi table; give --key COLUMN to create one"):
        run("write", "t", "teas.csv")
    with pytest.raises(SchemaError, match=r"names 'idd'.*did you mean id"):
        run("write", "t", "--key", "idd", "--buckets", "1", "teas.csv")
    with pytest.raises(OptionError, match="--option a: write key=value"):
        run("write", "t", "--key", "id", "-o", "a", "teas.csv")
    assert not Path("t/.hoodie/hoodie.properties").exists()
    assert "give one of --where, --keys and --partition" in run("delete", "t", code=2)
    assert "give one of --where, --keys and --partition" in run("delete", "t", "--where", "a", "--keys", "b", code=2)
    assert "--schema or --like" in run("create", "t", "--key", "a", "--schema", "a int", "--like", "b", code=2)
    assert "merge" in run("write", "t", "--operation", "merge", "teas.csv", code=2)


def test_the_summary_of_a_delete() -> None:
    run("write", "t", "--key", "id", "teas.csv")
    printed = run("delete", "t", "--where", "id = 1")
    assert re.fullmatch(
        r"delete from t, instant \d+: 0 rows inserted, 0 updated, 1 deleted; 1 file, 0.0 MB, .* s\n", printed
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("long.csv", "id,v\n99999999999999999999,1\n99999999999999999998,2\n"),
        ("mixed.csv", "id,v\n90071992547409931,1\n90071992547409932,2\n1.5,3\n"),
        ("long.json", '{"id": 99999999999999999999, "v": 1}\n{"id": 99999999999999999998, "v": 2}\n'),
    ],
)
def test_whole_numbers_are_not_rounded(name: str, text: str) -> None:
    Path(name).write_text(text)
    with pytest.raises(RecordError, match=r"column 'id' has whole numbers of 17 digits or more"):
        run("write", "t", "--key", "id", name)
    run("create", "t", "--key", "id", "--schema", "id decimal(38,1), v bigint")
    assert summary("write", "t", name)["rows_inserted"] == len(text.splitlines()) - name.endswith("csv")
    Path("floats.csv").write_text("id,v\n1,1e30\n2,0.12345678901234567890\n3,1234567890123456.5\n")
    Path("floats.json").write_text('{"id": 1, "v": 1e30, "a": "12345678901234567890"}\n{"id": 2, "v": 0.5}\n')
    for each in ("floats.csv", "floats.json"):
        run("write", each.replace(".", "_"), "--key", "id", each)


@pytest.mark.parametrize("made", ["write", "create like", "create"])
def test_keys_of_csv_files_stay_apart(made: str) -> None:
    Path("k.csv").write_text("version,v,p\n1.1,1,x\n1.10,2,x\n")
    if made == "create like":
        run("create", "t", "--key", "version", "--like", "k.csv")
    elif made == "create":
        run("create", "t", "--key", "version")
    assert summary("write", "t", "--key", "version", "k.csv")["rows_inserted"] == 2
    assert summary("write", "t", "k.csv")["rows_updated"] == 2
    assert open_table("t").scan("version = '1.10'").to_arrow()["v"].to_pylist() == [2]
    run("write", "u", "--key", "v", "--partition-by", "version", "k.csv")
    assert sorted(open_table("u").partitions()["partition"].to_pylist()) == ["1.1", "1.10"]


def test_a_table_that_a_failed_write_leaves_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_catalog.sources.files._BLOCK", 1 << 10)
    Path("late.csv").write_text("id,v\n" + "".join(f"{number},7\n" for number in range(1000)) + "1000,abc\n")
    with pytest.raises(RecordError, match="create the table first") as raised:
        run("write", "t", "--key", "id", "late.csv")
    assert "the empty table t was created for these rows" in error_text(raised.value)
    with pytest.raises(RecordError) as raised:
        run("write", "t", "late.csv")
    assert "empty table" not in error_text(raised.value)
    shutil.rmtree("t")
    run("create", "t", "--key", "id", "--schema", "id bigint, v string")
    assert summary("write", "t", "late.csv")["rows_inserted"] == 1001


def test_the_summary_of_an_overwrite() -> None:
    run("write", "t", "--key", "id", "teas.csv")
    assert "; 1 file group replaced, 1 file, " in run("write", "t", "--operation", "insert_overwrite_table", "teas.csv")


def test_python_runs_the_package(folder: Path) -> None:
    command = [sys.executable, "-m", "hudi_catalog", "tables", str(folder / "none")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("hudi-catalog: ")


def test_no_space_for_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object) -> None:  # as shutil's
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(NoSpaceError, match=f"^{re.escape(tempfile.gettempdir())}: no space left") as raised:
        run("write", "t", "--key", "id", "--format", "csv", "-", text=TEAS)
    assert "TMPDIR" in error_text(raised.value)


def block(language: str) -> str:
    """The first example of that language that README's quickstart has after the installation."""
    section = README.read_text().split("## What it does")[0]
    blocks = [each for each in re.findall(rf"(?ms)^```{language}\n(.*?)^```", section) if "pip install" not in each]
    assert len(blocks) == 1
    return blocks[0]


@pytest.mark.slow
def test_quickstart_can_be_pasted(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-"], input=block("python"), capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "0 rows inserted, 1 updated, 0 deleted" in done.stdout
    assert (
        "[{'carrier': 'HA', 'flight': 51, 'delay': 1301.0}, {'carrier': 'UA', 'flight': 640, 'delay': 5.0}]"
        in done.stdout
    )
    assert "partitions can match by month" in done.stdout
    binaries = folder / "bin"
    binaries.mkdir()
    script = binaries / "hudi-catalog"
    script.write_text(f"#!{sys.executable}\nfrom hudi_catalog.cli.main import main\nmain()\n")
    script.chmod(0o755)
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}
    shell = subprocess.run(
        ["/bin/sh", "-e"], input=block("sh"), capture_output=True, text=True, cwd=folder, env=environment, check=False
    )
    assert shell.returncode == 0, shell.stderr
    assert "2 rows inserted" in shell.stdout
    assert "Sencha" in shell.stdout
    assert re.search(r"(?m)^flights .*^teas ", shell.stdout, re.DOTALL)
