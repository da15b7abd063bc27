"""Tables that Apache Hudi writes many times with early archiving, and what they hold after each write."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from catalog import Table
from tests.engines.apache_tables import MERGE_ON_READ, NATIVE_VERSION
from tests.support.apache_hudi_client import ApacheHudi

Row = dict[str, Any]
Step = tuple[Any, ...]

SHORT = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.commits.archival.batch": "3",
    "hoodie.metadata.compact.max.delta.commits": "1",
}
BEYOND = {"hoodie.archive.beyond.savepoint": "true", "hoodie.parquet.small.file.limit": "0"}
CLUSTERED = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "3",
    "hoodie.clustering.plan.strategy.small.file.limit": "100000000",
}
RARELY_CLEANED = {"hoodie.clean.max.commits": "3", "hoodie.clean.trigger.max.commits": "3"}
COMPACTED = {**MERGE_ON_READ, "hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}
BY_ID = {"hoodie.schema.on.read.enable": "true"}
#: The smallest files and the fewest jobs.
_COMMON = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.index.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "60",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.rollback.using.markers": "false",
    "hoodie.write.auto.upgrade": "false",
}
_ALTERING = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
}

_IN, _UP, _DEL = ("insert", 6), ("upsert", 5), ("delete", 2)
#: By name: the releases that make the table well, options of its writes, and its life.
LIVES: dict[str, tuple[tuple[str, ...], dict[str, str], list[Step]]] = {
    # cleans stay longer than the replacecommits of the clusterings whose input they deleted
    "clustered": (
        ("0.15.0", "1.0.2", "1.2.0"),
        {**SHORT, **CLUSTERED, **RARELY_CLEANED},
        [_IN, _UP, _UP, _DEL, _IN, _UP, _UP, _DEL, _IN, _UP, _UP, _DEL, _UP, _UP],
    ),
    # a savepoint keeps commits, while the cleans of their files are archived
    "saved": (
        ("0.15.0", "1.2.0"),
        SHORT,
        [_IN, _UP, ("savepoint",), _UP, _DEL, ("overwrite", "p0"), _UP, _IN, _UP, _UP, _DEL, _UP, _UP, _UP],
    ),
    # a savepoint keeps files, while the replacecommits that replaced them are archived; what is written after it stays
    # untouched, for Apache's writers would go on from the state before
    "beyond": (
        ("0.15.0",),
        {**SHORT, **BEYOND},
        [
            *(_IN, _IN, ("savepoint",), ("upsert", 3, "p2"), ("overwrite", "p0"), ("drop", "p1")),
            *[_IN, ("upsert_newest", 3)] * 5,
        ],
    ),
    "renamed": (
        ("1.0.2",),
        {**BY_ID, **COMPACTED},
        [
            *(("insert", 9), _UP, ("rename", "s", "label"), _UP, ("add", "note"), _UP, ("rename", "n", "number")),
            *(_UP, ("remove", "note"), _UP),
        ],
    ),
}


class Life:
    """A table, and a dictionary of the rows that were written to it.

    Attributes:
        states: for each completed write's instant the rows by id, as the table has held them then;
            `_hoodie_commit_time` is the instant that gave a row its values.
        files: of the same instants but those that a table service followed, the files that held these rows.
    """

    def __init__(self, apache: ApacheHudi, path: Path, options: dict[str, str], seed: str = "") -> None:
        self.apache = apache
        self.path = path
        self.options = {**_COMMON, "hoodie.table.name": path.name, **options}
        if apache.version == "0.15.0":
            del self.options["hoodie.write.auto.upgrade"]
        else:
            self.options["hoodie.write.table.version"] = str(NATIVE_VERSION[apache.version])
        self.states: dict[str, dict[str, Row]] = {}
        self.files: dict[str, list[str]] = {}
        self._chance = random.Random(seed)
        self._columns = {"s": pa.string(), "n": pa.int64()}
        self._rows: dict[str, Row] = {}
        self._written: list[str] = []
        self._count = self._step = 0
        self._saved = ""

    def live(self, steps: Sequence[Step]) -> None:
        """Carry out steps: a name of a method below, without its underscore, and its arguments."""
        for name, *arguments in steps:
            self._step += 1
            self._written = []
            before = self._instants()
            self._rows = {key: dict(row) for key, row in self._rows.items()}
            getattr(self, f"_{name}")(*arguments)
            added = [time for time in self._instants() if time not in before]
            for key in self._written:
                self._rows[key]["_hoodie_commit_time"] = added[0]
            self.states.update(dict.fromkeys(added, self._rows))
            self.files.update({time: _files(self.path) for time in added[-1:]})

    def facts(self) -> dict[str, Any]:
        """All that there is to know, for JSON."""
        return {"release": self.apache.version, "states": self.states, "files": self.files}

    def _instants(self) -> list[str]:
        if not (self.path / ".hoodie").exists():
            return []
        return [write.time for write in Table.open(str(self.path)).client.timeline().writes]

    def _row(self, number: int) -> Row:
        values = {
            name: f"{name} {number} of {self._step}" if kind == pa.string() else self._step * 1_000 + number
            for name, kind in self._columns.items()
        }
        return {"id": f"k{number:03}", "part": f"p{number % 3}", "ts": self._step, **values}

    def _fresh(self, count: int) -> list[Row]:
        self._count += count
        return [self._row(number) for number in range(self._count - count, self._count)]

    def _some(self, count: int, part: str | None = None) -> list[Row]:
        keys = sorted(key for key, row in self._rows.items() if part in (None, row["part"]))
        return [self._row(int(key[1:])) for key in self._chance.sample(keys, min(count, len(keys)))]

    def _write(self, operation: str, rows: list[Row], **options: str) -> None:
        fixed = {"id": pa.string(), "part": pa.string(), "ts": pa.int64()}
        table = pa.Table.from_pylist(rows, pa.schema(list({**fixed, **self._columns}.items())))
        mode = "append" if (self.path / ".hoodie").exists() else "overwrite"
        chosen = {**self.options, "hoodie.datasource.write.operation": operation, **options}
        self.apache.write(self.path, table, chosen, mode)

    def _put(self, rows: list[Row]) -> None:
        self._rows |= {row["id"]: row for row in rows}
        self._written = [row["id"] for row in rows]

    def _insert(self, count: int) -> None:
        rows = self._fresh(count)
        self._write("insert", rows)
        self._put(rows)

    def _upsert(self, count: int, part: str | None = None) -> None:
        rows = self._some(count, part)
        self._write("upsert", rows)
        self._put(rows)

    def _upsert_newest(self, count: int) -> None:
        rows = [self._row(number) for number in range(self._count - count, self._count)]
        self._write("upsert", rows)
        self._put(rows)

    def _delete(self, count: int) -> None:
        rows = self._some(count)
        self._write("delete", rows)
        for row in rows:
            del self._rows[row["id"]]

    def _overwrite(self, part: str) -> None:
        rows = [row for row in self._fresh(6) if row["part"] == part]
        self._write("insert_overwrite", rows)
        self._leave(part)
        self._put(rows)

    def _drop(self, part: str) -> None:
        options = {"hoodie.datasource.write.partitions.to.delete": part}
        self._write("delete_partition", self._some(1), **options)
        self._leave(part)

    def _leave(self, part: str) -> None:
        self._rows = {key: row for key, row in self._rows.items() if row["part"] != part}

    def _savepoint(self) -> None:
        self._saved = self._instants()[-1]
        self._sql(f"CALL create_savepoint(table => 'it', commit_time => '{self._saved}')")

    def _unsavepoint(self) -> None:
        self._sql(f"CALL delete_savepoint(table => 'it', instant_time => '{self._saved}')")

    def _restore(self) -> None:
        self._sql(f"CALL rollback_to_savepoint(table => 'it', instant_time => '{self._saved}')")
        self.states = {time: rows for time, rows in self.states.items() if time <= self._saved}
        self._rows = self.states[self._saved]

    def _rename(self, name: str, new: str) -> None:
        self._sql(f"ALTER TABLE it RENAME COLUMN {name} TO {new}")
        self._columns[new] = self._columns.pop(name)
        for row in self._rows.values():
            row[new] = row.pop(name)

    def _add(self, name: str) -> None:
        self._sql(f"ALTER TABLE it ADD COLUMNS ({name} string)")
        self._columns[name] = pa.string()
        for row in self._rows.values():
            row[name] = None

    def _remove(self, name: str) -> None:
        self._sql(f"ALTER TABLE it DROP COLUMN {name}")
        del self._columns[name]
        for row in self._rows.values():
            del row[name]

    def _sql(self, text: str) -> None:
        known = ("hoodie.keep", "hoodie.clean", "hoodie.archive", "hoodie.write", "hoodie.metadata")
        settings = _ALTERING | {key: value for key, value in self.options.items() if key.startswith(known)}
        prepare = [f"SET {key}={value}" for key, value in settings.items()]
        make = ["DROP TABLE IF EXISTS it", f"CREATE TABLE it USING hudi LOCATION '{self.path}'"]
        try:
            for statement in [*prepare, *make, text]:
                self.apache.sql(statement)
        finally:
            for statement in ["DROP TABLE IF EXISTS it", *(f"RESET {key}" for key in settings)]:
                self.apache.sql(statement)


def _files(path: Path) -> list[str]:
    """The files that the newest state is made of."""
    paths = []
    for row in Table.open(str(path)).snapshot().files.to_pylist():
        logs = [f"{row['partition']}/{log['file_name']}" for log in row["logs"]]
        paths += [*([row["path"]] if row["path"] else []), *logs]
    return sorted(paths)


def make(apache: ApacheHudi, name: str, path: Path, options: Mapping[str, str] | None = None) -> Life:
    """Let a table of `LIVES` live, with further options."""
    _, own, steps = LIVES[name]
    life = Life(apache, path, {**own, **(options or {})}, name)
    life.live(steps)
    return life


def differences(table: pa.Table, rows: dict[str, Row]) -> str:
    """How a scan's rows differ from those of a state; "" if they do not."""
    wanted = sorted(json.dumps(row, sort_keys=True) for row in rows.values())
    names = [name for name in table.column_names if not name.startswith("_hoodie") or name == "_hoodie_commit_time"]
    scanned = sorted(json.dumps(row, sort_keys=True) for row in table.select(names).to_pylist())
    if scanned == wanted:
        return ""
    extra, lost = set(scanned) - set(wanted), set(wanted) - set(scanned)
    return f"{len(scanned)} rows for {len(wanted)}; too many: {sorted(extra)[:2]}; lost: {sorted(lost)[:2]}"
