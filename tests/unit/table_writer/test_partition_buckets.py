"""Tables whose partitions have different numbers of buckets."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hudi_catalog
from hudi_catalog import OptionError, TransactionError, UnsupportedTableError
from table_format.config.table_config import update_table_config
from table_format.keys.java_hash import bucket_id_one
from table_format.keys.partition_buckets import EXPRESSIONS, BucketRules
from table_format.storage import Storage

COUNT = "hoodie.bucket.index.num.buckets"
RULES = {EXPRESSIONS: "^eu,8;us.*west,2"}
COUNTS = {"eu": 8, "us/west": 2, "us/east": 4}
CONFIG = ".hoodie/.bucket_index/partition_bucket_index_meta/configs/00000000000000.hashing_config"


def rows(keys: range, v: int = 1) -> pa.Table:
    parts = [[*COUNTS][key % 3] for key in keys]
    columns = {"id": [*keys], "part": parts, "v": [v] * len(keys)}
    return pa.table(columns, pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int32())]))


def made(path: Path, **options: str) -> hudi_catalog.Table:
    table = hudi_catalog.create_table(
        path, rows(range(0)).schema, record_key="id", partition_by="part", buckets=4, options={**RULES, **options}
    )
    table.upsert(rows(range(300)))
    return table


def check_files(path: Path) -> None:
    """Each row is in the bucket that its partition's count says."""
    seen = set()
    table = hudi_catalog.open_table(path)
    for file in table.scan().plan().splits:
        for key in pq.read_table(str(file.path).removeprefix("file:"), columns=["id"])["id"].to_pylist():
            count = COUNTS[str(file.partition)]
            assert int(str(file.file_name)[:8]) == bucket_id_one([str(key)], count), (file.partition, key)
            seen.add((file.partition, count))
    assert seen == {*COUNTS.items()}


def test_rows_go_where_their_partitions_count_says(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    check_files(tmp_path / "t")
    assert len(table.scan().plan()) == 8 + 2 + 4
    table.upsert(rows(range(100, 400), 2))
    table.delete(rows(range(50, 60)))
    table.insert(rows(range(1000, 1010), 3))
    check_files(tmp_path / "t")
    expected = {key: 2 if 100 <= key < 400 else 1 for key in range(400) if key not in range(50, 60)}
    expected |= dict.fromkeys(range(1000, 1010), 3)
    read = table.scan(columns=["id", "v"]).to_arrow()
    assert dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True)) == expected
    assert read.num_rows == len(expected)
    table.insert_overwrite(rows(range(0, 90, 3), 9))
    check_files(tmp_path / "t")


@pytest.mark.slow
def test_tasks_in_other_processes_know_the_rules(tmp_path: Path) -> None:
    table = made(tmp_path / "t", **{"hoodie.catalog.executor.processes": "2"})
    table.upsert(rows(range(200, 330), 2))
    check_files(tmp_path / "t")
    assert table.scan().count() == 330


def test_the_file_is_apaches(tmp_path: Path) -> None:
    made(tmp_path / "t")
    assert (tmp_path / "t" / CONFIG).read_text() == (
        '{\n  "expressions" : "^eu,8;us.*west,2",\n  "defaultBucketNumber" : 4,\n  "rule" : "regex",\n'
        '  "version" : 1,\n  "instant" : "00000000000000"\n}'
    )


@pytest.mark.parametrize("opened", [True, False])
def test_keys_name_one_bucket_of_each_partition(tmp_path: Path, opened: bool) -> None:
    table = made(tmp_path / "t")
    table = hudi_catalog.open_table(tmp_path / "t") if opened else table
    for key in range(0, 300, 7):
        scan = table.scan(f"id = {key}", ["id"])
        assert scan.to_arrow()["id"].to_pylist() == [key]
        stage = next(one for one in scan.plan().stages if one.name == "bucket")
        assert (stage.files_out, stage.files_in) == (3, 14) or stage.files_in < 14
        assert stage.pruned
    assert "1 of 2, 1 of 4, 1 of 8 buckets" in reason(table)
    one = table.scan("id = 3 AND part = 'eu'").plan()
    assert (len(one), next(stage.reason for stage in one.stages if stage.name == "bucket")[:6]) == (1, "1 of 8")


