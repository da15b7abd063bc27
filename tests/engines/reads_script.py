"""Runs the checks of planned reads in a separate process, for a PySpark that has no pytest beside it.

Usage: `python reads_script.py FOLDER`; prints a line of JSON: PySpark's version, and the checks that passed. FOLDER has
the tables `t` and `kinds` of `tests.support.spark_reads`.
"""

import json
import os
import sys
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable

import pyspark

from tests.support.generated_reads import check_generated_filters
from tests.support.spark_joins import JOIN_CHECKS, make_joined
from tests.support.spark_names import NAME_CHECKS
from tests.support.spark_reader_filters import READER_CHECKS
from tests.support.spark_reads import CHECKS
from tests.support.spark_session import local_session

folder = sys.argv[1]
spark = local_session(spark_sql_shuffle_partitions="2")
passed = []
for name, check in {**CHECKS, **READER_CHECKS, **NAME_CHECKS}.items():
    check(spark, f"{folder}/t")
    passed.append(name)
joined = make_joined(Path(folder) / "joins")
for name, check_joins in JOIN_CHECKS.items():
    check_joins(spark, joined)
    passed.append(name)
pruned = check_generated_filters(spark, f"{folder}/kinds", range(50_000_000, 50_000_020)).pruned
print(json.dumps({"pyspark": pyspark.__version__, "passed": passed, "pruned": pruned}))
