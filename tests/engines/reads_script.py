"""Runs the checks of planned reads in a separate process, for a PySpark that has no pytest beside it.

Usage: `python reads_script.py FOLDER GROUP`; prints a line of JSON: PySpark's version, and the checks of the group that
passed. FOLDER has the tables `t` and `kinds` of `tests.support.spark_reads`.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable

import pyspark

from tests.support.generated_reads import check_generated_filters
from tests.support.spark_checks import GROUPS
from tests.support.spark_joins import make_joined
from tests.support.spark_session import local_session

folder, group = sys.argv[1:]
spark = local_session(spark_sql_shuffle_partitions="2")
report: dict[str, Any] = {"pyspark": pyspark.__version__}
checks: Mapping[str, Callable[..., object]] = GROUPS[group]
tables = make_joined(Path(folder) / "joins") if group in {"joins", "order"} else f"{folder}/t"
for check in checks.values():
    check(spark, tables)
if group == "reads":
    report["pruned"] = check_generated_filters(spark, f"{folder}/kinds", range(50_000_000, 50_000_020)).pruned
print(json.dumps({**report, "passed": [*checks]}))
