"""Savepoints, restores and rollbacks: Apache Hudi goes on after ours."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Table
from hudi_catalog.table import create_table, open_table
from table_format.table.client import TableClient
from table_writer.record_index.verify import verify_index
from tests.engines.apache_tables import bucket_index, record_index
from tests.support.apache_hudi_client import ALL_VERSIONS, VERSIONS, ApacheError, ApacheHudi

pytestmark = [pytest.mark.engine, pytest.mark.spark]
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
JOB = {
    "hoodie.table.name": "it",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.clean.automatic": "false",
    # compactions of the metadata table reach beyond what is restored
    "hoodie.metadata.compact.max.delta.commits": "2",
}
KINDS = {"bucket": bucket_index(2), "record_index": record_index(2)}
#: what procedures need to load a table whose properties name the bucket index, and to leave it at its version
SETTINGS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.write.table.version": "6",
    "hoodie.write.auto.upgrade": "false",
}
Rows = dict[str, tuple[str, int]]


class Life:
    """A table, and what it held after each write."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.options = path, KINDS[kind]
        self.is_indexed = kind == "record_index"
        self.states: list[tuple[str, Rows]] = []
        self.number = 0

    def create(self) -> None:
        create_table(
            self.path,
            SCHEMA,
            record_key="id",
            partition_by="p",
            ordering="v",
            name="it",
            buckets=None if self.is_indexed else 2,
            options={**(self.options if self.is_indexed else {}), **self.ours},
        )

    @property
    def ours(self) -> dict[str, str]:
        return {key: JOB[key] for key in ("hoodie.clean.automatic", "hoodie.metadata.compact.max.delta.commits")}

    @property
    def rows(self) -> Rows:
        return self.states[-1][1]

    def batch(self, *, over: bool = False) -> pa.Table:
        """Some records that are there, new ones, and a new partition now and then."""
        self.number += 1
        known = {} if over or not self.states else self.rows
        keys = [f"k{n % 13}" for n in range(self.number, self.number + 6)] + [f"new{self.number}"]
        places = {key: known.get(key, ("abc"[self.number % 3], 0))[0] for key in keys}
        self._state = {**known, **{key: (place, self.number) for key, place in places.items()}}
        columns = [list(places), list(places.values()), [self.number] * len(places)]
        return pa.table(columns, schema=SCHEMA)

    def by_us(self, count: int = 1, *, over: bool = False) -> None:
        for _ in range(count):
            table = open_table(self.path, options={**self.options, **self.ours})
            write = table.insert_overwrite_table if over else table.upsert
            write(self.batch(over=over))
            self._note()

    def by(self, apache: ApacheHudi, count: int = 1) -> None:
        for _ in range(count):
            options = {**JOB, **self.options, "hoodie.datasource.write.operation": "upsert"}
            first = not self.states
            apache.write(self.path, self.batch(), options, "overwrite" if first else "append")
            self._note()

    def _note(self) -> None:
        self.states.append((self.client.timeline().writes[-1].time, self._state))

    @property
    def client(self) -> TableClient:
        return TableClient.open(str(self.path))

    def back_to(self, at: int) -> str:
        """Forget later states; the instant of the one that is left."""
        del self.states[at + 1 :]
        return self.states[-1][0]

    def check(self, apache: ApacheHudi) -> None:
        """We and Apache read the newest state, by the metadata table and without it; the index is right."""
        wanted = sorted((key, *row) for key, row in self.rows.items())
        table = Table.open(str(self.path))
        assert tuples(table.scan(None, ["id", "p", "v"]).to_arrow()) == wanted
        assert tuples(apache.read(self.path)) == wanted
        assert tuples(apache.read(self.path, options={"hoodie.metadata.enable": "false"})) == wanted
        values = sorted({value for _, value in self.rows.values()})
        for filtered in apache.read_each(self.path, [f"v = {value}" for value in values[-3:]]):
            [value] = set(filtered["v"].to_pylist())
            assert tuples(filtered) == [row for row in wanted if row[2] == value]
        client = self.client
        if self.is_indexed and "record_index" in client.config.metadata_partitions:
            assert not any(verify_index(client, {}).counts.values())
        for instant, state in self.states:
            past = tuples(table.scan(None, ["id", "p", "v"], as_of=instant).to_arrow())
            assert past == sorted((key, *row) for key, row in state.items())

    def check_index_of(self, apache: ApacheHudi) -> None:
        """Apache finds the keys where they are, and no others: it takes locations of other instants for lost."""
        gone = [f"new{number}" for number in range(self.number + 1) if f"new{number}" not in self.rows]
        places = apache.record_index(self.path, [*self.rows, *gone])
        assert {key: place[0] for key, place in places.items()} == {key: row[0] for key, row in self.rows.items()}
        writes = {write.time for write in self.client.timeline().writes}
        assert {place[2] for place in places.values()} <= writes


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["p"], row["v"]) for row in table.to_pylist())


