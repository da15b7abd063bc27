"""TPC-H lineitem, and the options that both sides write it with."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SCALE = "0.3333"  # 2,000,296 rows
BUCKETS = 8
KEY = ["l_orderkey", "l_linenumber"]

OPTIONS = {
    "hoodie.table.name": "lineitem",
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.datasource.write.recordkey.field": ",".join(KEY),
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.precombine.field": "l_shipdate",
    # l_shipdate orders nothing here; the newest row wins on both sides
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": str(BUCKETS),
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.clean.automatic": "false",
}


def source(folder: Path, scale: str = SCALE) -> Path:
    """The generated table as one Parquet file."""
    path = folder / "lineitem.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        generator = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run([generator, "parquet", "-s", scale, "--tables=lineitem", f"--output-dir={folder}"], check=True)
    return path


def corrections(folder: Path) -> Path:
    """One row in a hundred, drawn at random, with another comment."""
    path = folder / "corrections.parquet"
    if not path.exists():
        table = pq.read_table(source(folder))
        # the generator's view types cannot be taken from
        types = {pa.string_view(): pa.string()}
        fields = [field.with_type(types.get(field.type, field.type)) for field in table.schema]
        table = table.cast(pa.schema(fields))
        chosen = np.flatnonzero(np.random.default_rng(1).random(table.num_rows) < 0.01)
        table = table.take(pa.array(chosen))
        comment = pc.binary_join_element_wise("corrected", table["l_comment"], " ")
        index = table.schema.get_field_index("l_comment")
        pq.write_table(table.set_column(index, "l_comment", comment), path)
    return path


def bytes_on_disk(table: Path) -> int:
    """Data files of the table, without the timeline and the metadata table."""
    return sum(file.stat().st_size for file in table.glob("*.parquet"))
