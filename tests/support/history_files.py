"""Archived timelines of layout 2, made for tests in the shape that Apache gives them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq


def write_history(storage, folder, instants, version=1, level=0, keep=(), contents=None):
    """One file of (time, completion time) pairs, and a manifest that lists it beside the ones to keep.

    Args:
        contents: by time, the action and the content of the completed file, where it is not a deltacommit.
    """
    times = [time for time, _ in instants]
    files = [(contents or {}).get(time, ("deltacommit", b"x" * 100)) for time in times]
    name = f"{min(times)}_{max(times)}_{level}.parquet"
    table = pa.table(
        {
            "instantTime": times,
            "completionTime": [completion for _, completion in instants],
            "action": [action for action, _ in files],
            "metadata": pa.array([data for _, data in files], pa.binary()),
            "plan": pa.array([None] * len(times), pa.binary()),
            "version": pa.array([1] * len(times), pa.int32()),
        }
    )
    with storage.open_output(f"{folder}/{name}") as stream:
        pq.write_table(table, stream)
    listed = [{"fileName": file, "fileLen": 1} for file in (*keep, name)]
    storage.overwrite(f"{folder}/manifest_{version}", json.dumps({"files": listed}).encode())
    storage.overwrite(f"{folder}/_version_", str(version).encode())
    return name