def test_samples_and_joins_of_such_tables(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    plain = hudi_catalog.create_table(tmp_path / "p", "id bigint, w int", record_key="id", buckets=8)
    plain.insert(pa.table({"id": range(200, 500), "w": pa.array(range(300), pa.int32())}))
    half = table.scan(columns=["id"], sample="1/2").to_arrow()["id"].to_pylist()
    assert sorted(half) == [key for key in range(300) if bucket_id_one([str(key)], 2) == 0]
    with pytest.raises(OptionError, match="4 does not divide the table's numbers of buckets; give one of 1, 2 after"):
        table.scan(sample="1/4").plan()
    joined = hudi_catalog.join(table, plain, "id")
    assert joined.steps == 2
    assert sorted(joined.to_arrow()["id"].to_pylist()) == [*range(200, 300)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({EXPRESSIONS: "eu"}, "'eu' is no rule; write regex,count"),
        ({EXPRESSIONS: "eu,0"}, "is no rule"),
        ({EXPRESSIONS: "eu,100000000"}, "is no rule"),
        ({EXPRESSIONS: "eu,8;;us,2"}, "'' is no rule"),
        ({EXPRESSIONS: "(?i)eu,8"}, "is not understood; use literals"),
        ({EXPRESSIONS: "eu(,8"}, "is not understood"),
        ({EXPRESSIONS: r"\p{L}+,8"}, "is not understood"),
        ({EXPRESSIONS: "a,99999989;b,99999971"}, "least common multiple"),
        ({EXPRESSIONS: "eu,8", "hoodie.bucket.index.partition.rule.type": "glob"}, "give one of REGEX|regex"),
        ({EXPRESSIONS: "eu,8", COUNT: ""}, "needs hoodie.bucket.index.num.buckets|num.buckets"),
    ],
)
def test_rules_that_a_table_is_not_made_with(tmp_path: Path, options: dict[str, str], words: str) -> None:
    count = {} if COUNT in options else {"buckets": 4}
    given: Any = {key: text for key, text in options.items() if text}
    with pytest.raises(OptionError, match=words):
        hudi_catalog.create_table(
            tmp_path / "t", "id bigint, p string", record_key="id", partition_by="p", options=given, **count
        )
    assert not (tmp_path / "t/.hoodie/hoodie.properties").exists()


def test_a_table_without_partitions(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="a table without partitions has one number of buckets"):
        hudi_catalog.create_table(tmp_path / "t", "id bigint", record_key="id", buckets=4, options=RULES)


def test_a_creation_that_dies_before_the_properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("table_writer.commit.create.create_table_config", lambda *_: (_ for _ in ()).throw(OSError()))
        with pytest.raises(OSError):  # noqa: PT011
            made(tmp_path / "t")
    assert (tmp_path / "t" / CONFIG).exists()
    made(tmp_path / "t")
    check_files(tmp_path / "t")


def reason(table: hudi_catalog.Table, options: dict[str, str] | None = None) -> str:
    """Of the bucket stage, for a filter by a key."""
    plan = table.scan("id = 5", options=options).plan()
    return next(stage.reason for stage in plan.stages if stage.name == "bucket")


def changed(path: Path, **values: Any) -> None:
    file = path / CONFIG
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_a_job_with_other_rules_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    with pytest.raises(OptionError, match=r"partition\.expressions='eu,8', but the table has '\^eu,8;us"):
        table.upsert(rows(range(3)), {EXPRESSIONS: "eu,8"})
    table.upsert(rows(range(3)), RULES)
    other = hudi_catalog.create_table(
        tmp_path / "o", rows(range(0)).schema, record_key="id", partition_by="part", buckets=4
    )
    other.upsert(rows(range(9)))
    with pytest.raises(OptionError, match="but the table has ''"):
        other.upsert(rows(range(3)), RULES)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"expressions": "^eu,16"}, "by the rules in .*hashing_config"),
        ({"defaultBucketNumber": 5}, "by the rules in .*hashing_config"),
        ({"version": 2}, "unknown version 2"),
        ({"rule": "glob"}, "only regex is supported"),
        ({"expressions": "(?i)eu,8"}, "is not understood"),
        ({"defaultBucketNumber": "many"}, "not rules of bucket counts"),
    ],
)
def test_rules_that_somebody_changed(tmp_path: Path, values: dict[str, Any], words: str) -> None:
    """Which partitions were rescaled is recorded nowhere: nothing is pruned, and nothing written."""
    made(tmp_path / "t")
    changed(tmp_path / "t", **values)
    table = hudi_catalog.open_table(tmp_path / "t")
    assert table.scan("id = 5").count() == 1
    stage = next(one for one in table.scan("id = 5").plan().stages if one.name == "bucket")
    assert (stage.pruned, "bucket counts differ between partitions" in stage.reason) == (False, True)
    with pytest.raises(UnsupportedTableError, match=words):
        table.upsert(rows(range(3)))
    with pytest.raises(OptionError, match="needs a table of simple buckets"):
        table.scan(sample="1/2").plan()


def test_rules_of_a_rescale(tmp_path: Path) -> None:
    """Of one that is pending, was undone, or completed."""
    table = made(tmp_path / "t")
    storage, (first,) = Storage(tmp_path / "t"), [entry.instant for entry in table.history()]
    newer = BucketRules.parse("^eu,16", 4)
    place = CONFIG.replace("00000000000000", "29990101000000000")
    storage.create(place, newer.to_json("29990101000000000"))
    fresh = hudi_catalog.open_table(tmp_path / "t")
    assert "1 of 2, 1 of 4, 1 of 8 buckets" in reason(fresh)
    with pytest.raises(UnsupportedTableError, match=r"29990101000000000.*a rescale that has not completed"):
        fresh.upsert(rows(range(3)))
    storage.delete(place)
    storage.create(CONFIG.replace("00000000000000", str(first)), newer.to_json(str(first)))
    fresh = hudi_catalog.open_table(tmp_path / "t")
    assert "they are not '^eu,8;us.*west,2' and 4 buckets elsewhere" in reason(fresh)
    with pytest.raises(UnsupportedTableError, match=rf"by the rules in .*{first}\.hashing_config"):
        fresh.upsert(rows(range(3)))


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    made(tmp_path / "t")
    (tmp_path / "t" / CONFIG).unlink()
    for folder in (tmp_path / "t" / CONFIG).parents[:3]:
        folder.rmdir()
    table = hudi_catalog.open_table(tmp_path / "t")
    assert "the table has no file of the rules" in reason(table)
    with pytest.raises(UnsupportedTableError, match=r"no file in .*configs.*put it back"):
        table.upsert(rows(range(3)))


