"""Apache Hudi and we write in turns to a table with a record index, each finding records by the other's entries."""

import contextlib
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_writer import write_hudi
from table_format.errors import HudiError
from table_format.hfile.packed_keys import NAME as PACKED_KEYS
from table_format.hfile.reader import HFileReader
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_writer.record_index.bootstrap import bootstrap_index
from table_writer.record_index.resize import resize
from table_writer.record_index.verify import verify_index
from tests.support.apache_hudi_client import ApacheHudi
from tests.support.faults import Faults, FaultyStorage, Frozen
from tests.support.indexed_rows import (
    COMMIT_TIME,
    EVENT_TIME,
    INDEX,
    SCHEMA,
    Rows,
    Step,
    apply,
    by_our_index,
    in_files,
    step,
)
from tests.support.local_writes import LocalTable

pytestmark = [pytest.mark.engine, pytest.mark.spark]
PARTITIONS = "abc"
MOVES = {"hoodie_record_index_update_partition_path": "true"}
COMPACTING = {"hoodie_metadata_compact_max_delta_commits": "1"}


def some(numbers: range, value: int, partition: str | None = None) -> Rows:
    """Records of some numbers, in the partitions they were first put into unless one is named."""
    return {f"k{n:03d}": (partition or PARTITIONS[n % 3], value + n) for n in numbers}


#: Each step changes what the step before it, of the other writer, left.
HISTORY = [
    step("insert", some(range(60), 1000)),
    step("upsert", some(range(0, 90, 4), 2000)),
    # older values, in place and elsewhere; newer ones elsewhere, which stay where they are
    step("upsert", some(range(0, 60, 5), 10) | some(range(2, 60, 9), 3000, "a")),
    step("delete", some(range(0, 60, 7), 9000, "b")),
    step("delete", some(range(0, 60, 7), 9000)),
    # deleted ones come back, in another partition than before
    step("upsert", some(range(0, 60, 14), 4000, "d") | some(range(100, 110), 4000), **COMPACTING),
    step("upsert", some(range(0, 110, 6), 5000, "e") | some(range(1, 60, 11), 20, "c"), **MOVES),
    step("delete", some(range(3, 110, 8), 9000)),
    # a key that another partition has would be there twice: nobody looks for it then
    step("insert_overwrite", some(range(6, 48, 12), 6000, "e") | some(range(200, 206), 6000, "e")),
    step("upsert", some(range(0, 210, 5), 7000, "c"), **MOVES, **COMPACTING),
    step("delete_partition", some(range(1), 0), "c"),
    step("upsert", some(range(0, 210, 5), 8000)),
]
KEYS = sorted({key for done in HISTORY for key in done.rows} | {"never"})


class Writers:
    """Ours and an Apache release, on one table."""

    def __init__(self, spark: Any, apache: ApacheHudi, path: Path, options: dict[str, str]) -> None:
        self.spark = spark
        self.apache = apache
        self.path = path
        self.options = options
        self.copied = 0

    def ours(self, done: Step) -> None:
        rows = self.spark.createDataFrame(done.batch)
        summary = write_hudi(rows, str(self.path), done.all_options(self.options), mode="append")
        assert summary is not None
        self.copied += summary.bytes_copied

    def theirs(self, done: Step) -> None:
        self.apache.write(self.path, done.batch, done.all_options(self.options))

    def check(self, rows: Rows, *, read: bool = False) -> None:
        """The files hold the rows, and both look-ups find each where it is; what is gone they do not find."""
        stored, places = in_files(self.path)
        assert stored == rows
        keys = sorted({*KEYS, *places})
        assert by_our_index(self.path, keys) == places
        assert {k: (p, file) for k, (p, file, _) in self.apache.record_index(self.path, keys).items()} == places
        if read:
            table = self.apache.read(self.path).to_pylist()
            assert {r["id"]: (r["_hoodie_partition_path"], r["v"]) for r in table} == rows
            assert len(table) == len(rows)


def is_listed(path: Path) -> bool:
    return "record_index" in TableClient.open(Storage(str(path))).config.metadata_partitions


