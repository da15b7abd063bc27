"""Apache Hudi continues with files that our bulk insert left in the order of the rows."""

import random
from pathlib import Path

import pytest

from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.record_index.verify import verify_index
from tests.support.apache_hudi_client import ApacheHudi
from tests.support.indexed_rows import COMMIT_TIME, INDEX, SCHEMA, Rows, apply, by_our_index, in_files, step
from tests.support.local_writes import LocalTable

pytestmark = pytest.mark.engine
OPTIONS = INDEX | {
    "hoodie.datasource.write.payload.class": COMMIT_TIME,
    "hoodie.copyonwrite.insert.auto.split": "false",
    "hoodie.copyonwrite.insert.split.size": "150",
}


@pytest.mark.in_turns(2)
def test_apache_goes_on_with_rows_in_any_order(apache: ApacheHudi, tmp_path: Path) -> None:
    path = tmp_path / "t"
    numbers = random.Random(5).sample(range(2000), 900)
    first = step("bulk_insert", {f"k{n:04}": ("abc"[n % 3], n) for n in numbers})
    options = first.all_options(OPTIONS) | {"hoodie.bulkinsert.sort.mode": "NONE"}
    ours = LocalTable.create(str(path), SCHEMA, options)
    assert ours.write("bulk_insert", first.batch).files_written > 6
    rows = apply({}, first, event_time=False)
    later: list[tuple[str, Rows]] = [
        ("upsert", {f"k{n:04}": ("abc"[n % 3], -n) for n in [*numbers[::7], *range(2000, 2040)]}),
        ("delete", {f"k{n:04}": ("abc"[n % 3], 1 << 40) for n in numbers[::11]}),
        ("upsert", {f"k{n:04}": ("abc"[n % 3], 7) for n in numbers[::13]}),
    ]
    for number, (operation, changes) in enumerate(later):
        done = step(operation, changes)
        if number % 2:
            ours.write(operation, done.batch)
        else:
            apache.write(path, done.batch, done.all_options(OPTIONS))
        rows = apply(rows, done, event_time=False)
        stored, places = in_files(path)
        assert stored == rows
        keys = [*sorted(places)[::5], "never"]
        known = {key: places[key] for key in keys if key in places}
        assert by_our_index(path, keys) == known
        assert {key: (p, file) for key, (p, file, _) in apache.record_index(path, keys).items()} == known
    table = apache.read(path).to_pylist()
    assert {row["id"]: (row["_hoodie_partition_path"], row["v"]) for row in table} == rows
    assert len(table) == len(rows)
    assert verify_index(TableClient.open(Storage(str(path)))).is_right