def test_tables_that_do_not_record_them(tmp_path: Path) -> None:
    """As those of Apache: the options of each scan and write name the rules, and keys may contradict them."""
    made(tmp_path / "t")
    lost = dict.fromkeys((COUNT, EXPRESSIONS, "hoodie.bucket.index.partition.rule.type", "hoodie.index.type"))
    update_table_config(Storage(tmp_path / "t"), lost)
    for commit in (tmp_path / "t/.hoodie").glob("*.commit"):
        commit.write_text(commit.read_text().replace("hoodie.catalog.table.properties", "of.somebody"))
    table = hudi_catalog.open_table(tmp_path / "t")
    named = {**RULES, COUNT: "4"}
    assert "1 of 2, 1 of 4, 1 of 8 buckets" in reason(table, named)
    assert "neither hoodie.properties nor the options" in reason(table, {COUNT: "4"})
    assert "they are not 'eu,8'" in reason(table, {**named, EXPRESSIONS: "eu,8"})
    with pytest.raises(OptionError, match=r"needs hoodie\.bucket\.index\.num\.buckets"):
        table.scan(options=RULES)
    with pytest.raises(UnsupportedTableError, match="the options do not name them"):
        table.upsert(rows(range(3)), {COUNT: "4"})
    table.upsert(rows(range(3), 7), named)
    assert table.scan("v = 7").count() == 3
    check_files(tmp_path / "t")
    moved = BucketRules.parse("^eu,5;us.*west,2", 4)
    (tmp_path / "t" / CONFIG).write_bytes(moved.to_json("00000000000000"))
    table = hudi_catalog.open_table(tmp_path / "t")
    told = {EXPRESSIONS: moved.expressions, COUNT: "4"}
    assert "although the bucket count is 5" in reason(table, told)
    with pytest.raises((OptionError, TransactionError), match="partition 'eu' has bucket"):
        table.upsert(rows(range(3), 8), told)


def without_records(path: Path) -> None:
    """Make the table one of Apache's whose jobs have rules among their options, which it records nowhere."""
    names = (COUNT, EXPRESSIONS, "hoodie.bucket.index.partition.rule.type", "hoodie.index.type")
    update_table_config(Storage(path), dict.fromkeys(names))
    for commit in (path / ".hoodie").glob("*.commit"):
        commit.write_text(commit.read_text().replace("hoodie.catalog.", "of.somebody."))
    shutil.rmtree(path / ".hoodie/.bucket_index")


def test_rules_that_only_the_job_has(tmp_path: Path) -> None:
    """Apache's jobs obey them as well, and no file says so: the keys in the table's files do."""
    made(tmp_path / "t")
    without_records(tmp_path / "t")
    job = {**RULES, COUNT: "4"}
    table = hudi_catalog.open_table(tmp_path / "t")
    for _ in range(2):
        table.upsert(rows(range(3), 7), job)
        table.upsert(rows(range(900, 912), 7), job)
    table.delete(rows(range(6, 9)), job)
    check_files(tmp_path / "t")
    assert table.scan("v = 7").count() == 15
    assert table.scan(columns=["id"]).to_arrow()["id"].to_pylist().count(2) == 1
    assert table.scan().count() == 309
    assert table.scan("id = 5", options=job).count() == 1
    assert "the table has no file of the rules" in reason(table, job)
    assert not (tmp_path / "t/.hoodie/.bucket_index").exists()
    with pytest.raises(UnsupportedTableError, match="only the job's options give bucket counts by partition"):
        table.resize(8, partitions="eu", options=job)


@pytest.mark.parametrize(
    ("rules", "count"),
    [
        ("^eu,16;us.*west,2", "4"),
        ("^eu,4;us.*west,2", "4"),
        ("^eu,8;us.*west,4", "4"),
        ("^eu,8", "4"),
        (RULES[EXPRESSIONS], "8"),
        (RULES[EXPRESSIONS], "2"),
        ("", "4"),
        ("", "8"),
    ],
)
def test_rules_of_a_job_that_the_files_contradict(tmp_path: Path, rules: str, count: str) -> None:
    made(tmp_path / "t")
    without_records(tmp_path / "t")
    job = {COUNT: count, **({EXPRESSIONS: rules} if rules else {})}
    table = hudi_catalog.open_table(tmp_path / "t")
    with pytest.raises(OptionError, match=r"belongs to another bucket|has bucket \d"):
        table.upsert(rows(range(3), 7), job)