@pytest.mark.parametrize(
    ("release_of", "first", "payload"), [("0.15.0", "ours", EVENT_TIME), ("1.2.0", "theirs", COMMIT_TIME)]
)
def test_writers_take_turns(
    release: Callable[[str], ApacheHudi], spark: Any, tmp_path: Path, release_of: str, first: str, payload: str
) -> None:
    options = INDEX | {"hoodie.datasource.write.payload.class": payload}
    writers = Writers(spark, release(release_of), tmp_path / "t", options)
    turns: list[Callable[[Step], None]] = [writers.ours, writers.theirs]
    if first == "theirs":
        turns.reverse()
    rows: Rows = {}
    for number, done in enumerate(HISTORY):
        turns[number % 2](done)
        rows = apply(rows, done, event_time=payload == EVENT_TIME)
        try:
            writers.check(rows, read=number in (6, len(HISTORY) - 1))
        except AssertionError as error:
            error.add_note(f"after step {number}, a {done.operation} by {turns[number % 2].__name__}")
            raise
        assert is_listed(writers.path)
    assert writers.copied, "no file came about by surgery"


@pytest.mark.in_turns(2)
def test_apache_goes_on_with_an_index_that_we_built(apache: ApacheHudi, tmp_path: Path) -> None:
    """Over a table of theirs; and clears up after a writer of ours that died with the index already written."""
    path = tmp_path / "t"
    plain = {"hoodie.index.type": "SIMPLE", "hoodie.datasource.write.payload.class": COMMIT_TIME}
    options = INDEX | {"hoodie.datasource.write.payload.class": COMMIT_TIME}
    first, second = step("insert", some(range(40), 1000)), step("upsert", some(range(0, 50, 3), 2000, "d"), **MOVES)
    apache.write(path, first.batch, first.all_options(plain))
    rows = apply({}, first, event_time=False)
    assert not is_listed(path)
    client = TableClient.open(Storage(str(path)))
    bootstrap_index(client, INDEX)
    assert is_listed(path)
    writers = Writers(None, apache, path, options)
    writers.check(rows)

    die_at_publication(path, second.all_options(options), second)
    assert TableClient.open(Storage(str(path))).timeline().pending
    writers.check(rows)

    third = step("upsert", some(range(0, 60, 4), 3000, "a"), **MOVES)
    writers.theirs(third)
    rows = apply(rows, third, event_time=False)
    writers.check(rows, read=True)
    assert not TableClient.open(Storage(str(path))).timeline().pending
    local(path, second.all_options(options)).write(second.operation, second.batch)
    rows = apply(rows, second, event_time=False)
    writers.check(rows)

    resize(TableClient.open(Storage(str(path))), 3, in_threads)
    writers.check(rows)
    fourth = step("upsert", some(range(30, 60, 2), 4000, "b"), **MOVES, **COMPACTING)
    writers.theirs(fourth)
    rows = apply(rows, fourth, event_time=False)
    writers.check(rows)
    assert verify_index(TableClient.open(Storage(str(path)))).is_right


@pytest.mark.in_turns(2)
def test_apache_passes_over_the_packed_keys(apache: ApacheHudi, tmp_path: Path) -> None:
    """Our files of many keys have a meta block that Apache does not know; its own compaction leaves it out."""
    path = tmp_path / "t"
    options = INDEX | {"hoodie.datasource.write.payload.class": COMMIT_TIME}
    keys = [str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))) for number in range(30_000)]
    first = step("bulk_insert", {key: ("a", number) for number, key in enumerate(keys)})
    LocalTable.create(str(path), SCHEMA, first.all_options(options)).write("bulk_insert", first.batch)
    bootstrap_index(TableClient.open(Storage(str(path))), options, groups=1)
    [file] = index_files(path)
    assert packed_keys(file) is not None
    rows = apply({}, first, event_time=False)
    sample = [*keys[::100], "never", "8" * 36]

    def check() -> None:
        stored, places = in_files(path)
        assert stored == rows
        known = {key: places[key] for key in sample if key in places}
        assert by_our_index(path, sample) == known
        assert {k: (p, file) for k, (p, file, _) in apache.record_index(path, sample).items()} == known

    check()
    second = step("upsert", {key: ("a", -number) for number, key in enumerate(keys[::200])} | {"8" * 36: ("a", 0)})
    apache.write(path, second.batch, second.all_options(options))
    rows = apply(rows, second, event_time=False)
    check()
    third = step("delete", dict.fromkeys(keys[::300], ("a", 1 << 40)), **COMPACTING)
    apache.write(path, third.batch, third.all_options(options))
    rows = apply(rows, third, event_time=False)
    check()
    assert packed_keys(index_files(path)[-1]) is None
    assert verify_index(TableClient.open(Storage(str(path)))).is_right


def index_files(path: Path) -> list[Path]:
    """The base files of the index, the newest last."""
    folder = path / ".hoodie/metadata/record_index"
    return sorted(folder.glob("*.hfile"), key=lambda file: file.name.rsplit("_", 1)[-1])


def packed_keys(file: Path) -> bytes | None:
    return HFileReader(file.read_bytes(), file.name).meta_block(PACKED_KEYS)


