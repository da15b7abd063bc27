"""The sync that a writer runs: options of the job, the metastore they name, the effect of failures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hudi_catalog.cli.main import app
from hudi_catalog.metastore import after_commit
from hudi_catalog.metastore.after_commit import WRITER_KEYS, WriterSyncOptions, prepare
from hudi_catalog.metastore.file_metastore import FileMetastore
from table_format.errors import AfterCommitError, MetastoreError, OptionError
from tests.support.local_writes import LocalTable
from tests.unit.hudi_catalog.metastore.conftest import rows

PREFIX = "hoodie.datasource.hive_sync."


def job(metastore: FileMetastore | str, **options: str) -> dict[str, str]:
    uri = metastore if isinstance(metastore, str) else metastore.uri
    keys = {"enable": "true", "mode": "hms", "metastore.uris": uri, **options}
    return {PREFIX + key.replace("__", "."): value for key, value in keys.items()}


def test_each_commit_reaches_the_metastore(written: LocalTable, metastore: FileMetastore) -> None:
    for first, database in ((100, "shop"), (200, "shop"), (300, "other")):
        summary = written.write("insert", rows(first, 5), job(metastore, database=database, table="Sold"))
        entry = metastore.table(database, "sold")
        assert entry is not None
        assert entry.parameters["last_commit_time_sync"] == summary.instant
    assert metastore.schemas() == ["other", "shop"]


def test_a_table_inside_its_databases_folder_is_warned_of(
    written: LocalTable, metastore: FileMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = [f"file:{Path(written.client.storage.base).parent}"]
    monkeypatch.setattr(FileMetastore, "schema_folders", lambda _store, name: inside if name == "db" else [])
    with pytest.warns(UserWarning, match="DROP DATABASE db deletes the table's files"):
        written.write("insert", rows(100, 5), job(metastore))
    result = CliRunner().invoke(
        app, ["sync", "--target", "hive", "--metastore", metastore.uri, written.client.storage.uri]
    )
    assert result.exit_code == 0
    assert "hudi-catalog: warning: file:///" in result.stderr
    assert "DROP DATABASE db deletes" in result.stderr
    assert result.stdout.startswith("db.trips at 2")


def test_a_new_column_is_registered(written: LocalTable, metastore: FileMetastore) -> None:
    written.write("insert", rows(100, 5), job(metastore))
    more = rows(100, 5).append_column("note", [["x"] * 5])
    written.write("upsert", more, job(metastore))
    entry = metastore.table("db", "trips")
    assert entry is not None
    assert [column.name for column in entry.columns][-1] == "note"


def test_what_jobs_leave_in_does_not_matter(written: LocalTable, metastore: FileMetastore) -> None:
    left = {"username": "hive", "password": "secret", "jdbcurl": "jdbc:hive2://h:10000", "use_jdbc": "true"}
    left |= {"batch_num": "100", "recreate_table_on_error": "false", "filter_pushdown_enabled": "true"}
    fixed = {"create_managed_table": "false", "base_file_format": "PARQUET", "bucket_sync": "false"}
    written.write("insert", rows(100, 5), job(metastore, **left, **fixed, mode="HMS"))
    assert metastore.table("db", "trips") is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "jdbc"}, "mode: 'jdbc' is not supported; leave it out or give hms"),
        ({"mode": "hiveql"}, "mode: 'hiveql' is not supported"),
        ({"mode": "glue"}, "mode: 'glue' is not supported"),
        ({"ignore_exceptions": "yes"}, "ignore_exceptions='yes': give true or false"),
        ({"create_managed_table": "true"}, "create_managed_table: 'true' is not supported"),
        ({"base_file_format": "ORC"}, "base_file_format: 'ORC' is not supported; leave it out or give parquet"),
        ({"databse": "x"}, r"hive_sync\.databse: no such option of the sync \(did you mean \S*hive_sync\.database"),
    ],
)
def test_options_that_cannot_be_followed_stop_the_write(
    written: LocalTable, metastore: FileMetastore, options: dict[str, str], message: str
) -> None:
    before = [instant.time for instant in written.client.timeline().writes]
    with pytest.raises(OptionError, match=message):
        written.write("insert", rows(100, 5), job(metastore, **options))
    assert [instant.time for instant in written.client.timeline().writes] == before
    assert metastore.schemas() == []


def test_our_own_keys_are_checked_too(written: LocalTable, metastore: FileMetastore) -> None:
    with pytest.raises(OptionError, match=r"hoodie\.catalog\.sync\.formt: no such option"):
        written.write("insert", rows(100, 5), job(metastore) | {"hoodie.catalog.sync.formt": "apache"})
    with pytest.raises(OptionError, match=r"column\.statistics: .* keeps no statistics"):
        written.write("insert", rows(100, 5), job(metastore) | {"hoodie.catalog.sync.column.statistics": "true"})
    assert metastore.schemas() == []


@pytest.mark.parametrize("key", ["jdbcurl", "use_jdbc"])
def test_a_job_for_another_mode_by_default_is_not_taken_for_one_of_ours(
    written: LocalTable, metastore: FileMetastore, key: str
) -> None:
    options = job(metastore, **{key: "true" if key == "use_jdbc" else "jdbc:hive2://h:10000"})
    del options[f"{PREFIX}mode"]
    with pytest.raises(OptionError, match=rf"hive_sync\.{key}: the sync speaks to the metastore itself; give .*=hms"):
        written.write("insert", rows(100, 5), options)
    options[f"{PREFIX}{key}"] = "false"
    written.write("insert", rows(100, 5), options)


@pytest.fixture
def opened_stores(monkeypatch: pytest.MonkeyPatch, metastore: FileMetastore) -> list[Any]:
    asked: list[Any] = []

    def open_metastore(uri: str, options: Mapping[str, str]) -> FileMetastore:
        asked.append((uri, options))
        return metastore

    monkeypatch.setattr(after_commit, "open_metastore", open_metastore)
    return asked


@pytest.mark.parametrize(
    ("option", "hadoop", "expected"),
    [
        ("thrift://a:1", "thrift://b:2", "thrift://a:1"),
        (None, "thrift://b:2,thrift://c:3", "thrift://b:2,thrift://c:3"),
        (None, None, "thrift://localhost:9083"),
    ],
)
def test_which_metastore(
    written: LocalTable, opened_stores: list[Any], option: str | None, hadoop: str | None, expected: str
) -> None:
    options = {} if option is None else {f"{PREFIX}metastore.uris": option}
    settings = {"hive.metastore.uris": hadoop}
    prepare(written.client, options, settings.get)("0")
    assert opened_stores == [(expected, {})]


SASL = {"hive.metastore.sasl.enabled": "true"}


@pytest.mark.parametrize(
    ("hadoop", "sync_options", "expected"),
    [
        (SASL, {}, {"auth": "KERBEROS"}),
        (
            SASL | {"hive.metastore.kerberos.principal": "meta/_HOST@EXAMPLE.ORG"},
            {},
            {"auth": "KERBEROS", "kerberos.service.name": "meta"},
        ),
        (
            SASL | {"hive.metastore.kerberos.principal": "meta/hms.example.org@EXAMPLE.ORG"},
            {},
            {"auth": "KERBEROS", "kerberos.service.name": "meta", "kerberos.host": "hms.example.org"},
        ),
        ({"hive.metastore.use.SSL": "true", "hive.metastore.sasl.enabled": "false"}, {}, {"tls": "true"}),
        (SASL, {"auth": "LDAP", "username": "u"}, {"auth": "LDAP", "username": "u"}),
    ],
)
def test_how_it_is_connected_to(
    written: LocalTable,
    opened_stores: list[Any],
    hadoop: dict[str, str],
    sync_options: dict[str, str],
    expected: dict[str, str],
) -> None:
    """By the session's Hadoop configuration, unless the job says anything itself."""
    prefix = "hoodie.catalog.metastore."
    prepare(written.client, {prefix + key: value for key, value in sync_options.items()}, hadoop.get)
    assert opened_stores == [("thrift://localhost:9083", {prefix + key: value for key, value in expected.items()})]


