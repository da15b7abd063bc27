"""Record what Spark answers to the filters of tests/support/sample_rows.py.

Run with a Python that has pyspark: python -m tests.golden.spark_filters.make
"""

import json
import os

from pyspark.sql import SparkSession

from tests.support.sample_rows import FILTERS, sample_table


def main() -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    import pyarrow.parquet as pq

    path = "/tmp/spark_filters_rows.parquet"
    table = sample_table()
    pq.write_table(table.append_column("row", [list(range(table.num_rows))]), path)
    frame = spark.read.parquet(path).orderBy("row").cache()
    answers = {}
    for text in FILTERS:
        try:
            answers[text] = [row[0] for row in frame.selectExpr(f"({text}) AS answer").collect()]
        except Exception as error:
            answers[text] = "error: " + str(error).split("]")[0].lstrip("[")
    spark.stop()
    os.remove(path)
    out = os.path.join(os.path.dirname(__file__), "answers.json")
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"spark": spark.version, "answers": answers}, file, ensure_ascii=False, indent=0)


if __name__ == "__main__":
    main()
