"""Jobs for `writer_script.py`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from tests.engines.kinds import Kind, Step
from tests.support.apache_hudi_client import QUICK, ROOT


def start(
    folder: Path, path: Path, kind: Kind, steps: list[Step], python: str = sys.executable
) -> subprocess.Popen[str]:
    """Start a process that carries out these writes, in a process group of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    writes = []
    for number, step in enumerate(steps):
        data = folder / f"{number}.parquet"
        pq.write_table(step.table(kind.schema), data, store_schema=False)
        options = kind.all_options() | {"hoodie.datasource.write.operation": step.operation}
        if step.partitions:
            options["hoodie.datasource.write.partitions.to.delete"] = ",".join(step.partitions)
        writes.append({"data": str(data), "options": options})
    job = folder / "job.json"
    job.write_text(json.dumps({"path": str(path), "writes": writes}))
    return subprocess.Popen(
        [python, str(Path(__file__).with_name("writer_script.py")), str(job)],
        stdout=subprocess.PIPE,
        stderr=(folder / "stderr.log").open("w"),
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JDK_JAVA_OPTIONS": QUICK},
    )
