"""Updates and merges: what they change, what they read, and what they refuse."""

import datetime as dt
import decimal
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from catalog.scan import Scan
from hudi_catalog import HudiError, Table, create_table, open_table
from hudi_catalog.merge import Merge
from pushdown import col
from pushdown.errors import ExpressionError, FilterSyntaxError, UnknownColumnError
from table_format.errors import ArgumentError, MissingPackageError, RecordError, SchemaError
from table_writer.commit.transaction import WriteTransaction
from table_writer.in_place.computed import ClauseQuery, same_keys
from table_writer.record_index.verify import verify_index
from table_writer.write_job import WriteJob

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("n", pa.int32()),
        ("price", pa.decimal128(8, 2)),
        ("note", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
ROWS = [
    {"id": number, "day": f"d{number % 2}", "n": number, "price": decimal.Decimal(number), "note": None, "at": None}
    for number in range(10)
]


@pytest.fixture(params=["BUCKET", "RECORD_INDEX"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    made = create_table(
        tmp_path / "shop", SCHEMA, record_key="id", partition_by="day", ordering="n", index=request.param
    )
    made.upsert(pa.Table.from_pylist(ROWS, SCHEMA))
    return made


def content(table: Table) -> dict[int, dict[str, Any]]:
    """Rows by key, of the table opened anew."""
    rows = open_table(table.client.storage.uri).scan(columns=SCHEMA.names).to_arrow().to_pylist()
    assert len(rows) == len({row["id"] for row in rows})
    return {row["id"]: row for row in rows}


def expected(**changes: dict[str, Any] | None) -> dict[int, dict[str, Any]]:
    """The first rows, with some columns changed; None for a row that is gone."""
    rows = {row["id"]: dict(row) for row in ROWS}
    for key, values in changes.items():
        number = int(key.removeprefix("k"))
        if values is None:
            del rows[number]
        else:
            rows[number] = {**dict.fromkeys(SCHEMA.names), **rows.get(number, {"id": number}), **values}
    return rows


def test_an_update_sets_expressions_and_values(table: Table) -> None:
    at = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    # the ordering column falls, and the rows change all the same
    summary = table.update({"n": "n - 100", "note": "day || '!'", "price": 1.005, "at": at}, "id >= 8")
    assert (summary.rows_inserted, summary.rows_updated, summary.rows_deleted) == (0, 2, 0)
    one = decimal.Decimal("1.00")  # as an assignment in SQL rounds; the float is below the half
    assert content(table) == expected(
        k8={"n": -92, "note": "d0!", "price": one, "at": at}, k9={"n": -91, "note": "d1!", "price": one, "at": at}
    )
    if "record_index" in table.config.metadata_partitions:
        assert not any(verify_index(table.client).counts.values())


def test_an_update_reads_and_writes_what_it_needs(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    scans: list[Scan] = []
    read = Scan.to_batch_reader
    monkeypatch.setattr(Scan, "to_batch_reader", lambda self: scans.append(self) or read(self))  # type: ignore[func-returns-value]
    table.update({"note": "upper(day)"}, (col("day") == "d1") & (col("id") == 3))
    assert content(table) == expected(k3={"note": "D1"})
    file_column = {"_hoodie_file_name"} if table.config.index_type == "RECORD_INDEX" else set()
    assert set(scans[0].columns or ()) == {"_hoodie_commit_time", "id", "day", *file_column}
    assert [split.partition for split in scans[0].plan().splits] == ["d1"]


def test_all_clauses_of_a_merge(table: Table) -> None:
    source = [
        {"id": 1, "day": "d1", "n": 0, "word": "gone"},
        {"id": 2, "day": "d0", "n": -5, "word": "two"},
        {"id": 3, "day": "d1", "n": 7, "word": None},
        {"id": 20, "day": "d9", "n": 1, "word": "new"},
        {"id": 21, "day": "d9", "n": 1, "word": "skip"},
    ]
    summary = (
        table.merge(source, "target.id = source.id")
        .when_matched_delete("word = 'gone'")
        .when_matched_update({"n": "target.n + source.n", "note": "word"}, "source.n < 0")
        .when_matched_update({"note": "'rest'"})
        .when_not_matched_insert({"id": "source.id", "day": "source.day", "note": "word"}, "word <> 'skip'")
        .when_not_matched_by_source_delete("target.id = 9")
        .when_not_matched_by_source_update({"note": 5}, "target.id > 7")
        .execute()
    )
    assert (summary.rows_inserted, summary.rows_updated, summary.rows_deleted) == (1, 3, 2)
    assert content(table) == expected(
        k1=None,
        k2={"n": -3, "note": "two"},
        k3={"note": "rest"},
        k20={"day": "d9", "note": "new"},
        k9=None,
        k8={"note": "5"},
    )


@pytest.mark.parametrize(
    "on",
    [
        "id",
        ["id", "day"],
        "target.id IS NOT DISTINCT FROM source.id",
        "(source.id IS NOT DISTINCT FROM target.id) AND target.day = source.day",
    ],
)
def test_update_all_and_insert_all(table: Table, on: Any) -> None:
    source = pa.table({"id": [4, 30], "day": ["d0", "d0"], "note": ["four", "thirty"]})
    table.merge(source, on).when_matched_update_all().when_not_matched_insert_all().execute()
    assert content(table) == expected(k4={"note": "four"}, k30={"day": "d0", "note": "thirty"})


def test_a_new_row_with_the_key_of_another_partition(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", SCHEMA, record_key="id", partition_by="day", index="RECORD_INDEX")
    table.upsert(pa.Table.from_pylist(ROWS, SCHEMA))
    merge = table.merge([{"id": 4, "day": "d9"}], ["id", "day"])
    with pytest.raises(RecordError, match="the table has the record key of a new row"):
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert content(table) == expected()


def test_a_merge_reads_files_that_may_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_table(tmp_path / "t", SCHEMA, record_key="id", partition_by="day", buckets=1)
    table.upsert(pa.Table.from_pylist(ROWS, SCHEMA))
    scans: list[Scan] = []
    read = Scan.to_batch_reader
    monkeypatch.setattr(Scan, "to_batch_reader", lambda self: scans.append(self) or read(self))  # type: ignore[func-returns-value]
    source = [{"id": 3, "day": "d1"}, {"id": None, "day": "d1"}]
    table.merge(source, ["id", "day"]).when_matched_update({"note": "'x'"}).execute()
    assert [split.partition for split in scans[0].plan().splits] == ["d1"]
    assert content(table) == expected(k3={"note": "x"})
    table.merge(source[:0] or pa.table({"id": pa.array([], pa.int64())}), "id").when_matched_delete().execute()
    assert not scans[1].plan().splits


@pytest.mark.parametrize("column", ["n", "day", "id"])
def test_only_rows_that_can_match_are_joined(table: Table, monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    joined: list[int] = []
    run = ClauseQuery.run

    def counting(self: ClauseQuery, target: pa.RecordBatchReader, *others: Any) -> Any:
        rows = target.read_all()
        joined.append(len(rows))
        return run(self, rows.to_reader(), *others)

    monkeypatch.setattr(ClauseQuery, "run", counting)
    # more values than a filter takes, of another width, some beyond the column's type, one null
    keys = pa.array([3, None, *range(2**40, 2**40 + 6000)], pa.int64())
    if column == "day":
        keys = pa.array(["d1", None, *map(str, keys.to_pylist()[2:])])
    merge = table.merge(pa.table({"key": keys}), f"target.{column} = source.key")
    merge.when_matched_update({"note": "'x'"}).execute()
    matching = {key: row for key, row in expected().items() if row[column] in (3, "d1")}
    assert joined == [len(matching)]
    assert content(table) == expected(**{f"k{key}": {"note": "x"} for key in matching})


def test_new_columns_come_by_schema_evolution(table: Table) -> None:
    source = pa.table({"id": [1, 40], "day": ["d1", "d0"], "extra": [1.5, 2.5]})
    with pytest.raises(SchemaError, match=r"no column 'extra' of the source.*with_schema_evolution"):
        table.merge(source, "id").when_matched_update_all()
    merge = table.merge(source, "id").with_schema_evolution()
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    rows = open_table(table.client.storage.uri).scan("extra IS NOT NULL", ["id", "n", "extra"]).to_arrow().to_pylist()
    assert sorted(map(tuple, (row.values() for row in rows))) == [(1, 1, 1.5), (40, None, 2.5)]


@pytest.mark.parametrize(
    ("clauses", "extra", "names"),
    [
        (lambda m: m.when_matched_update({"EXTRA": "source.extra"}), {1: 1.5}, {"extra"}),
        (lambda m: m.when_not_matched_insert({"id": 40, "day": "'d0'", "extra": "extra"}), {40: 2.5}, {"extra"}),
        (lambda m: m.when_matched_update({"n": "9"}), {}, set()),
        (
            lambda m: m.when_matched_update_all().when_not_matched_by_source_update({"n": "n"}),
            {1: 1.5},
            {"extra", "more"},
        ),
        (
            lambda m: m.when_matched_update({"n": "n"}).when_not_matched_by_source_update(
                {"extra": 0}, "target.id = 2"
            ),
            {2: 0.0},
            {"extra"},
        ),
    ],
    ids=["update", "insert", "none", "all in one clause", "of another kind"],
)
def test_clauses_add_the_new_columns_that_they_name(
    table: Table, clauses: Callable[[Merge], Merge], extra: dict[int, float], names: set[str]
) -> None:
    before = table.columns.names
    source = pa.table({"id": [1, 40], "day": ["d1", "d0"], "extra": [1.5, 2.5], "more": [1, 2]})
    clauses(table.merge(source, "id").with_schema_evolution()).execute()
    changed = open_table(table.client.storage.uri)
    assert set(changed.columns.names) - set(before) == names
    rows = changed.scan().to_arrow().to_pylist()
    assert {row["id"]: row["extra"] for row in rows if row.get("extra") is not None} == extra


def test_nothing_to_change_changes_nothing(table: Table) -> None:
    table.update({"n": 1}, "id = 77")
    table.merge([{"id": 77}], "id").when_matched_delete().execute()
    assert content(table) == expected()


REFUSED: list[tuple[Callable[[Table], Any], type[HudiError], str]] = [
    (lambda t: t.update({}), ArgumentError, "values are a dict"),
    (lambda t: t.update({"pric": 1}), SchemaError, r"no column 'pric' \(did you mean price\?\)"),
    (lambda t: t.update({"_hoodie_record_key": "'x'"}), SchemaError, "no column"),
    (lambda t: t.update({"n": "m + 1"}), UnknownColumnError, "no column 'm'"),
    (lambda t: t.update({"n": "source.n"}), ExpressionError, "source"),
    (lambda t: t.update({"n": "n +"}), FilterSyntaxError, "no SQL expression"),
    (lambda t: t.update({"n": "(" * 9000 + "1" + ")" * 9000}), FilterSyntaxError, "nested too deeply"),
    (lambda t: t.update({"n": "date(" * 30 + "n" + ")" * 30}), FilterSyntaxError, "nested too deeply"),
    (lambda t: t.delete("n" + " + 1" * 4000 + " > 0"), FilterSyntaxError, "nested too deeply"),
    (lambda t: t.update({"n": "max(n)"}), ExpressionError, "an aggregate"),
    (lambda t: t.update({"n": "(SELECT 1)"}), ExpressionError, "a query"),
    (lambda t: t.update({"n": "row_number() OVER ()"}), ExpressionError, "a window function"),
    *(
        (lambda t, text=text: t.update({"n": text}), ExpressionError, "a function of several rows cannot stand in")
        for text in (
            "unnest([7, 8])",
            "1 + UNLIST([7])",
            "generate_subscripts([7], 1)",
            "regexp_split_to_table(day, 'd')",
        )
    ),
    (
        lambda t: t.merge([{"id": 1}], "id").when_matched_delete("unnest([true, false])"),
        ExpressionError,
        "of several rows",
    ),
    (lambda t: t.update({"note": "'a'", "NOTE": "'b'"}), ArgumentError, r"'note' is set twice, by \['note', 'NOTE'\]"),
    (
        lambda t: t.merge(pa.table({"id": [1], "n": [5], "N": [6]}), "id").when_matched_update_all().execute(),
        SchemaError,
        "columns 'n' and 'N' have the same name",
    ),
    (lambda t: t.update({"n": "DROP TABLE x"}), ExpressionError, "a statement"),
    (lambda t: t.update({"n": "'abc'"}), RecordError, "abc"),
    (lambda t: t.update({"n": "n * 1000000000000"}), RecordError, "computed"),
    (lambda t: t.update({"id": "id + 1"}), RecordError, "'id' of the record key or partition path would change from"),
    (lambda t: t.update({"n": 1}, "nn = 1"), UnknownColumnError, "nn"),
    (lambda t: t.merge([{"id": 1}], "id").execute(), ArgumentError, "needs a clause"),
    (lambda t: t.merge([{"id": 1}], "key"), UnknownColumnError, "no column 'key'"),
    (
        lambda t: t.merge([{"id": 1}], "target.id = id"),
        ExpressionError,
        "in both; write target.id or source.id",
    ),
    (
        lambda t: t.merge([{"n": 1}], "n").when_not_matched_insert_all(),
        ArgumentError,
        "key's column 'id' equals",
    ),
    (
        lambda t: t.merge([{"id": 1}], "id").when_not_matched_insert({"n": "target.n"}),
        ExpressionError,
        "no row of",
    ),
    (
        lambda t: t.merge([{"id": 1, "n": 5}] * 2, "id").when_matched_update_all().execute(),
        RecordError,
        r"several rows in the source, such as \{'id': 1",
    ),
    (
        lambda t: (
            t.merge([{"id": 1, "day": "d1"}] * 2, ["id", "day"])
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        ),
        RecordError,
        "several rows in the source",
    ),
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table that nothing changes."""
    made = create_table(tmp_path_factory.mktemp("t") / "shop", SCHEMA, record_key="id", partition_by="day", buckets=1)
    made.upsert(pa.Table.from_pylist(ROWS, SCHEMA))
    return made


@pytest.mark.parametrize(("change", "error", "message"), REFUSED)
def test_refused(shop: Table, change: Callable[[Table], Any], error: type[HudiError], message: str) -> None:
    with pytest.raises(error, match=message):
        change(shop)
    assert content(shop) == expected()


def test_without_duckdb(shop: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingPackageError, match=r"duckdb: pip install 'hudi-catalog\[sql\]'"):
        shop.update({"n": 1})
    assert content(shop) == expected()


def test_rows_change_places(tmp_path: Path) -> None:
    """Two rows of one key in two partitions: each takes the place that the other one leaves, or neither moves."""
    table = create_table(tmp_path / "t", SCHEMA, record_key="id", partition_by="day", buckets=1)
    table.upsert(pa.Table.from_pylist([{"id": 1, "day": day, "n": number} for number, day in enumerate("ab")], SCHEMA))
    for where in (None, "day = 'a'"):
        with pytest.raises(RecordError, match=r"moves to a partition that has|are new: either"):
            table.update({"day": "'b'"}, where)
    summary = table.update({"day": "CASE day WHEN 'a' THEN 'b' ELSE 'a' END"})
    assert (summary.rows_inserted, summary.rows_updated, summary.rows_deleted) == (0, 2, 0)
    rows = open_table(tmp_path / "t").scan(columns=["day", "n"]).to_arrow().sort_by("day").to_pylist()
    assert [row["n"] for row in rows] == [1, 0]


def test_a_change_is_computed_again_after_a_conflict(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = WriteJob._commit
    others = [lambda: open_table(table.client.storage.uri).update({"n": "n + 10"}, "id = 3")]

    def overtaken(self: WriteJob, *arguments: Any) -> None:
        if others:
            others.pop()()
        commit(self, *arguments)

    monkeypatch.setattr(WriteJob, "_commit", overtaken)
    table.update({"n": "n * 2"}, "id = 3")
    assert content(table) == expected(k3={"n": 26})


def test_rows_that_are_not_found_under_their_keys_are_not_added(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("table_writer.in_place.computed.refuse_moved", lambda *_: None)
    with pytest.raises(RecordError, match="1 rows would be inserted, and 0 are new"):
        table.update({"id": "id + 1000"}, "id = 3")
    assert content(table) == expected()


@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX"])
@pytest.mark.parametrize("partition", ["p", ()])
def test_nan_stays_the_key_that_it_is(tmp_path: Path, index: str, partition: str | tuple[str, ...]) -> None:
    key = "id" if partition else "p"
    ddl = "id bigint, p double, v bigint"
    table = create_table(tmp_path / "t", ddl, record_key=key, partition_by=partition, index=index)
    table.upsert(pa.table({"id": [1, 2, 3], "p": [math.nan, 1.0, -0.0], "v": [1, 2, 3]}))
    assert table.update({"v": "v + 1"}).rows_updated == 3
    source = pa.table({"id": [1, 4], "p": [math.nan, math.nan if partition else 4.0], "v": [9, 9]})
    merge = table.merge(source, [key, *partition]).when_matched_update({"v": "source.v"}).when_not_matched_insert_all()
    assert merge.execute().rows_updated == 1
    assert table.merge(source, key).when_matched_update({"v": "source.v + 1"}).execute().rows_updated == 2
    if key == "p":
        with pytest.raises(RecordError, match=r"'p' of the record key or partition path would change from -0.0 to 0.0"):
            table.update({"p": 0.0}, "id = 3")
    rows = table.scan(columns=["id", "v"]).to_arrow().to_pylist()
    assert {row["id"]: row["v"] for row in rows} == {1: 10, 2: 3, 3: 4, 4: 10}


@pytest.mark.parametrize("on", ["k", "target.k = source.k", "source.k = target.k AND TRUE"])
@pytest.mark.parametrize("stored", [[0.0], [-0.0], [0.0, -0.0]])
def test_zeros_of_two_signs_are_two_keys(tmp_path: Path, on: str, stored: list[float]) -> None:
    """Whatever the clauses are."""
    rows = {str(key): number for number, key in enumerate(stored)}
    changed = {key: 10 if key == "-0.0" else value for key, value in rows.items()}
    clauses: dict[str, tuple[Callable[[Any], Any], dict[str, int]]] = {
        "update": (lambda merge: merge.when_matched_update({"v": "source.v"}), changed),
        "update all": (lambda merge: merge.when_matched_update_all(), changed),
        "insert": (lambda merge: merge.when_not_matched_insert_all(), {"-0.0": 10, **rows}),
        "upsert": (lambda merge: merge.when_matched_update_all().when_not_matched_insert_all(), {**rows, "-0.0": 10}),
        "delete": (lambda merge: merge.when_matched_delete(), {key: rows[key] for key in rows if key != "-0.0"}),
        "by source": (
            lambda merge: merge.when_not_matched_by_source_delete(),
            {key: rows[key] for key in rows if key == "-0.0"},
        ),
    }
    for name, (add, expected_rows) in clauses.items():
        table = create_table(tmp_path / name, "k double, v bigint", record_key="k", buckets=2)
        table.upsert(pa.table({"k": stored, "v": list(rows.values())}))
        add(table.merge(pa.table({"k": [-0.0], "v": [10]}), on)).execute()
        merged_rows = table.scan(columns=["k", "v"]).to_arrow().to_pylist()
        assert {str(row["k"]): row["v"] for row in merged_rows} == expected_rows, name


def test_keys_are_compared_within_structs() -> None:
    kind = pa.struct([("a", pa.float64()), ("b", pa.list_(pa.int64()))])
    before = [{"a": math.nan, "b": [1]}, {"a": 0.0, "b": None}, None, {"a": 1.0, "b": [1]}, {"a": None, "b": []}]
    after = [{"a": math.nan, "b": [1]}, {"a": -0.0, "b": None}, None, {"a": 1.0, "b": [2]}, None]
    same = same_keys(pa.array(after, kind), pa.array(before, kind))
    assert same.tolist() == [True, False, True, False, False]


CHANGES = {
    "delete": lambda table: table.delete("day = 'd1'"),
    "update": lambda table: table.update({"note": "upper(day)"}, "day = 'd1'"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("moment", [None, "begin", "commit"])
def test_rows_of_a_condition_are_selected_once_for_each_state(
    table: Table, monkeypatch: pytest.MonkeyPatch, change: str, moment: str | None
) -> None:
    """Of the state in which the write begins; another writer may commit before it begins, or before it commits."""
    other, scans = open_table(table.client.storage.uri), []
    plain, begin, commit = Table.scan, WriteTransaction.begin.__func__, WriteJob._commit  # type: ignore[attr-defined]

    def overtake() -> None:
        for owner, name, value in ((WriteTransaction, "begin", classmethod(begin)), (WriteJob, "_commit", commit)):
            monkeypatch.setattr(owner, name, value)
        other.upsert([{"id": 11, "day": "d1", "n": 1}])

    def counted(self: Table, *args: Any, **more: Any) -> Scan:
        scans.append(self)
        return plain(self, *args, **more)

    monkeypatch.setattr(Table, "scan", counted)
    if moment == "begin":
        monkeypatch.setattr(WriteTransaction, "begin", classmethod(lambda *a, **k: (overtake(), begin(*a, **k))[1]))
    if moment == "commit":
        monkeypatch.setattr(WriteJob, "_commit", lambda *a: (overtake(), commit(*a)))
    CHANGES[change](table)
    monkeypatch.undo()
    lazily = 0 if change == "update" and moment == "begin" else 1  # an update reads nothing before it begins
    assert len(scans) == 1 + (moment is not None) * lazily
    changed = {number: None if change == "delete" else {"day": "d1", "note": "D1"} for number in (1, 3, 5, 7, 9)}
    if moment is not None:
        changed[11] = None if change == "delete" else {"day": "d1", "note": "D1", "n": 1}
    wanted = expected(**{f"k{number}": values for number, values in changed.items() if number < 10 or values})
    assert content(table) == wanted


@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX"])
def test_jobs_that_move_records_between_partitions_change_columns_too(tmp_path: Path, index: str) -> None:
    moving = {"hoodie.record.index.update.partition.path": "true"}
    table = create_table(tmp_path / "t", SCHEMA, record_key="id", partition_by="day", index=index, options=moving)
    table.upsert(pa.Table.from_pylist(ROWS, SCHEMA))
    assert table.update({"note": "'one'"}, "id = 1").rows_updated == 1
    merge = table.merge([{"id": 2, "n": 20}], on="id").when_matched_update({"n": "source.n"})
    assert merge.execute().rows_updated == 1
    table.update({"day": "'d9'"}, "id = 3")
    assert content(table) == expected(k1={"note": "one"}, k2={"n": 20}, k3={"day": "d9"})


def test_expressions_are_duckdbs_own_words(table: Table) -> None:
    table.update({"at": "TIMESTAMP '2026-01-31 12:00:00' AT TIME ZONE 'Europe/Vienna'", "note": "n::DOUBLE -- all"})
    table.update({"note": "log2(n + 1)::VARCHAR"}, "id = 4")
    rows = content(table)
    assert rows[4]["note"] == duckdb.sql("SELECT log2(5)::VARCHAR").fetchall()[0][0]
    assert rows[5]["note"] == "5.0"
    assert rows[5]["at"] == dt.datetime(2026, 1, 31, 11, tzinfo=dt.UTC)


@pytest.mark.parametrize("value", ["'infinity'", "CASE WHEN id = 4 THEN '-infinity'::TIMESTAMPTZ END"])
def test_infinite_times_are_refused(table: Table, value: str) -> None:
    with pytest.raises(RecordError, match="column at is a TIMESTAMP WITH TIME ZONE, and a value is infinite"):
        table.update({"at": value})
    assert content(table) == expected()


@pytest.mark.parametrize("kind", ["java", "xxhash64"])
def test_a_merge_by_key_and_partition_moves_no_record(tmp_path: Path, kind: str) -> None:
    """An upsert would find the key in its other partition, by the table's index, listed for Apache or not."""
    options = {"hoodie.catalog.record.index.hash": kind}
    table = create_table(
        tmp_path / "t", "id bigint, p string, v bigint", record_key="id", partition_by="p", index="RECORD_INDEX",
        options=options,
    )  # fmt: skip
    table.insert([{"id": 1, "p": "a", "v": 1}])
    merge = table.merge([{"id": 1, "p": "b", "v": 9}], on=["id", "p"])
    with pytest.raises(RecordError, match="already"):
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    rows = table.scan(columns=["id", "p", "v"]).to_arrow().to_pylist()
    assert rows == [{"id": 1, "p": "a", "v": 1}]