@contextlib.contextmanager
def settings(apache: ApacheHudi, life: Life) -> Iterator[None]:
    values = {**SETTINGS, **({} if life.is_indexed else life.options)}
    try:
        for key, value in values.items():
            apache.sql(f"SET {key}={value}")
        yield
    finally:
        for key in values:
            apache.sql(f"RESET {key}")


def wait_for(folder: Path, pattern: str, seconds: float = 60) -> None:
    """Wait until a folder has a file of such a name."""
    end = time.monotonic() + seconds
    while not any(folder.glob(pattern)):
        assert time.monotonic() < end, f"no {pattern} in {folder}"
        time.sleep(0.002)


def call(apache: ApacheHudi, life: Life, procedure: str, **arguments: str) -> list[dict[str, Any]]:
    named = "".join(f", {name} => '{value}'" for name, value in arguments.items())
    with settings(apache, life):
        return apache.sql(f"CALL {procedure}(path => '{life.path}'{named})")


@pytest.fixture(params=ALL_VERSIONS)
def any_release(request: pytest.FixtureRequest, release: Callable[[str], ApacheHudi]) -> ApacheHudi:
    return release(request.param)


@pytest.fixture(params=KINDS)
def life(request: pytest.FixtureRequest, tmp_path: Path) -> Life:
    return Life(tmp_path / "it", request.param)


def test_apache_goes_on_after_our_restore(any_release: ApacheHudi, life: Life) -> None:
    life.create()
    life.by_us(3)
    saved = open_table(life.path).savepoint(user="me", comments="why")
    assert call(any_release, life, "show_savepoints") == [{"savepoint_time": saved.instant}]
    life.by_us(1, over=True)
    life.by_us(3)
    open_table(life.path).restore(life.back_to(2))
    life.check(any_release)
    if life.is_indexed and any_release.version in VERSIONS:
        life.check_index_of(any_release)
    life.by_us()
    open_table(life.path).rollback(life.states[-1][0])
    life.back_to(2)
    life.check(any_release)
    if any_release.version == "1.0.2":
        return  # it reads our tables, and writes them at its own version only
    life.by(any_release, 2)
    life.check(any_release)
    open_table(life.path).rollback(life.states[-1][0])
    life.back_to(3)
    life.check(any_release)
    life.by_us(2)
    life.by(any_release)
    life.check(any_release)
    for row in any_release.validate_files(life.path):
        assert row["is_present_in_fs"], row
        assert row["is_present_in_metadata"], row
    call(any_release, life, "delete_savepoint", instant_time=saved.instant)
    assert open_table(life.path).savepoints() == []


def test_a_restore_of_apaches_that_was_killed_is_finished_by_our_next_write(
    release: Callable[[str], ApacheHudi], tmp_path: Path
) -> None:
    life = Life(tmp_path / "it", "bucket")
    life.create()
    life.by_us(2)
    saved = open_table(life.path).savepoint(user="me", comments="why")
    life.by_us(5)
    killed = ApacheHudi("1.2.0", tmp_path, lasting=False)
    for key, value in {**SETTINGS, **life.options}.items():
        killed.sql(f"SET {key}={value}")
    command = f"CALL rollback_to_savepoint(path => '{life.path}', instant_time => '{saved.instant}')"

    def restore() -> None:
        with contextlib.suppress(ApacheError):
            killed.sql(command)

    restoring = threading.Thread(target=restore)
    restoring.start()
    wait_for(life.path / ".hoodie", "*.rollback.inflight")
    killed.kill()
    restoring.join()
    assert life.client.timeline().pending, "it had not come to its end"
    # it may be any state between; what it deleted is gone
    life.back_to(1)
    open_table(life.path, options={"hoodie.clean.failed.writes.policy": "EAGER"}).upsert(life.batch())
    life._note()
    life.check(release("1.2.0"))
