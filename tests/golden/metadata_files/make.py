"""Make the files of metadata tables, and two log files of data, out of tables that Apache Hudi writes.

Run where the engines are (`make engines`): python -m tests.golden.metadata_files.make
"""

import math
from dataclasses import dataclass
from pathlib import Path

from table_format.log.blocks import BlockType, read_log_blocks
from tests.engines.apache_tables import (
    BUCKET,
    FLAT_BY_PARTITION,
    MERGE_ON_READ,
    NO_COMPACTION,
    NONPARTITIONED,
    ApacheTable,
    Statements,
    Write,
)
from tests.engines.kinds import NESTED, Row, flat_row, nested_row
from tests.golden.packing import Members, files_of, make_tables, write_gzip
from tests.support.apache_hudi_client import VERSIONS, ApacheHudi
from tests.support.paths import GOLDEN

_COMMON = {
    "hoodie.write.table.version": "6",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.index.bloom.num_entries": "60",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}
_RECORD_INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
}


def _edges(n: int, ts: int = 1) -> Row:
    """A row of every type whose numbers and texts are hard to keep statistics of."""
    number = (math.nan, math.inf, -math.inf, -0.0, 0.0, 1e30)[n % 6]
    text = ("ｱ", "𝄞", "\uffff", "m" * 1200, "", None)[n % 6]
    return nested_row(n, ts) | {"f": number, "d": -number, "s": text}


@dataclass(frozen=True)
class _Crash(Statements):
    """The newest commit loses its completed instant, so that the next write rolls it back."""

    def run(self, apache: ApacheHudi, path: Path) -> None:
        max((path / ".hoodie").glob("*.commit")).unlink()


#: By what is done to them: record index and compactions of the metadata table; values at the edges; a commit that is
#: rolled back; deletes in a merge-on-read table.
_TABLES = {
    table.name: table
    for table in (
        ApacheTable(
            "compacted",
            {
                **NONPARTITIONED,
                **_RECORD_INDEX,
                **_COMMON,
                "hoodie.metadata.compact.max.delta.commits": "3",
            },
            [
                Write("insert", [flat_row(n, 5) for n in range(60)]),
                *(Write("upsert", [flat_row(n, ts) for n in range(ts, 80, 9)]) for ts in (6, 7, 8)),
                Write("delete", [flat_row(n, 9) for n in range(0, 60, 7)]),
            ],
        ),
        ApacheTable(
            "edges",
            {**NONPARTITIONED, **BUCKET, **_COMMON},
            [Write("insert", [_edges(n, 5) for n in range(30)]), Write("upsert", [_edges(n, 6) for n in range(40)])],
            NESTED,
        ),
        ApacheTable(
            "rolled_back",
            {**NONPARTITIONED, **BUCKET, **_COMMON, "hoodie.metadata.compact.max.delta.commits": "100"},
            [
                Write("insert", [flat_row(n, 5) for n in range(40)]),
                Write("upsert", [flat_row(n, 6) for n in range(30)]),
                _Crash([]),
                Write("upsert", [flat_row(n, 7) for n in range(20)]),
            ],
        ),
        ApacheTable(
            "deleted",
            {**FLAT_BY_PARTITION, **BUCKET, **MERGE_ON_READ, **NO_COMPACTION, **_COMMON},
            [
                Write("insert", [flat_row(n, 5) for n in range(60)]),
                Write("delete", [flat_row(n, 6) for n in range(0, 60, 7)]),
            ],
        ),
    )
}
_METADATA = ".hoodie/metadata/"


def write(apache: ApacheHudi, folder: Path) -> Members:
    """The chosen files of one table, by their names in `metadata_files` without the release."""
    name = folder.name.partition("__")[2]
    files = files_of(_TABLES[name].write(apache, folder), without=None)
    if name == "compacted":
        return {
            **{
                f"{part}.hfile": _newest(files, f"{_METADATA}{part}/")
                for part in ("column_stats", "files", "record_index")
            },
            "record_index_deletes.log": _log(files, f"{_METADATA}record_index/", BlockType.DELETE),
        }
    if name == "edges":
        return {"column_stats_edge.log": _log(files, f"{_METADATA}column_stats/", BlockType.HFILE_DATA)}
    if name == "deleted":
        return {"data_deletes.log": _log(files, "part=", BlockType.DELETE)}
    return {
        "files_data.log": _log(files, f"{_METADATA}files/", BlockType.HFILE_DATA),
        "files_rollback.log": _log(files, f"{_METADATA}files/", BlockType.COMMAND),
    }


def _newest(files: Members, folder: str) -> bytes:
    """The HFile of the last compaction; of several shards, the largest."""
    hfiles = [name for name in files if name.startswith(folder) and name.endswith(".hfile")]
    return files[max(hfiles, key=lambda name: (name.rpartition("_")[2], len(files[name])))]


def _log(files: Members, folder: str, kind: BlockType) -> bytes:
    """The newest log file with a block of a kind, and none of a command unless that is the kind."""
    for name, data in sorted(files.items(), key=lambda file: file[0].partition(".log.")[2], reverse=True):
        if name.startswith(folder) and ".log." in name:
            kinds = {block.type for block in read_log_blocks(data, name)}
            if kind in kinds and BlockType.COMMAND not in kinds - {kind}:
                return data
    raise LookupError(f"no log file with a block of {kind} in {folder}: {sorted(files)}")


def main() -> None:
    """All of them, of both releases."""
    tables = {f"{release}__{name}": (release, write) for release in VERSIONS for name in _TABLES}
    for table, members in make_tables(tables, ()).items():
        writer = table.partition("__")[0].replace(".", "").ljust(4, "0")
        for name, data in members.items():
            kind, _, ending = name.partition(".")
            write_gzip(GOLDEN / f"metadata_files/{kind}_{writer}.{ending}.gz", data)


if __name__ == "__main__":
    main()
