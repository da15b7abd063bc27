"""A record index built, checked and repaired by Spark's tasks."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_writer import HudiTable
from table_format.errors import HudiError
from tests.support.indexed_tables import change_index, data_places, index_places

pytestmark = pytest.mark.spark
QUIET = {"hoodie.catalog.write.progress": "false"}


def test_from_a_bucket_table_to_a_verified_index(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("table_writer.record_index.build._FEW_SOURCES", 0)  # so that footers are read by tasks, too
    path = str(tmp_path / "t")
    table = HudiTable.create(
        spark, path, "id long, p string, v int", record_key="id", partition_by="p", buckets=2, options=QUIET
    )
    table.upsert(spark.range(3000).selectExpr("id", "concat('p', id % 3) p", "1 v"))
    report = table.bootstrap_index(groups=3)
    assert (report.keys, report.keys_read, report.groups, report.slices, report.duplicates) == (3000, 3000, 3, 6, 0)
    assert index_places(table.client) == data_places(table.client)
    verified = table.verify_index()
    assert verified.is_right
    assert (verified.keys, verified.entries, verified.slices) == (3000, 3000, 6)

    change_index(table.client, ("17", "p2", None), ("nobody", *data_places(table.client)["1"].pop()))
    mended = table.verify_index(repair=True)
    assert {kind: count for kind, count in mended.counts.items() if count} == {"missing": 1, "extra": 1}
    assert mended.repaired == "entries"
    table.upsert(spark.range(2990, 3010).selectExpr("id", "concat('p', id % 3) p", "2 v"))
    assert table.verify_index(sample=0.3).slices == 2
    assert index_places(table.client) == data_places(table.client)
    assert not [entry for entry in table.client.storage.list(".hoodie/.catalog", recursive=True) if not entry.is_dir]

    for file in Path(path, "p0").glob("*.parquet"):  # older slices too: a build does not read those
        file.write_bytes(b"PAR1 nothing of the kind")
    with pytest.raises(HudiError, match=r"p0/\S+\.parquet"):
        table.bootstrap_index()
