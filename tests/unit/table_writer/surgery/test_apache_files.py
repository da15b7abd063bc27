"""Surgery on files that Apache Hudi wrote: the same as a whole rewrite of them."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from table_format.base_file.reader import read_base_file
from table_format.codecs.arrow_numpy import from_numpy
from table_format.meta_columns import META_COLUMNS, RECORD_KEY
from tests.support.surgery_files import ALWAYS, NEVER, Slot, differences

ARCHIVE = Path(__file__).parents[3] / "golden/tables/tables.tar.xz"
LARGEST = 1  # files of each table; the others are of the same writer


def files() -> dict[str, list[tuple[str, bytes]]]:
    """The base files of each table that has meta columns."""
    files_by_table: dict[str, list[tuple[str, bytes]]] = {}
    with tarfile.open(ARCHIVE) as packed:
        for member in packed:
            table, _, path = member.name.removeprefix("./").partition("/")
            if path.endswith(".parquet") and ".hoodie" not in path and "nometa" not in table:
                stream = packed.extractfile(member)
                assert stream is not None
                files_by_table.setdefault(table, []).append((Path(path).name, stream.read()))
    return {table: sorted(some, key=lambda file: -len(file[1]))[:LARGEST] for table, some in files_by_table.items()}


FILES = files()


def batches(rows: pa.Table) -> dict[str, pa.Table]:
    """What to write into a file of some rows: every third row with another's values, and a new one."""
    user = rows.select([name for name in rows.column_names if name not in META_COLUMNS])
    count = len(rows)
    some = np.arange(0, count, 3)
    changed = user.take(from_numpy(some))
    name = changed.column_names[-1]
    last = user[name].take(from_numpy((some + 1) % count))
    changed = changed.set_column(changed.num_columns - 1, user.schema.field(name), last)
    keys = pc.take(rows[RECORD_KEY], from_numpy(some))
    fresh = changed.slice(0, 1).append_column(RECORD_KEY, pa.array(["!new"]))
    updated = changed.append_column(RECORD_KEY, keys.cast(pa.string()))
    return {
        "update": updated,
        "insert": pa.concat_tables([updated.slice(0, 1), fresh]),
        "delete": updated.slice(0, 2),
    }


@pytest.mark.parametrize("table", sorted(FILES))
def test_a_file_of_apache(table, tmp_path):
    spliced = 0
    for number, (name, data) in enumerate(FILES[table]):
        rows = None
        for kind in ("update", "insert", "delete"):
            pair = [Slot.of_file(tmp_path / f"{number}{kind}{side}", name, data) for side in range(2)]
            if rows is None:
                rows = read_base_file(pair[0].storage, pair[0].path, schema=pa.schema(whole_schema(pair[0])))
            if len(rows) < 2:
                continue
            batch, delete = batches(rows)[kind], kind == "delete"
            made = pair[0].write(batch, ALWAYS, delete=delete)
            whole = pair[1].write(batch, NEVER, delete=delete)
            assert differences((pair[0], made), (pair[1], whole), schemas=False) == [], (name, kind)
            spliced += made.work.spliced
    assert spliced, json.dumps([name for name, _ in FILES[table]])


def whole_schema(slot: Slot) -> list[pa.Field]:
    return [*(pa.field(name, pa.string()) for name in META_COLUMNS), *slot.schema]
