"""TPC-H lineitem as a table of many files in the order of ship dates, for queries that need few of them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import lineitem
from benchmarks.committed import commit_file
from table_format.codecs.avro_schema import schema_text
from table_format.storage import Storage
from table_writer.commit.create import create_table
from table_writer.commit.transaction import WriteTransaction
from table_writer.metadata.column_statistics import concat_statistics

SCALE = "1"  # 6,001,215 rows
FILES = 512
NAME = "lineitem"
AGGREGATE = "sum(l_quantity), sum(l_extendedprice), avg(l_discount), count(*)"
SELECTIVE = {
    "one day, 1 of 512 files": f"SELECT {AGGREGATE} FROM {{}} WHERE l_shipdate = DATE '1995-03-15'",
    "one week, 2 files": f"SELECT {AGGREGATE} FROM {{}} "
    "WHERE l_shipdate BETWEEN DATE '1996-07-01' AND DATE '1996-07-07'",
    "two weeks, 4 files, rows": "SELECT l_orderkey, l_shipmode, l_comment FROM {} "
    "WHERE l_shipdate BETWEEN DATE '1994-02-01' AND DATE '1994-02-14' AND l_quantity > 49",
}
"""Questions to the table, whose name stands for `{}`, that need few of its files."""


def plain(table: pa.Table) -> pa.Table:
    """Amounts as double, as Trino's own TPC-H tables have them; texts without view types."""
    fields = []
    for field in table.schema:
        kind = pa.float64() if pa.types.is_decimal(field.type) else field.type
        fields.append(pa.field(field.name, pa.string() if kind == pa.string_view() else kind))
    return table.cast(pa.schema(fields))


def build(folder: Path) -> Path:
    """Write the table where it is not there yet; its folder."""
    path = folder / "warehouse" / "tpch" / NAME
    if path.exists():
        return path
    rows = plain(pq.read_table(lineitem.source(folder / "source", SCALE))).sort_by([("l_shipdate", "ascending")])
    properties = {
        "hoodie.table.name": NAME,
        "hoodie.database.name": "tpch",
        "hoodie.table.recordkey.fields": "l_orderkey,l_linenumber",
        "hoodie.table.precombine.field": "l_shipdate",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.table.timeline.timezone": "UTC",
    }
    client = create_table(Storage(str(path)), properties)
    each = -(-rows.num_rows // FILES)
    with WriteTransaction.begin(client, "commit", "BULK_INSERT") as transaction:
        transaction.mark_inflight()
        written = []
        for number in range(FILES):
            part = rows.slice(number * each, each).combine_chunks()
            texts = (pc.cast(part[name], pa.string()) for name in ("l_orderkey", "l_linenumber"))
            keys = pc.binary_join_element_wise("l_orderkey:", next(texts), ",l_linenumber:", next(texts), "")
            written.append(commit_file(transaction, part, keys.combine_chunks(), number))
        columns = concat_statistics(columns for _, columns in written)
        stats = [stat for stat, _ in written]
        transaction.commit(stats, schema_json=schema_text(rows.schema, NAME), column_stats=columns)
    return path
