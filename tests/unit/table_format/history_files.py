"""Archived timelines of layout 2, made for tests in the shape that Apache gives them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq


def write_history(storage, folder, instants, version=1, level=0, keep=()):
    """One file of (time, completion time) pairs, and a manifest that lists it beside the ones to keep."""
    times = [time for time, _ in instants]
    name = f"{min(times)}_{max(times)}_{level}.parquet"
    table = pa.table(
        {
            "instantTime": times,
            "completionTime": [completion for _, completion in instants],
            "action": ["deltacommit"] * len(times),
            "metadata": pa.array([b"x" * 100] * len(times)),
            "plan": pa.array([None] * len(times), pa.binary()),
            "version": pa.array([1] * len(times), pa.int32()),
        }
    )
    with storage.open_output(f"{folder}/{name}") as stream:
        pq.write_table(table, stream)
    files = [{"fileName": file, "fileLen": 1} for file in (*keep, name)]
    storage.overwrite(f"{folder}/manifest_{version}", json.dumps({"files": files}).encode())
    storage.overwrite(f"{folder}/_version_", str(version).encode())
    return name
