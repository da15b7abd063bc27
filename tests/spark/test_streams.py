"""Streams whose job dies before and after commits: each row is in the table exactly once."""

import itertools
import json
import random
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from hudi_catalog import open_table
from spark_writer import HudiTable

pytestmark = pytest.mark.spark
DDL = "id bigint, v bigint"
FILES, ROWS = 6, 3


def test_each_row_of_a_stream_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()
    for number in range(FILES):
        rows = [json.dumps({"id": number * ROWS + row, "v": number}) for row in range(ROWS)]
        (source / f"{number}.json").write_text("\n".join(rows))
    table = HudiTable.create(spark, tmp_path / "t", DDL, record_key="id", buckets=1)
    # an insert as it is: a batch that is written twice shows
    write = table.stream_writer("readings", "bulk_insert")
    chance = random.Random(4)
    replayed = []

    def dies_at_times(batch: DataFrame, number: int) -> None:
        if chance.random() < 0.3:
            raise RuntimeError("before the commit")
        replayed.append(write(batch, number).replayed)
        if chance.random() < 0.5:
            raise RuntimeError("after the commit")

    for _ in itertools.count():
        lines = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).json(str(source))
        stream = lines.writeStream.foreachBatch(dies_at_times).option("checkpointLocation", str(checkpoint))
        try:
            stream.trigger(availableNow=True).start().awaitTermination()
        except StreamingQueryException:
            continue
        break
    assert {True, False} == set(replayed)
    stored = open_table(tmp_path / "t").scan(columns=["id"]).to_arrow()["id"].to_pylist()
    assert sorted(stored) == list(range(FILES * ROWS))
