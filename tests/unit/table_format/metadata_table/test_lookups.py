"""Look-ups in the record index: the newest entry of each key, however its files are read."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.codecs.avro_schema_tree import parse_text
from table_format.errors import CorruptFileError, OptionError, RecordIndexError
from table_format.hfile.entries import HFileEntries
from table_format.hfile.reader import HFileReader
from table_format.metadata_table import layout as names
from table_format.metadata_table.reader import MetadataTable
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.metadata_table.record_index_shard import (
    BLOOM_KEY,
    DYNAMIC_KEY,
    LOOKUP_KEY,
    LookupStrategy,
    find,
    live_entries,
    look_up,
)
from table_format.metadata_table.sources import Source
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.encoding.hfile import write_hfile
from table_writer.encoding.metadata_records import SCHEMA_JSON
from table_writer.encoding.record_index_entries import encode_places
from tests.support.index_writes import BY_PARTITION, change, gone, make, put

KEYS = st.text(alphabet="ab0\uffee\U0001f600", max_size=4)
CHOICES = [LookupStrategy(scan, bloom) for scan in (None, True, False) for bloom in (True, False)]


def places_by_row(locations):
    return dict(
        zip(locations.rows.tolist(), locations.places["file_id"].take(locations.codes).to_pylist(), strict=True)
    )


def source(number, puts):
    """An HFile block of some keys, or a delete block of them."""
    if not isinstance(puts, dict):
        return Source(f"deletes {number}", ("f", 0, number), None, None, tuple(key.encode() for key in puts))
    keys = sorted(key.encode() for key in puts)
    values = encode_places(["p"] * len(keys), [puts[key.decode()] for key in keys], [number] * len(keys))
    ways = {"bloom": True, "packed_keys": True}
    data = write_hfile(pa.array(keys, pa.binary()), values, schema_json=SCHEMA_JSON, block_size=100, **ways)
    return Source(f"puts {number}", ("f", 0, number), HFileReader(data, str(number)), parse_text(SCHEMA_JSON))


@pytest.mark.slow
@given(
    blocks=st.lists(
        st.dictionaries(KEYS, st.sampled_from(["f", "g", "h"]), min_size=1, max_size=12) | st.sets(KEYS, max_size=6),
        max_size=5,
    ),
    asked=st.lists(KEYS, max_size=20),
    choice=st.sampled_from(CHOICES),
)
def test_the_newest_block_that_knows_a_key_decides(blocks, asked, choice):
    sources = [source(number, puts) for number, puts in enumerate(blocks)]
    state = {}
    for number, puts in enumerate(blocks):
        if isinstance(puts, dict):
            state |= {key: (file_id, number) for key, file_id in puts.items()}
        else:
            state = {key: place for key, place in state.items() if key not in puts}
    locations = look_up(sources, pa.array(asked, pa.string()), choice).to_pylist()
    places = {row["key"]: (row["file_id"], row["instant_ms"]) for row in locations}
    assert len(places) == len(locations)
    assert places == {key: state[key] for key in asked if key in state}
    by_row = places_by_row(find(sources, pa.array(asked, pa.string()), choice))
    assert all(asked.index(asked[row]) == row for row in by_row)  # the first of equal keys
    assert {asked[row]: place for row, place in by_row.items()} == {key: place for key, (place, _) in places.items()}
    live = live_entries(sources).to_pylist()
    assert {row["key"]: (row["file_id"], row["instant_ms"]) for row in live} == state
    assert len(live) == len(state)


def test_the_index_of_a_table_is_asked_by_key(client):
    change(client, *(put(f"k{n}", "p", f"f{n % 3}") for n in range(300)))
    change(client, put("k1", "q", "new"), gone("k2"), gone("absent"))
    change(client, put("k2", "r", "again"))
    index = pickle.loads(pickle.dumps(RecordIndex.open(TableClient.open(client.storage))))
    keys = pa.chunked_array([["k0", None, "k1"], [], ["k2", "no", "k0"]], pa.string())
    locations = {row["key"]: (row["partition"], row["file_id"]) for row in index.get_record_locations(keys).to_pylist()}
    assert locations == {"k0": ("p", "f0"), "k1": ("q", "new"), "k2": ("r", "again")}
    assert places_by_row(index.find(keys)) == {0: "f0", 2: "new", 3: "again"}
    groups = index.group_of(pa.array(["k0", "k1"]))
    for key, group in zip(["k0", "k1"], groups.tolist(), strict=True):
        [row] = index.group_locations(group, pa.array([key, key, None])).to_pylist()
        assert (row["key"], row["file_id"]) == (key, locations[key][1])
        assert row["instant_ms"] > 1_600_000_000_000
    everything = pa.concat_tables([index.group_entries(group) for group in range(index.layout.count)])
    assert sorted(everything["key"].to_pylist()) == sorted(f"k{n}" for n in range(300))
    assert index.get_record_locations(pa.array([], pa.string())).num_rows == 0
    for fixed in ("scan", "seek"):
        options = {DYNAMIC_KEY: "false", LOOKUP_KEY: fixed, BLOOM_KEY: "true"}
        other = RecordIndex.open(client, options=options)
        assert other.get_record_locations(keys).sort_by("key") == index.get_record_locations(keys).sort_by("key")


def test_a_task_opens_only_its_file_group(client, monkeypatch):
    change(client, *(put(f"k{n}") for n in range(50)))
    index = pickle.loads(pickle.dumps(RecordIndex.open(client)))
    read = []
    monkeypatch.setattr(Storage, "list", lambda *_, **__: pytest.fail("a listing"))
    whole = Storage.read
    monkeypatch.setattr(Storage, "read", lambda self, path: read.append(path) or whole(self, path))
    assert index.group_entries(1).num_rows
    assert read
    assert all("record-index-0001-0" in path for path in read)


def test_by_partition_a_key_has_a_place_in_each(tmp_path):
    client = make(Storage(str(tmp_path / "t")), properties=BY_PARTITION)
    assert RecordIndex.open(client).get_record_locations(pa.array(["a"])).num_rows == 0
    change(client, put("a", "p", "f"), put("b", "p", "f"))
    change(client, put("a", "q", "g"))
    index = RecordIndex.open(client)
    asked = pa.array(["a", "a", "b", "b", "a", None])
    where = pa.array(["p", "q", "p", "q", "none", "p"])
    locations = index.get_record_locations(asked, where).to_pylist()
    assert sorted((row["key"], row["partition"], row["file_id"]) for row in locations) == [
        ("a", "p", "f"),
        ("a", "q", "g"),
        ("b", "p", "f"),
    ]
    assert index.get_record_locations(pa.array(["a"]), pa.array(["q"])).to_pylist()[0]["file_id"] == "g"
    assert index.get_record_locations(pa.array(["a"])).num_rows == 2


def test_a_table_without_an_index_says_how_to_get_one(tmp_path):
    plain = {"hoodie.table.name": "t", "hoodie.table.recordkey.fields": "id", "hoodie.index.type": "BUCKET"}
    client = make(Storage(str(tmp_path / "t")), properties={**plain, "hoodie.bucket.index.num.buckets": "2"})
    with pytest.raises(RecordIndexError, match="hudi-catalog index bootstrap"):
        RecordIndex.open(client)


def test_a_missing_file_group_is_an_error(client):
    change(client, put("a"))
    for group in names.list_file_groups(client.storage, names.RECORD_INDEX)[1:2]:
        for log in group.log_files:
            client.storage.delete(log.path)
    with pytest.raises(CorruptFileError, match="missing"):
        RecordIndex.open(client)


@pytest.mark.parametrize("options", [{DYNAMIC_KEY: "maybe"}, {LOOKUP_KEY: "both"}, {BLOOM_KEY: "1"}])
def test_options_that_cannot_be(options):
    with pytest.raises(OptionError, match=next(iter(options)).replace(".", r"\.")):
        LookupStrategy.of(options)


def test_nothing_is_decoded_for_keys_that_are_absent(monkeypatch):
    sources = [source(0, {"a": "f", "b": "g"})]
    monkeypatch.setattr(HFileEntries, "keys", lambda _: pytest.fail("keys copied out"))
    assert look_up(sources, pa.array(["aa", "", "c"])).num_rows == 0
    assert look_up(sources, pa.array(["b"]))["file_id"].to_pylist() == ["g"]
    assert np.array_equal(look_up([], pa.array(["b"]))["key"].to_pylist(), [])


def test_the_metadata_table_asks_an_index_that_it_does_not_list(tmp_path):
    client = make(Storage(str(tmp_path / "t")), {"hoodie.catalog.record.index.hash": "xxhash64"})
    change(client, *(put(f"k{n}", "p", f"f{n}") for n in range(20)))
    change(client, gone("k3"))
    client.reload()
    table = MetadataTable.open(client, client.timeline())
    assert "record_index" in table.partitions
    locations = table.record_locations(pa.array([f"k{n}" for n in range(25)])).to_pylist()
    assert {row["key"]: row["file_id"] for row in locations} == {f"k{n}": f"f{n}" for n in range(20) if n != 3}
    assert table.count_record_keys(1000) == 19
    newer = table.refreshed(client, client.timeline())
    assert newer.record_locations(pa.array(["k4"])).num_rows == 1


def test_an_index_that_others_left_behind_is_not_asked(tmp_path, monkeypatch):
    client = make(Storage(str(tmp_path / "t")), {"hoodie.catalog.record.index.hash": "xxhash64"})
    change(client, put("a"))
    client.reload()
    monkeypatch.setattr(Timeline, "extra_metadata", lambda *_: {})
    table = MetadataTable.open(client, client.timeline())
    assert table.record_locations(pa.array(["a"])) is None
    assert table.count_record_keys(1000) is None
    with pytest.raises(RecordIndexError):
        RecordIndex.open(client)


def test_the_newest_family_that_knows_a_key_counts(tmp_path):
    """As after growth by file groups, whose older families get tombstones of what is put into the newest one."""
    client = make(Storage(str(tmp_path / "t")))
    layout = IndexLayout((("record-index-", 2), ("record-index-b1-", 3)))
    groups = [names.FileGroup(file_id, (), ()) for file_id in layout.groups]
    index = RecordIndex.open(client)
    grown = RecordIndex(client.storage, layout, groups, index._valid, {})
    keys = [f"k{n}" for n in range(40)]
    old, new = layout.groups_of(pa.array(keys))
    places = [{} for _ in layout.groups]
    for number, key in enumerate(keys):
        if number % 3 != 1:
            places[old[number]][key] = "old"
        if number % 3 != 0:
            places[new[number]][key] = "new"
    opened = {number: [source(number, puts)] if puts else [] for number, puts in enumerate(places)}
    grown._sources._opened.update(opened)
    locations = grown.get_record_locations(pa.array(keys))
    assert {row["key"]: row["file_id"] for row in locations.to_pylist()} == {
        key: "old" if number % 3 == 0 else "new" for number, key in enumerate(keys)
    }
    assert locations.num_rows == len(keys)
    by_row = places_by_row(grown.find(pa.array([*keys, *keys])))
    assert by_row == {number: "old" if number % 3 == 0 else "new" for number in range(len(keys))}


def test_a_key_that_is_no_text_is_an_error():
    values = encode_places(["p"], ["f"], [1])
    data = write_hfile(pa.array([b"\xff"], pa.binary()), values, schema_json=SCHEMA_JSON)
    damaged = Source("damaged", ("f", 0, 0), HFileReader(data, "f"), parse_text(SCHEMA_JSON))
    with pytest.raises(CorruptFileError, match="not UTF-8"):
        live_entries([damaged])
