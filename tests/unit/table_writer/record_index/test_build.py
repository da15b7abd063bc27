"""Base files of an index from the keys of data files: their content, and what a restart reuses."""

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.codecs.avro_schema_tree import parse
from table_format.errors import CorruptFileError, RecordIndexError
from table_format.hfile.reader import HFileReader
from table_format.metadata_table.record_index_entries import decode_values
from table_format.metadata_table.record_index_layout import IndexLayout, partition_family
from table_format.storage import Storage
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.encoding.metadata_records import SCHEMA
from table_writer.metadata.key_source import KeySource, portions_by_bytes
from table_writer.record_index import runs as runs_module
from table_writer.record_index.build import Built, IndexBuild, begun_layouts, clear_builds

INSTANTS = [f"2026010100000{number}000" for number in range(10)]


class Config:
    timeline_timezone = "UTC"


class Client:
    """What a build asks of a table."""

    def __init__(self, folder: Path) -> None:
        self.storage = Storage(str(folder))
        self.config = Config()

    def add(self, keys: Sequence[str | None], partition: str = "p", file_id: str = "", instant: int = 0) -> KeySource:
        time = INSTANTS[instant]
        name = f"{file_id or len(list(self.files()))}_0-0-0_{time}.parquet"
        path = Path(self.storage.base) / partition / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"_hoodie_record_key": pa.array(keys, pa.string())}), path, row_group_size=3)
        return KeySource(
            partition, name.split("_", maxsplit=1)[0], time, f"{partition}/{name}", (), path.stat().st_size
        )

    def files(self) -> list[Path]:
        return list(Path(self.storage.base).rglob("*.parquet"))

    def timeline(self) -> Timeline:
        return Timeline(self.storage, ())


