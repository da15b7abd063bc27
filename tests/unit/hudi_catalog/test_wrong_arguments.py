"""Arguments of wrong types, names and places are refused by this project's errors, before anything is made."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner

import hudi_catalog
from hudi_catalog.cli.main import app
from hudi_catalog.cli.print import rows_table

COLUMNS = "id bigint, part string, name string"


@pytest.fixture
def table(tmp_path: Path) -> hudi_catalog.Table:
    made = hudi_catalog.create_table(f"{tmp_path}/t", COLUMNS, record_key="id", partition_by="part")
    made.upsert([{"id": number, "part": "ab"[number % 2], "name": f"n{number}"} for number in range(10)])
    return made


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda table: table.scan(columns=[5]), "names of columns are texts, which 5 is not"),
        (lambda table: table.scan(columns=5), "columns=5: give a list of names"),
        (lambda table: table.scan(incremental=(5, 6)), "incremental=.5, 6.: give two times"),
        (lambda table: table.scan(options=5), "options are a dict"),
        (lambda table: table.delete_partitions(None), "paths of partitions are texts, which None is not"),
        (lambda table: table.scan(as_of=5), "as_of=5: give an instant or a time as text"),
        (lambda table: table.files(as_of=5), "as_of=5: give an instant or a time as text"),
        (lambda table: table.restore(to=5), "an instant is a text, as `history` lists it, not 5"),
        (lambda table: table.rollback(5), "an instant is a text, as `history` lists it, not 5"),
        (lambda table: table.savepoint(5), "an instant is a text, as `history` lists it, not 5"),
        (lambda table: table.expire_partitions(days="x"), "days='x': give 1 or more"),
        (lambda table: table.drop_index(5), "no index 5"),
        (lambda table: table.build_index(5), "no index 5"),
        (lambda table: table.cluster(["name"], partitions=5), "paths of partitions are texts, which 5 is not"),
        (lambda table: table.cluster(5), "columns to sort by are texts, which 5 is not"),
        (lambda table: table.resize(2, partitions=[None]), "paths of partitions are texts, which None is not"),
        (lambda table: table.merge([{"id": 1}], on=5), "columns that are equal are texts, which 5 is not"),
        (lambda table: hudi_catalog.join(table, table, 5), "join needs on: a column"),  # type: ignore[arg-type]
        (lambda table: table.scan("id IN ()").count(), "rows cannot be selected by this filter: .*id IN"),
        (lambda table: hudi_catalog.open_table(None), "the place of a table is a path or a URI"),  # type: ignore[arg-type]
        (lambda table: hudi_catalog.Catalog(table.client.storage.uri).load(5), "the name of a table is a text"),  # type: ignore[arg-type]
    ],
)
def test_other_types(table: hudi_catalog.Table, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(hudi_catalog.HudiError, match=message):
        call(table)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"time_zone": "Mars/Base"}, "time zone 'Mars/Base': unknown"),
        ({"time_zone": 5}, "time zone 5: unknown"),
        ({"name": "a/b"}, "a table's name has no slashes"),
        ({"name": "a\nb"}, "a table's name has no slashes or control characters"),
    ],
)
def test_a_table_is_not_made(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(hudi_catalog.HudiError, match=message):
        hudi_catalog.create_table(f"{tmp_path}/t", COLUMNS, record_key="id", **arguments)
    assert not list(tmp_path.iterdir())


def test_the_time_zone_of_an_opened_table(table: hudi_catalog.Table) -> None:
    with pytest.raises(hudi_catalog.HudiError, match="time zone 'Mars/Base': unknown"):
        hudi_catalog.open_table(table.client.storage.uri, time_zone="Mars/Base")


@pytest.mark.parametrize("place", ["s3:/bucket/t", "s3:bucket/t", "GS:/bucket/t", "hdfs:/t", "https:/t"])
def test_a_uri_with_one_slash_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(hudi_catalog.HudiError, match="such a URI has two slashes"):
        hudi_catalog.create_table(place, COLUMNS, record_key="id")
    assert not list(tmp_path.iterdir())
    hudi_catalog.create_table(f"./{place}", COLUMNS, record_key="id")


def test_partitions_of_a_table_without(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(f"{tmp_path}/t", COLUMNS, record_key="id")
    table.insert([{"id": 1}])
    with pytest.raises(hudi_catalog.HudiError, match="the table has no partitions, and so none of the path 'x'"):
        table.delete_partitions("x")
    failed = CliRunner().invoke(app, ["delete", f"{tmp_path}/t", "--partition", "x"])
    assert "the table has no partitions" in str(failed.exception)
    assert len(table.history()) == 1
    assert table.delete_partitions("*").groups_replaced == 1


@pytest.mark.parametrize("rows", [pd.DataFrame(), {}, pa.table({}), [], pd.DataFrame(columns=["id", "part"])])
def test_nothing_is_written(table: hudi_catalog.Table, rows: Any) -> None:
    assert table.upsert(rows).rows_inserted == 0
    assert table.scan().count() == 10
    assert table.columns.names == ["id", "part", "name"]


def test_rows_without_columns_are_not_nothing(table: hudi_catalog.Table) -> None:
    with pytest.raises(hudi_catalog.HudiError, match="'id' is not in the data"):
        table.upsert(pd.DataFrame(index=range(3)))


def test_a_scan_pickles_with_its_state(table: hudi_catalog.Table) -> None:
    first = table.history()[0].instant
    table.upsert([{"id": 3, "part": "b", "name": "new"}])
    last = table.history()[-1].instant
    scans = [
        table.scan("id < 5", ["id", "name"]),
        table.scan("part = 'b' AND id = 3"),
        table.scan(as_of=first),
        table.scan(incremental=(first, None)),
        table.scan("name = 'NEW' OR id = 1", case_sensitive=True, options={"hoodie.catalog.scan.threads": "1"}),
        table.scan(query_type="read_optimized"),
    ]
    sent = pickle.dumps(scans)
    table.delete("true")
    for scan, copy in zip(scans, pickle.loads(sent), strict=True):
        assert copy.to_arrow().sort_by("id").equals(scan.to_arrow().sort_by("id"))
        assert (copy.count(), copy.checkpoint) == (scan.count(), scan.checkpoint)
        assert copy.checkpoint in (first, last)
    assert table.scan().count() == 0


def test_texts_are_printed_as_they_are() -> None:
    texts = ['say "hi"', "a\\b", "two\nlines", "\x1b[31mred\x9b", "é 日本", "null", None]
    console = Console(file=io.StringIO(), width=80)
    console.print(rows_table(pa.table({"t": texts})))
    assert [line.strip() for line in console.file.getvalue().splitlines()][1:] == [
        'say "hi"',
        "a\\b",
        "two\\nlines",
        "\\u001b[31mred\\u009b",
        "é 日本",
        "null",
        "null",
    ]
