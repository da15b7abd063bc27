"""Statements by which real Hive would delete the files of a Hudi table.

Some are refused by the storage handler, in HiveServer2; the others by the guard in the metastore, which the session's
metastore has. What each of them says tells which it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.hive_engine import Engine, HiveError
from tests.engines.hive_handler_tables import NAMES

pytestmark = pytest.mark.engine

STORED = "STORED BY 'hudicatalog.hive.HudiStorageHandler'"


class Lake:
    """A database whose folder has the Hudi table `inside`, and another Hudi table beside it."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.database = f"{engine.own}_lake{next(NAMES)}"
        self.inside, self.beside = hudi_table(folder / "lake/inside"), hudi_table(folder / "beside")
        engine.run(f"CREATE DATABASE {self.database} LOCATION 'file://{folder}/lake'")
        self.table = f"{self.database}.inside"
        self.register()

    def register(self) -> None:
        self.engine.run(f"CREATE EXTERNAL TABLE {self.table} (id bigint) {STORED} LOCATION 'file://{self.inside}'")

    def refuses(self, sql: str, reason: str) -> None:
        with pytest.raises(HiveError, match=reason):
            self.engine.run(sql)
        assert self.is_whole()

    def is_whole(self) -> bool:
        return all((table / "part/a.parquet").exists() for table in (self.inside, self.beside))


def hudi_table(folder: Path) -> Path:
    (folder / ".hoodie").mkdir(parents=True)
    (folder / ".hoodie/hoodie.properties").write_text("hoodie.table.name=t\n")
    (folder / "part").mkdir()
    (folder / "part/a.parquet").write_bytes(b"rows")
    return folder


@pytest.fixture
def lake(hive: Engine, tmp_path: Path) -> Iterator[Lake]:
    made = Lake(hive, tmp_path)
    yield made
    hive.run(f"ALTER DATABASE {made.database} SET LOCATION 'file://{tmp_path}/empty'")
    hive.run(f"DROP DATABASE {made.database} CASCADE")
    assert made.is_whole()


def test_no_table_of_hives_own_is_made_like_a_hudi_table_over_another(lake: Lake, tmp_path: Path) -> None:
    like = f"CREATE TABLE {lake.database}.copied LIKE {lake.table}"
    reason = rf"LIKE {lake.table} LOCATION .* would delete the files of the Hudi table at file:{lake.beside}: write"
    for place in (f"{lake.beside}", f"{lake.beside}/part", f"{lake.beside}/"):
        lake.refuses(f"{like} LOCATION 'file://{place}'", reason)
    lake.refuses(f"{like} STORED AS PARQUET LOCATION '{lake.beside.as_uri()}'", reason)
    lake.refuses(f"{like} LOCATION 'file://{tmp_path}'", rf"LIKE {lake.table} .* would delete the files")
    lake.refuses(f"{like} {STORED} LOCATION 'file://{lake.beside}'", "would belong to Hive")
    external = like.replace("CREATE TABLE", "CREATE EXTERNAL TABLE")
    for sql in (
        f"{external} {STORED} LOCATION 'file://{lake.beside}'",
        f"{like} STORED AS PARQUET",
        f"{like} STORED AS PARQUET LOCATION 'file://{tmp_path}/new'",
    ):
        lake.engine.run(sql)
        lake.engine.run(f"DROP TABLE {lake.database}.copied")
        assert lake.is_whole()
    assert not (tmp_path / "new").exists(), "Hive's own tables are Hive's"


def test_a_database_does_not_take_hudi_tables_in_its_folder_with_it(lake: Lake) -> None:
    cascade = f"DROP DATABASE {lake.database} CASCADE"
    lake.refuses(cascade, rf"Hudi table {lake.table} lies at file:/.*/lake/inside, inside the folder .*SET LOCATION")
    lake.engine.run(f"DROP TABLE {lake.table}")
    assert lake.is_whole()
    for sql in (cascade, f"DROP DATABASE {lake.database}"):
        lake.refuses(sql, rf"DROP DATABASE {lake.database} would delete files of the Hudi table at file:{lake.inside}")
    lake.register()


def test_tables_of_hives_own_do_not_take_hudi_tables_with_them(lake: Lake, tmp_path: Path) -> None:
    name, place = f"{lake.database}.native", f"STORED AS PARQUET LOCATION 'file://{lake.beside}'"
    hit = rf"would delete files of the Hudi table at file:{lake.beside}"
    lake.refuses(f"CREATE TABLE {name} (id bigint) {place}", hit)
    lake.refuses(f"CREATE TABLE {name} (id bigint) STORED AS PARQUET LOCATION 'file://{tmp_path}'", hit)
    purge = "'external.table.purge'='true'"
    lake.refuses(f"CREATE EXTERNAL TABLE {name} (id bigint) {place} TBLPROPERTIES ({purge})", hit)
    lake.engine.run(f"CREATE EXTERNAL TABLE {name} (id bigint) {place}")
    lake.refuses(f"ALTER TABLE {name} SET TBLPROPERTIES ({purge})", hit)
    lake.engine.run(f"DROP TABLE {name}")
    lake.engine.run(f"CREATE TABLE {name} (id bigint) PARTITIONED BY (k int) STORED AS PARQUET")
    lake.refuses(f"ALTER TABLE {name} ADD PARTITION (k=1) LOCATION 'file://{lake.beside}'", hit)
    lake.engine.run(f"ALTER TABLE {name} ADD PARTITION (k=2)")
    lake.refuses(f"ALTER TABLE {name} SET LOCATION 'file://{lake.beside}'", hit)
    # a Hudi table that somebody wrote into the folder of a table of Hive's
    [folder] = [row[1] for row in lake.engine.query(f"DESCRIBE FORMATTED {name}") if str(row[0]).startswith("Location")]
    later = hudi_table(Path(str(folder).strip().removeprefix("file:")) / "later")
    with pytest.raises(HiveError, match=rf"DROP TABLE {name} would delete files of the Hudi table at file:{later}"):
        lake.engine.run(f"DROP TABLE {name}")
    assert (later / "part/a.parquet").exists()
    lake.engine.run(f"ALTER TABLE {name} SET TBLPROPERTIES ('EXTERNAL'='TRUE', 'external.table.purge'='FALSE')")
    lake.engine.run(f"DROP TABLE {name}")
    assert (later / "part/a.parquet").exists()