class Steps:
    """A mapper that counts what it was given, and fails when it should."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.items: list[Any] = []
        self.fail_at = fail_at

    def __call__(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        results = []
        for item in items:
            if len(self.items) == self.fail_at:
                raise KeyboardInterrupt
            self.items.append(item)
            results.append(function(item))
        return results


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


def build(client: Client, layout: IndexLayout, mapper: Any = in_threads) -> IndexBuild:
    made = IndexBuild(client, layout, mapper, lambda _: None)  # type: ignore[arg-type]
    made.start()
    return made


def run(client: Client, layout: IndexLayout, sources: Sequence[KeySource], mapper: Any = in_threads) -> Built:
    return build(client, layout, mapper).run(client.timeline(), sources)


def content(client: Client, built: Built) -> dict[str, tuple[str, str, int]]:
    """What the index says of each key; that each stands in the right file group is checked, too."""
    places_by_key = {}
    for file in built.files:
        if file.path:
            reader = HFileReader(client.storage.read(file.path), file.path)
            entries = reader.entries()
            values = decode_values(entries.values(), parse(SCHEMA), file.path)
            keys = [key.decode() for key in entries.keys().to_pylist()]
            assert file.rows == len(keys)
            assert file.size == client.storage.entry(file.path).size
            places = pa.array([row["partition"] for row in values.to_pylist()])
            assert set(built.layout.group_of(pa.array(keys), places).tolist()) == {file.group}
            rows = [(row["partition"], row["file_id"], row["instant_ms"]) for row in values.to_pylist()]
            places_by_key |= dict(zip(keys, rows, strict=True))
    return places_by_key


def ms(instant: int) -> int:
    return int(dt.datetime(2026, 1, 1, 0, 0, instant, tzinfo=dt.UTC).timestamp() * 1000)


ONE_FAMILY = IndexLayout((("record-index-", 3),))
STATES = st.lists(st.lists(st.text("ab0-é", max_size=8), max_size=12, unique=True), min_size=1, max_size=6)


@given(data=STATES, groups=st.integers(1, 5))
@pytest.mark.slow
def test_every_key_is_there_with_its_newest_place(
    tmp_path_factory: pytest.TempPathFactory, data: list[list[str]], groups: int
) -> None:
    client = Client(tmp_path_factory.mktemp("table"))
    sources = [client.add(keys, f"p{at % 2}", f"f{at}", at) for at, keys in enumerate(data)]
    built = run(client, IndexLayout((("record-index-", groups),)), sources)
    expected = {key: (f"p{at % 2}", f"f{at}", ms(at)) for at, keys in enumerate(data) for key in keys}
    assert content(client, built) == expected
    assert built.keys == len(expected)
    assert built.duplicates == sum(map(len, data)) - len(expected)
    assert built.keys_read == sum(map(len, data))


def test_portions_by_bytes_that_do_not_fit_into_memory_at_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "_ROWS_AT_ONCE", 4)
    sources = [client.add([f"k{at}-{row}" for row in range(10)], file_id=f"f{at}") for at in range(3)]
    assert len(content(client, run(client, ONE_FAMILY, sources))) == 30


def test_duplicates_are_named_with_their_places(client: Client) -> None:
    sources = [client.add(["a", "b"], "p", "old", 1), client.add(["b", "c", "c"], "q", "new", 2)]
    built = run(client, ONE_FAMILY, sources)
    assert built.duplicates == 2
    examples = dict(example for file in built.files for example in file.examples)
    assert {key: set(places) for key, places in examples.items()} == {"b": {"p/old", "q/new"}, "c": {"q/new"}}


def test_an_index_by_partition_keeps_both(client: Client) -> None:
    layout = IndexLayout(((partition_family("p"), 2), (partition_family("q"), 1)), "partition")
    sources = [client.add(["a", "b"], "p", "f0"), client.add(["b", "c"], "q", "f1")]
    built = run(client, layout, sources)
    assert (built.keys, built.duplicates) == (4, 0)
    content(client, built)
    steps = Steps()
    more = run(client, layout, [*sources, client.add(["a", "x"], "r", "f2")], steps)
    assert more.keys_read == 2  # the others are known, though there are more file groups now
    assert [prefix for prefix, _ in more.layout.families] == [partition_family(name) for name in "pqr"]
    assert len(content(client, more)) == 4
    assert more.keys == 6
    assert begun_layouts(client.storage) == [more.layout]


def test_a_restart_goes_on(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("table_writer.metadata.key_source._RUN_SOURCES", 1)
    sources = [client.add([f"k{at}-{row}" for row in range(5)], file_id=f"f{at}") for at in range(4)]
    expected = content(client, run(client, ONE_FAMILY, sources))
    clear_builds(client.storage)
    assert begun_layouts(client.storage) == []
    for _ in range(6):  # of four runs and three base files, killed after each
        steps = Steps(fail_at=1)
        with pytest.raises(KeyboardInterrupt):
            run(client, ONE_FAMILY, sources, steps)
        assert len(steps.items) == 1
        assert begun_layouts(client.storage) == [ONE_FAMILY]
    last = Steps()
    built = run(client, ONE_FAMILY, sources, last)
    assert len(last.items) == 1
    assert built.keys_read == 0
    assert content(client, built) == expected


def test_only_what_a_commit_changed_is_read(client: Client) -> None:
    kept, old = client.add(["a", "b"], "p", "f0"), client.add(["c", "d"], "p", "f1")
    run(client, ONE_FAMILY, [kept, old])
    new = client.add(["d", "e", "f"], "p", "f1", 1)
    steps = Steps()
    built = run(client, ONE_FAMILY, [kept, new], steps)
    assert steps.items[0] == [new]
    assert built.keys_read == 3
    places = {key: (file_id, at) for key, (_, file_id, at) in content(client, built).items()}
    assert places == {
        "a": ("f0", ms(0)),
        "b": ("f0", ms(0)),
        "d": ("f1", ms(1)),
        "e": ("f1", ms(1)),
        "f": ("f1", ms(1)),
    }
    steps = Steps()
    run(client, ONE_FAMILY, [kept, new], steps)
    assert steps.items == []


def test_a_run_of_a_task_that_was_tried_twice_counts_once(client: Client) -> None:
    sources = [client.add(["a", "b"], "p", "f0"), client.add(["c"], "p", "f1")]

    def twice(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return [(function(item), function(item))[1] for item in items]

    built = run(client, ONE_FAMILY, sources, twice)
    assert (built.keys, built.duplicates) == (3, 0)


def test_rows_without_a_key_are_refused(client: Client) -> None:
    with pytest.raises(CorruptFileError, match="1 rows without _hoodie_record_key"):
        run(client, ONE_FAMILY, [client.add(["a", None])])


def test_broken_and_missing_runs_are_told(client: Client) -> None:
    sources = [client.add(["a", "b", "c"])]
    made = build(client, ONE_FAMILY)
    made.run(client.timeline(), sources)
    run_file = next(Path(client.storage.base).rglob("*.arrow"))
    manifest = Path(f"{run_file}.json")
    for file in Path(client.storage.base).rglob("*.hfile"):
        file.unlink()
    run_file.write_bytes(b"ARROW1 and nothing more")
    with pytest.raises(CorruptFileError, match="broken run"):
        made.run(client.timeline(), sources)
    run_file.unlink()
    with pytest.raises(RecordIndexError, match="run it again"):
        made.run(client.timeline(), sources)
    manifest.write_bytes(b"{}")
    with pytest.raises(CorruptFileError, match="no manifest of a run"):
        made.run(client.timeline(), sources)


def test_tasks_read_portions_by_bytes_of_about_the_same_size(client: Client) -> None:
    sources = [KeySource("p", f"f{at}", INSTANTS[0], f"p/{at}", (), 300 << 20) for at in range(40)]
    assert [len(part) for part in portions_by_bytes(sources)] == [2] * 20
    assert [source for part in portions_by_bytes(sources) for source in part] == sources
    assert [len(part) for part in portions_by_bytes(sources[:20])] == [2] * 10
    assert [len(part) for part in portions_by_bytes(sources[:3])] == [1, 1, 1]
    empty = [KeySource("p", f"f{at}", INSTANTS[0], f"p/{at}", (), 1) for at in range(16 * 300)]
    assert [len(part) for part in portions_by_bytes(empty)] == [256] * 18 + [192]
    assert portions_by_bytes([]) == []