def test_it_tells_what_it_did(written: LocalTable, metastore: FileMetastore) -> None:
    follow = prepare(written.client, job(metastore), lambda _: None)
    assert follow("0").startswith(f"db.trips in {metastore.uri}: ")
    assert follow("0") == f"db.trips in {metastore.uri}: up to date"


def test_a_metastore_that_is_away_fails_after_the_commit(written: LocalTable) -> None:
    options = job("thrift://127.0.0.1:9")
    with pytest.raises(AfterCommitError, match="no Hive Metastore can be reached") as raised:
        written.write("insert", rows(100, 5), options)
    assert isinstance(raised.value.__cause__, MetastoreError)
    assert written.client.timeline().writes[-1].time == raised.value.instant


def test_failures_can_be_warnings(written: LocalTable) -> None:
    options = job("thrift://127.0.0.1:9", ignore_exceptions="true")
    with pytest.warns(UserWarning, match="is complete, but its sync to thrift://127.0.0.1:9 failed: no Hive Metastore"):
        summary = written.write("insert", rows(100, 5), options)
    assert written.client.timeline().writes[-1].time == summary.instant


def test_a_later_sync_makes_up_for_a_failed_one(written: LocalTable, metastore: FileMetastore) -> None:
    with pytest.raises(AfterCommitError):
        written.write("insert", rows(100, 5), job("thrift://127.0.0.1:9"))
    summary = written.write("insert", rows(200, 5), job(metastore))
    entry = metastore.table("db", "trips")
    assert entry is not None
    assert entry.parameters["last_commit_time_sync"] == summary.instant


def test_options_by_their_keys() -> None:
    assert WriterSyncOptions.parse(None) == WriterSyncOptions.parse({WRITER_KEYS[0]: " "}) == WriterSyncOptions()
    with pytest.raises(OptionError, match="no such option of the sync after a commit"):
        WriterSyncOptions.parse({"hoodie.datasource.hive_sync.table": "t"})


def test_the_place_is_the_tables(tmp_path: Path, metastore: FileMetastore, written: LocalTable) -> None:
    prepare(written.client, job(metastore), lambda _: None)("0")
    entry = metastore.table("db", "trips")
    assert entry is not None
    assert entry.location == f"file://{tmp_path}/warehouse/db/trips"
