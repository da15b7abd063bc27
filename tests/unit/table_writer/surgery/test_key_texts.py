"""The footer's facts about record keys after surgery."""

import dataclasses

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.base_file.footer import BLOOM, BLOOM_TYPE, MAX_KEY, MIN_KEY, BaseFileFooter, footer
from table_format.storage import Storage
from table_writer.encoding.base_file import BaseFileOptions, bloom_of, key_range
from table_writer.surgery.key_texts import key_texts
from table_writer.surgery.splice import Dropped, FileEdit, NewColumns, splice

KEY = "_hoodie_record_key"
OPTIONS = BaseFileOptions()
DYNAMIC = BaseFileOptions(bloom_entries=100, bloom_false_positives=1e-6, bloom_dynamic=True, bloom_dynamic_most=1000)


def keys(first, last):
    return pa.table({KEY: [f"k{i:05d}" for i in range(first, last)]})


@pytest.fixture
def file(tmp_path):
    """Writes keys in row groups of 100, and gives the storage."""

    def write(table, options=OPTIONS, **arguments):
        texts = {}
        if options is not None:
            bloom = bloom_of(table.column(KEY), options)
            bounds = dict(zip((MIN_KEY, MAX_KEY), key_range(table.column(KEY)), strict=True))
            texts = {
                **bounds,
                BLOOM: bloom.to_text(),
                **({BLOOM_TYPE: bloom.type_code} if bloom.records_per_vector else {}),
            }
        with pq.ParquetWriter(tmp_path / "old", table.schema, **arguments) as writer:
            writer.write_table(table, row_group_size=100)
            writer.add_key_value_metadata(texts)
        return Storage(str(tmp_path))

    return write


def after(storage, edit, options=OPTIONS, inserted=None) -> tuple[dict, BaseFileFooter]:
    texts = key_texts(storage, "old", footer(storage, "old"), edit, options, inserted=inserted)
    splice(storage, "old", "new", dataclasses.replace(edit, texts=texts), options)
    return texts, footer(storage, "new")


def test_an_update_changes_no_text_but_the_bounds(file):
    storage = file(keys(0, 300))
    texts, new = after(storage, FileEdit(constants={}))
    assert texts == {MIN_KEY: "k00000", MAX_KEY: "k00299"}
    assert new.bloom.to_text() == footer(storage, "old").bloom.to_text()


def test_inserted_keys_come_into_the_bloom_filter(file):
    storage = file(keys(0, 300))
    for inserted in (None, keys(900, 910).column(KEY).combine_chunks()):
        texts, new = after(storage, FileEdit(appended=[keys(900, 910)]), inserted=inserted)
        assert (new.min_key, new.max_key) == ("k00000", "k00909")
        assert len(texts[BLOOM]) == len(footer(storage, "old").bloom.to_text())
        all_keys = pa.concat_arrays([*keys(0, 300)[KEY].chunks, *keys(900, 910)[KEY].chunks])
        assert new.bloom.may_contain(all_keys).all()
        assert not new.bloom.may_contain(keys(5000, 5200)[KEY].combine_chunks()).all()


def test_bounds_shrink_with_the_row_groups(file):
    _, new = after(file(keys(0, 300)), FileEdit({0: Dropped(), 2: NewColumns(keys(200, 250))}))
    assert (new.min_key, new.max_key) == ("k00100", "k00249")


def test_a_file_without_rows_has_no_bounds(file):
    texts, new = after(file(keys(0, 100)), FileEdit({0: Dropped()}))
    assert texts[MIN_KEY] is texts[MAX_KEY] is None
    assert new.min_key is None


def test_an_overfull_filter_is_made_anew(file):
    storage = file(keys(0, 200))
    _, new = after(storage, FileEdit(appended=[keys(1000, 2000)]))
    whole = pa.chunked_array([*keys(0, 200)[KEY].chunks, *keys(1000, 2000)[KEY].chunks])
    assert new.bloom.to_text() == bloom_of(whole, OPTIONS).to_text()


def test_a_missing_filter_is_made(file):
    _, new = after(file(keys(0, 200), None), FileEdit(appended=[keys(300, 310)]))
    assert new.bloom.may_contain(keys(0, 200)[KEY].combine_chunks()).all()
    assert new.bloom.may_contain(keys(300, 310)[KEY].combine_chunks()).all()


def test_no_filter_is_left_where_none_is_wanted(file):
    _, new = after(file(keys(0, 200)), FileEdit(), BaseFileOptions(bloom_enabled=False))
    assert new.bloom is None


def test_a_dynamic_filter_is_filled_up_and_then_made_anew(file):
    storage = file(keys(0, 250), DYNAMIC)
    old = footer(storage, "old").bloom
    _, new = after(storage, FileEdit(appended=[keys(300, 340)]), DYNAMIC)
    assert (new.bloom.records_in_last, len(new.bloom.vectors)) == (90, 3)
    assert [bytes(v) for v in new.bloom.vectors[:2]] == [bytes(v) for v in old.vectors[:2]]
    assert new.bloom.may_contain(keys(300, 340)[KEY].combine_chunks()).all()
    _, new = after(storage, FileEdit(appended=[keys(300, 360)]), DYNAMIC)
    assert (new.bloom.records_in_last, len(new.bloom.vectors)) == (10, 4)
    _, new = after(storage, FileEdit(appended=[keys(300, 360)]), OPTIONS)
    assert BLOOM_TYPE not in new.key_values
    assert new.bloom.may_contain(keys(0, 250)[KEY].combine_chunks()).all()


@pytest.mark.parametrize("arguments", [{}, {"write_statistics": False}])
def test_the_bounds_are_those_of_java(file, arguments):
    """U+10000 and above come before U+E000 in UTF-16."""
    table = pa.table({KEY: ["\ue000", "\U00010000", "\uffff", "b"]})
    _, new = after(file(table, **arguments), FileEdit())
    assert (new.min_key, new.max_key) == ("b", "\uffff")
    _, new = after(file(table.slice(0, 3), **arguments), FileEdit())
    assert (new.min_key, new.max_key) == ("\U00010000", "\uffff")


def test_files_without_record_keys_get_no_texts(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "old")
    storage = Storage(str(tmp_path))
    assert key_texts(storage, "old", footer(storage, "old"), FileEdit(), OPTIONS) == {}
