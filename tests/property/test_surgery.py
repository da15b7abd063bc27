"""Random edits of random Parquet files: the spliced file holds what a whole rewrite would, and every page is right."""

import dataclasses
import datetime as dt
import decimal
import inspect
import math
import os
import random
import tempfile

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import event, given
from hypothesis import strategies as st

from table_format.base_file.footer import footer
from table_format.codecs.thrift_compact import read_struct, write_struct
from table_format.storage import Storage
from table_writer.encoding.base_file import BaseFileOptions, key_range
from table_writer.surgery.key_texts import key_texts
from table_writer.surgery.page_index import moved_offset_indexes
from table_writer.surgery.splice import Dropped, FileEdit, NewColumns
from tests.property.profile import examples
from tests.support.whole_rewrite import check_splice, expected_groups

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a time without a zone is meant
NAME, KEY = "_hoodie_file_name", "_hoodie_record_key"
FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25]
CHARACTERS = ["a", "b", "é", "\ue000", "\uffff", "\U0001f600", ""]


def _decimal(r, digits, scale):
    return decimal.Decimal(r.randrange(-(10**digits) + 1, 10**digits)).scaleb(-scale, decimal.Context(prec=40))


KINDS = {
    "b": (pa.bool_(), lambda r: r.random() < 0.5),
    "i": (pa.int32(), lambda r: r.randrange(-5, 5)),
    "g": (pa.int64(), lambda r: r.randrange(-(2**63), 2**63)),
    "f": (pa.float32(), lambda r: r.choice(FLOATS)),
    "d": (pa.float64(), lambda r: r.choice(FLOATS[:2] + FLOATS[3:]) if r.random() < 0.9 else r.random()),
    "t": (pa.string(), lambda r: "".join(r.choices(CHARACTERS, k=r.randrange(4)))),
    "long": (pa.string(), lambda r: r.choice("xy") * r.choice([1, 1, 1, 2100, 5000])),
    "y": (pa.binary(), lambda r: r.randbytes(r.randrange(4))),
    "n5": (pa.decimal128(5, 2), lambda r: _decimal(r, 5, 2)),
    "n15": (pa.decimal128(15, 3), lambda r: _decimal(r, 15, 3)),
    "n30": (pa.decimal128(30, 15), lambda r: _decimal(r, 30, 15)),
    "day": (pa.date32(), lambda r: dt.date(1969 + r.randrange(3), 1, 1)),
    "us": (pa.timestamp("us", "UTC"), lambda r: EPOCH + dt.timedelta(microseconds=r.randrange(-9, 9))),
    "ms": (pa.timestamp("ms"), lambda r: EPOCH + dt.timedelta(milliseconds=r.randrange(-9, 9))),
    "l": (pa.list_(pa.int64()), lambda r: [r.choice([None, 1, 2]) for _ in range(r.randrange(4))]),
    "ll": (
        pa.list_(pa.list_(pa.string())),
        lambda r: [[r.choice("ab")] * r.randrange(3) for _ in range(r.randrange(3))],
    ),
    "m": (pa.map_(pa.string(), pa.int32()), lambda r: [(c, r.choice([None, 3])) for c in "ab"[: r.randrange(3)]]),
    "s": (pa.struct({"x": pa.int64(), "y": pa.list_(pa.float64())}), lambda r: {"x": r.choice([None, 4]), "y": [1.0]}),
}
WRITER = inspect.signature(pq.ParquetWriter.__init__).parameters


def column(r, name, count):
    kind, value = KINDS[name]
    nulls = r.choice([0, 0, 0.2, 1])
    return pa.array([None if r.random() < nulls else value(r) for _ in range(count)], kind)


def rows(r, names, count, first):
    keys = [f"{r.choice(CHARACTERS)}{first + i}" for i in range(count)]
    return pa.table({KEY: keys, NAME: ["old"] * count, **{name: column(r, name, count) for name in names}})


@st.composite
def writers(draw, names):
    """Arguments of a Parquet writer."""
    arguments = {
        "compression": draw(st.sampled_from(["none", "snappy", "gzip", "zstd", "brotli", "lz4"])),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "use_dictionary": draw(st.booleans()),
        "write_page_index": draw(st.booleans()),
        "write_page_checksum": draw(st.booleans()),
        "data_page_size": draw(st.sampled_from([32, 1 << 20])),
        "write_batch_size": draw(st.sampled_from([3, 1024])),
        "use_compliant_nested_type": draw(st.booleans()),
        "store_schema": draw(st.booleans()),
        "write_statistics": draw(st.sampled_from([True, True, False, [KEY]])),
        "version": draw(st.sampled_from(["2.4", "2.6"])),
        "sorting_columns": [pq.SortingColumn(0)] if draw(st.booleans()) else None,
    }
    if "store_decimal_as_integer" in WRITER:
        arguments["store_decimal_as_integer"] = draw(st.booleans())
    if not arguments["use_dictionary"]:
        encodings = {"i": "DELTA_BINARY_PACKED", "d": "BYTE_STREAM_SPLIT", "t": "DELTA_LENGTH_BYTE_ARRAY"}
        chosen = {name: encoding for name, encoding in encodings.items() if name in names and draw(st.booleans())}
        arguments["column_encoding"] = chosen or None
    return arguments


