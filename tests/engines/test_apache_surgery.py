"""Apache Hudi reads, prunes and updates files with edited row groups, and we continue with its files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from catalog import Table
from table_format.storage import Storage
from table_format.table.client import TableClient
from tests.engines import spliced_table
from tests.engines.model import comparable
from tests.support.apache_hudi_client import ApacheHudi
from tests.support.local_writes import LocalTable

pytestmark = pytest.mark.engine
FILTERS = ["id >= 'k01000' and id < 'k01040'", "number < 0", "few is null and price > 2900", "id = 'k00507'"]


def ours(path: Path, where: str | None = None) -> pa.Table:
    return Table.open(str(path)).scan(where).to_arrow()


def same(left: pa.Table, right: pa.Table) -> None:
    assert comparable(left.to_pylist(), left.column_names) == comparable(right.to_pylist(), left.column_names)


@pytest.mark.in_turns(2)
def test_apache_takes_over_spliced_files(apache: ApacheHudi, tmp_path: Path) -> None:
    path = tmp_path / spliced_table.NAME
    spliced_table.build(tmp_path)
    before = ours(path)
    same(before, apache.read(path))
    for where in FILTERS:
        answer = apache.read(path, where)
        assert answer.num_rows
        same(ours(path, where), answer)
    for row in apache.validate_files(path):
        assert row["fs_size"] == row["metadata_size"], row

    names = spliced_table.SCHEMA.names
    batch = before.slice(0, 40).select(names).set_column(1, "number", pa.array([-1007] * 40, pa.int64()))
    options = {**spliced_table.OPTIONS, "hoodie.datasource.write.operation": "upsert"}
    options["hoodie.datasource.write.payload.class"] = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
    apache.write(path, batch, options)
    middle = ours(path)
    assert middle.num_rows == before.num_rows
    assert pc.sum(pc.equal(middle["number"], -1007)).as_py() == 40
    same(middle, apache.read(path))

    table = LocalTable(TableClient.open(Storage(str(path))), spliced_table.OPTIONS)
    summary = table.write("upsert", batch.set_column(1, "number", pa.array([-1008] * 40, pa.int64())))
    assert summary.bytes_copied, "their file is not spliced"
    same(ours(path), apache.read(path))
    assert pc.sum(pc.equal(ours(path)["number"], -1008)).as_py() == 40