def local(path: Path, options: dict[str, str], storage: type[Storage] = Storage) -> LocalTable:
    return LocalTable(TableClient.open(storage(str(path))), options)


def die_at_publication(path: Path, options: dict[str, str], done: Step) -> None:
    """The index has changed, the commit has not appeared."""
    plain = FaultyStorage.create

    def create(self: Storage, name: str, data: bytes) -> None:
        if name.startswith(".hoodie/2") and name.endswith(".commit"):
            FaultyStorage.faults = Faults(1, "before", "freeze")
        plain(self, name, data)

    FaultyStorage.faults = Faults()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FaultyStorage, "create", create)
        with contextlib.suppress(Frozen):
            local(path, options, FaultyStorage).write(done.operation, done.batch)
            pytest.fail("the writer lived on")
    FaultyStorage.faults = Faults()


#: Keys that several partitions have; each (partition, key) is a separate record.
SCOPED = [
    step("upsert", {"k1": ("a", 1), "k2": ("a b/c", 2), "k3": ("a", 3), "k4": ("x-y%z", 4)}),
    step("upsert", {"k1": ("a b/c", 11), "k2": ("a b/c", 12), "k5": ("new", 15)}),
    step("delete", {"k3": ("a", 9), "k4": ("a", 9)}),
    step("upsert", {"k3": ("new", 33), "k4": ("x-y%z", 34), "k1": ("a", 31)}, **COMPACTING),
    step("delete", {"k1": ("a b/c", 9)}),
    step("upsert", {"k1": ("a b/c", 51), "k6": ("later", 56)}, **COMPACTING),
]


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_writers_take_turns_in_an_index_by_partition(
    release: Callable[[str], ApacheHudi], tmp_path: Path, first: str
) -> None:
    """Only 1.2.0 knows such an index in tables of version 6."""
    apache, path = release("1.2.0"), tmp_path / "t"
    options = {
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
        "hoodie.metadata.record.level.index.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "false",
        "hoodie.metadata.record.level.index.min.filegroup.count": "2",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.payload.class": EVENT_TIME,
        "hoodie.catalog.write.surgery": "always",
    }
    held: dict[tuple[str, str], int] = {}
    for number, done in enumerate(SCOPED):
        all_options = done.all_options(options)
        if (first == "theirs") == (number % 2 == 0):
            apache.write(path, done.batch, all_options)
        else:
            table = local(path, all_options) if number else LocalTable.create(str(path), SCHEMA, all_options)
            table.write(done.operation, done.batch)
        for key, (partition, value) in done.rows.items():
            held.pop((f"p={partition}", key), None)
            if done.operation != "delete":
                held[f"p={partition}", key] = value
        records = apache.read(path).to_pylist()
        assert {(r["_hoodie_partition_path"], r["id"]): r["v"] for r in records} == held
        assert len(records) == len(held), "a record stands twice"
        assert is_listed(path)
        report = verify_index(TableClient.open(Storage(str(path))))
        assert report.is_right, (number, report)


def test_an_index_that_apache_cannot_read(release: Callable[[str], ApacheHudi], tmp_path: Path) -> None:
    """A write of theirs puts it out of date, which ours then says; or it replaces ours by its own."""
    apache, path = release("0.15.0"), tmp_path / "t"
    own = INDEX | {"hoodie.catalog.record.index.hash": "xxhash64"}
    without = INDEX | {"hoodie.metadata.record.index.enable": "false"}
    writers = Writers(None, apache, path, INDEX)
    steps = [step("upsert", some(range(10 * n, 10 * n + 30), 1000 * n)) for n in range(5)]
    LocalTable.create(str(path), SCHEMA, steps[0].all_options(own)).write("upsert", steps[0].batch)
    assert not is_listed(path)
    assert by_our_index(path, KEYS) == in_files(path)[1]
    apache.write(path, steps[1].batch, steps[1].all_options(without))
    with pytest.raises(HudiError, match="index bootstrap"):
        local(path, steps[2].all_options(own)).write("upsert", steps[2].batch)
    bootstrap_index(TableClient.open(Storage(str(path))), own)
    local(path, steps[2].all_options(own)).write("upsert", steps[2].batch)
    assert not is_listed(path)
    assert by_our_index(path, KEYS) == in_files(path)[1]

    writers.theirs(steps[3])
    assert is_listed(path)
    local(path, steps[4].all_options(own)).write("upsert", steps[4].batch)
    rows: Rows = {}
    for done in steps:
        rows = apply(rows, done, event_time=False)
    writers.check(rows)