@st.composite
def cases(draw):
    """Columns, sizes of row groups, writer arguments, the fate of each row group, sizes of new ones, a seed."""
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), unique=True, min_size=1, max_size=6))
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    changes = [
        draw(st.one_of(st.none(), st.just(0), st.integers(1, 30), st.sets(st.sampled_from(names), min_size=1)))
        for _ in sizes
    ]
    appended = draw(st.lists(st.integers(1, 30), max_size=2))
    constants = draw(st.sampled_from([{}, {NAME: "new"}]))
    return names, sizes, draw(writers(names)), changes, appended, constants, draw(st.integers(0, 2**32))


def laid_out(folder, case):
    """Write `old.parquet`; gives the edit."""
    names, sizes, arguments, changes, appended, constants, seed = case
    r, groups = random.Random(seed), {}
    tables = [rows(r, names, size, 100 * at) for at, size in enumerate(sizes)]
    with pq.ParquetWriter(os.path.join(folder, "old.parquet"), tables[0].schema, **arguments) as writer:
        for table in tables:
            writer.write_table(table)
    for at, change in enumerate(changes):
        if change == 0:
            groups[at] = Dropped()
        elif isinstance(change, int):
            groups[at] = NewColumns(rows(r, names, change, 100 * at + 50))
        elif change is not None:
            groups[at] = NewColumns(pa.table({name: column(r, name, sizes[at]) for name in sorted(change)}))
    return FileEdit(groups, [rows(r, names, size, 1000 * at + 1000) for at, size in enumerate(appended)], constants)


@examples(60)
@given(cases())
def test_a_spliced_file_holds_what_a_whole_rewrite_would(case):
    with tempfile.TemporaryDirectory() as folder:
        edit = laid_out(folder, case)
        storage, options = Storage(folder), BaseFileOptions()
        texts = key_texts(storage, "old.parquet", footer(storage, "old.parquet"), edit, options)
        expected = expected_groups(os.path.join(folder, "old.parquet"), edit)
        check_splice(folder, dataclasses.replace(edit, texts=texts), options)
        whole = pa.concat_tables(expected) if expected else None
        check_keys(footer(storage, "new.parquet"), whole)
        if whole is not None:
            pq.write_table(whole, os.path.join(folder, "whole.parquet"))
            spliced, wanted = (
                duckdb.execute(f"select * from '{folder}/{name}.parquet'").fetchall() for name in ("new", "whole")
            )
            assert repr(spliced) == repr(wanted)
        event(f"{sum(change is not None for change in case[3])} of {len(case[3])} row groups")


def check_keys(spliced, whole):
    """The first and last key are exact, and no key is missed by the bloom filter."""
    if whole is None or len(whole) == 0:
        assert spliced.min_key is spliced.max_key is None
        return
    keys = whole[KEY].combine_chunks()
    keys = keys if isinstance(keys, pa.Array) else pa.concat_arrays(keys.chunks)
    assert (spliced.min_key, spliced.max_key) == key_range(keys)
    assert spliced.bloom.may_contain(keys).all()


NUMBERS = st.integers(-(2**63), 2**63 - 1)
FIELDS = st.one_of(
    st.sampled_from([(1, True), (2, False)]),
    st.tuples(st.sampled_from([4, 5, 6]), st.one_of(st.integers(-300, 300), NUMBERS)),
    st.tuples(st.just(3), st.integers(-128, 127)),
    st.tuples(st.just(7), st.binary(min_size=8, max_size=8)),
    st.tuples(st.just(8), st.binary(max_size=200)),
)
STRUCTS = st.recursive(
    st.dictionaries(st.integers(1, 300), FIELDS, max_size=4),
    lambda inner: st.dictionaries(
        st.integers(1, 300),
        st.one_of(
            FIELDS,
            st.tuples(st.just(12), inner),
            st.tuples(st.sampled_from([9, 10]), st.tuples(st.just(12), st.lists(inner, max_size=17))),
            st.tuples(st.just(9), st.tuples(st.just(1), st.lists(st.booleans(), max_size=17))),
            st.tuples(st.just(9), st.tuples(st.just(6), st.lists(NUMBERS, max_size=17))),
            st.tuples(
                st.just(11),
                st.tuples(st.just(8), st.just(5), st.lists(st.tuples(st.binary(max_size=3), NUMBERS), min_size=1)),
            ),
        ),
        max_size=4,
    ),
    max_leaves=12,
)


@examples(300)
@given(STRUCTS)
def test_structs_come_back(struct):
    data = write_struct(struct)
    struct_read, end = read_struct(b"\x00" + data + b"\x00", 1)
    assert end == len(data) + 1
    assert write_struct(struct_read) == data
    assert {field: value for field, (_, value) in struct_read.items()} == {
        field: value for field, (_, value) in struct.items()
    }


PAGES = st.lists(st.tuples(st.integers(4, 2**40), st.integers(1, 2**31 - 1), st.integers(0, 2**40)), max_size=20)


@examples(200)
@given(st.lists(st.tuples(PAGES, st.integers(-(2**36), 2**36), st.booleans()), max_size=5))
def test_offset_indexes_move(indexes):
    data, wanted = [], []
    for pages, distance, sized in indexes:
        moved = max(distance, -min((page[0] for page in pages), default=0))
        for into, by in ((data, 0), (wanted, moved)):
            locations = [{1: (6, at + by), 2: (5, size), 3: (6, row)} for at, size, row in pages]
            sizes = {2: (9, (6, [page[1] for page in pages]))} if sized else {}
            into.append(write_struct({1: (9, (12, locations)), **sizes}))
    distances = [max(distance, -min((page[0] for page in pages), default=0)) for pages, distance, _ in indexes]
    assert moved_offset_indexes(data, distances) == wanted
