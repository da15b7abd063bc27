"""Rewriting any statement neither fails nor changes anything but the names of tables."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import Table
from hudi_catalog.gateway.options import GatewayOptions
from hudi_catalog.gateway.rewrite import Rewriter
from hudi_catalog.gateway.statement import Reason, SessionNames
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.trino_sync import sync_to_trino
from hudi_catalog.metastore.trino_tables import TrinoTables
from tests.property.profile import examples
from tests.support.local_writes import LocalTable

_TEXTS = """
select SELECT * from FROM where trips t TRIPS db.trips "trips" "db".trips hive.db.trips other as AS with WITH
(select ( ) , . = <> < >= and or not in (1,2) between like 'a%' escape is null exists join left full on using union
all except group by order limit 5 having count(*) count max(k) day k x t.k trips.k 'd1' 'd2' '' 1 2.5 1e0 -1 ? date
'2024-01-01' timestamp current_date interval '1' day + - * || case when then end cast(k varchar) -- /* */ ; " ' ` $
"$path" explain analyze insert into create table view execute immediate prepare values unnest lateral tablesample
for version 0xFF 1_000 U&'x' X'00' é [ ] { } -> => := recursive over (partition lambda row array[1] table ( 1 as
"""
WORDS = (*filter(None, re.split(r"\s+", _TEXTS)), "\n", "\r", "\0", "\u00a0", "\U0001f600")
SESSION = SessionNames("hive", "db")
PLACED = re.compile(
    r"""(?:\(SELECT \* FROM "hive"\."db__snapshots"\."trips__\w+" WHERE """
    r"""(?:"\$path" IN \((?:'file:[^']*'(?:, )?)*\)|false)\)|"hive"\."db__snapshots"\."trips__\w+")(?: AS )?"""
)
NAME = r'(?:[\w".]|\s|/\*.*?\*/|--[^\r\n]*)*?'


@pytest.fixture(scope="module")
def rewriter(tmp_path_factory: pytest.TempPathFactory) -> Rewriter:
    folder: Path = tmp_path_factory.mktemp("any")
    rows = pa.table({"k": range(8), "day": [f"d{key % 4}" for key in range(8)], "x": [key / 2 for key in range(8)]})
    options = {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.bucket.index.num.buckets": "1",
    }
    written = LocalTable.create(str(folder / "trips"), rows.schema, options)
    written.write("insert", rows)
    metastore = FileMetastore(str(folder / "metastore"))
    sync_to_trino(Table.open(written.client.storage.uri), metastore, SyncOptions(database="db"))
    return Rewriter(TrinoTables(metastore), GatewayOptions(kept_at_most=1.0))


def check(rewriter: Rewriter, sql: str, parameters: list[str] | None = None) -> None:
    statement = rewriter.rewrite(sql, SESSION, parameters=parameters)
    assert statement.reason is not Reason.FAILED, statement.detail
    if not statement.changed:
        assert statement.sql is sql
        return
    if "immediate" in sql.lower():
        return
    # what was put in goes out again; of a name, its last part stays where it had no alias
    pattern = NAME.join(map(re.escape, PLACED.split(statement.sql)))
    assert re.fullmatch(pattern, sql, re.DOTALL), statement.sql


@given(st.lists(st.sampled_from(WORDS), max_size=25), st.sampled_from([" ", "\n", " /* x */ "]), st.booleans())
@examples(150)
def test_any_words(rewriter: Rewriter, words: list[str], space: str, known: bool) -> None:
    check(rewriter, space.join(words), ["1"] * words.count("?") if known else None)


@given(st.lists(st.sampled_from(WORDS), max_size=6), st.lists(st.sampled_from(WORDS), max_size=12))
@examples(150)
def test_words_around_a_query(rewriter: Rewriter, names: list[str], conditions: list[str]) -> None:
    check(rewriter, f"select {' '.join(names)} from trips where day = 'd1' and {' '.join(conditions)}")
    check(rewriter, f"select * from {' '.join(names)} trips where day = 'd1' {' '.join(conditions)}")


@given(st.text(max_size=60))
@examples(100)
def test_any_text(rewriter: Rewriter, text: str) -> None:
    check(rewriter, text)
    check(rewriter, f"select * from trips where day = 'd1' and '{text}' <> day")
