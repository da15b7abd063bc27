"""When surgery pays: decisions for files of the measured kinds, and the sizes that they follow from."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.base_file.footer import footer
from table_format.codecs.arrow_numpy import from_numpy
from table_writer.metadata.column_statistics import exact_statistics
from table_writer.surgery.cost import Chunks, EditSize, FileChunks
from table_writer.surgery.opened import OpenedFile
from tests.support.surgery_files import ALWAYS, Slot, rows_per_group
from tests.support.work import function_calls

ROWS = 1024  # of a row group
MORE = 2048  # of a row group of the wide file


def wide(columns, rows, change=0):
    """Rows of numbers that compress little; the first columns differ by `change`."""
    draw = np.random.default_rng(1)
    numbers = {f"c{n}": draw.integers(0, 1 << 60, rows) + (change if n < 1 else 0) for n in range(columns - 1)}
    return pa.table({"id": [f"k{n:06d}" for n in range(rows)], **{name: from_numpy(v) for name, v in numbers.items()}})


def edit(columns, groups, size, touched, changed):
    """An edit of a file of `size` bytes in equal chunks, a quarter of its columns floating-point numbers."""
    width = columns + 5
    chunk = size // (width * groups)

    def chunks(count):
        return Chunks(count, count * chunk, count * chunk)

    read = touched * (columns + 2) + groups * columns // 4
    return EditSize(width, chunks(width * groups), chunks(read), chunks(touched * (changed + 2)))


@pytest.mark.parametrize(
    ("columns", "groups", "size", "touched", "changed", "pays"),
    [
        # ratios of processor time as measured, see ADR 36
        (4, 5, 14 << 20, 1, 1, True),  # 0.41
        (4, 5, 14 << 20, 5, 1, True),  # 0.82
        (4, 5, 2 << 20, 5, 3, False),  # 1.36
        (40, 7, 7 << 19, 1, 1, False),  # 0.97
        (40, 7, 7 << 19, 3, 1, False),  # 0.89
        (40, 7, 7 << 19, 7, 39, False),  # 2.33
        (40, 7, 18 << 20, 1, 39, True),  # 0.82
        (40, 7, 18 << 20, 7, 19, False),  # 1.38
        (400, 4, 18 << 20, 1, 1, True),  # 0.77
        (400, 4, 18 << 20, 4, 199, False),  # 1.41
        (16, 20, 1 << 30, 20, 2, True),
        (16, 20, 1 << 30, 1, 16, True),
    ],
)
def test_surgery_is_taken_where_it_was_measured_to_pay(columns, groups, size, touched, changed, pays):
    assert (edit(columns, groups, size, touched, changed).share <= 0.9) == pays


def test_the_chunks_of_an_edit():
    rows = wide(4, 2 * ROWS)
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=ROWS, use_dictionary=False, compression="none")
    chunks = FileChunks(pq.read_metadata(sink))
    assert chunks.total.count == 8
    number = chunks.groups[0]["c1"]
    assert number.count == 1
    assert 9 * ROWS <= number.load <= 9 * ROWS + 200
    assert 8 * ROWS <= number.compressed <= 8 * ROWS + 200
    size = chunks.edit(updated=[1], compared=["c0", "c1", "c1"], changed=["c0"], statistics=["c2"])
    assert (size.columns, size.read.count, size.encoded.count) == (4, 4, 1 + 2)
    assert size.encoded.load == number.load
    rest = chunks.edit(updated=[1, 0], compared=["c0", "c1"], changed=["c0"], statistics=[], decoded=1)
    assert (rest.read.count, rest.encoded.count) == (2, 2 + 2)
    whole = chunks.edit(updated=[], rebuilt=[0, 1], compared=["c0"], changed=["c0"], statistics=[])
    assert (whole.read, whole.encoded.load, whole.encoded.compressed) == (
        chunks.total,
        chunks.total.load,
        chunks.total.compressed,
    )
    new = chunks.edit(updated=[], compared=[], changed=[], statistics=[], appended=ROWS)
    assert (new.read.count, new.encoded.load) == (0, chunks.total.load // 2)


@pytest.fixture(scope="module")
def wide_slot(tmp_path_factory):
    columns, groups = 40, 6
    rows = wide(columns, groups * MORE)
    slot = Slot(tmp_path_factory.mktemp("wide") / "t", rows.schema)
    with rows_per_group(MORE):
        slot.write(rows, {})
    return slot


@pytest.mark.parametrize(("touched", "spliced"), [(1, 1), (6, 0)])
def test_a_wide_file_of_small_row_groups_is_spliced_where_few_are_touched(wide_slot, tmp_path, touched, spliced):
    slot = wide_slot.copy(tmp_path / "t")
    rows = wide(len(slot.schema), 6 * MORE, change=1).take(pa.array([group * MORE + 9 for group in range(touched)]))
    with rows_per_group(MORE):
        other = slot.copy(tmp_path / "always")
        made = slot.write(rows, {})
        assert (made.work.spliced, other.write(rows, ALWAYS).work.spliced) == (spliced, 1)
    assert slot.rows() == other.rows()


def test_a_file_that_surgery_gives_up_has_had_its_keys_read_only(wide_slot, tmp_path, monkeypatch):
    slot = wide_slot.copy(tmp_path / "t")
    rows = wide(len(slot.schema), 6 * MORE, change=1).take(pa.array([group * MORE + 9 for group in range(6)]))
    monkeypatch.setattr("table_writer.surgery.opened.read_footer", lambda _: pytest.fail("its footer was decoded"))
    monkeypatch.setattr("table_writer.surgery.locate._ROWS_PER_BLOOM_PROBE", 1 << 20)
    with rows_per_group(MORE):
        assert slot.write(rows, {}).work.spliced == 0


@pytest.mark.parametrize(("changed", "spliced"), [(1, 1), (39, 0)])
def test_a_few_columns_tell_how_many_change_before_all_are_read(tmp_path, monkeypatch, changed, spliced):
    columns = 40
    rows = wide(columns, ROWS * 5)
    slot = Slot(tmp_path / "t", rows.schema)
    slot.write(rows, {})
    batch = rows.slice(70, 1)
    for name in rows.column_names[-changed:]:
        batch = batch.set_column(rows.column_names.index(name), name, pa.array([1]))
    read = []
    stored = OpenedFile.read_stored
    monkeypatch.setattr(
        OpenedFile, "read_stored", lambda self, *arguments: read.append(arguments) or stored(self, *arguments)
    )
    assert slot.write(batch, {}).work.spliced == spliced
    sampled = read[0][1]
    assert len(sampled) <= columns / 4
    if spliced:
        assert [known.rows.column_names for _, _, known in read[1:]] == [sampled]
    else:
        assert not {name for groups, names in read[1:] if read[0][0][0] in groups for name in names} & {*sampled}


def test_nothing_is_read_of_a_file_that_is_too_small(tmp_path, monkeypatch):
    slot = Slot(tmp_path / "t", wide(4, ROWS).schema)
    slot.write(wide(4, ROWS), {})
    monkeypatch.setattr("table_writer.surgery.opened.footer_of", lambda *_: pytest.fail("its footer was read"))
    assert slot.write(wide(4, ROWS, change=1).slice(0, 1), {}).work.spliced == 0


def test_statistics_of_a_file_cost_the_same_for_each_column(tmp_path):
    calls = []
    for columns in (100, 400):
        slot = Slot(tmp_path / str(columns), wide(columns, 10).schema)
        slot.write(wide(columns, 10), {})
        foot = footer(slot.storage, slot.path)
        fields = [field for field in slot.schema if field.name != "id"]

        def ask(foot=foot, fields=fields):
            for field in fields:
                exact_statistics(foot, field.name, field.type, None)

        calls.append(function_calls(ask))
    assert calls[1] < 5 * calls[0]
