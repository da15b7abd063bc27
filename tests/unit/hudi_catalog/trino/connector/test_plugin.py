"""The folder of Trino's plugin: where its libraries come from, and what is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hudi_catalog.cli.main import app
from hudi_catalog.trino.connector import plugin
from table_format.errors import ServiceError

LISTED = (
    plugin.Library("io.trino", "trino-parquet", "476", hashlib.sha256(b"parquet").hexdigest()),
    plugin.Library("com.google.guava", "guava", "33", hashlib.sha256(b"guava").hexdigest()),
)


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    jar = tmp_path / "built" / plugin.JAR
    jar.parent.mkdir()
    jar.write_bytes(b"ours")
    monkeypatch.setattr(plugin, "connector_jar", lambda: jar)
    monkeypatch.setattr(plugin, "libraries", lambda: LISTED)
    monkeypatch.setenv("MAVEN_REPO_LOCAL", str(tmp_path / "m2"))
    monkeypatch.setenv("PATH", str(tmp_path / "no programs"))
    return tmp_path


def test_jars_come_from_an_installation_whatever_it_calls_them(built: Path) -> None:
    home = built / "trino"
    for folder, name, content in (
        ("hive", "io.trino_trino-parquet-476.jar", b"parquet"),
        ("hive", "com.goo...guava_guava-33.jar", b"another"),
        ("iceberg", "com.google.guava_guava-33.jar", b"guava"),
    ):
        (home / "plugin" / folder).mkdir(parents=True, exist_ok=True)
        (home / "plugin" / folder / name).write_bytes(content)
    target = built / "plugins/hudi_catalog"
    ran = CliRunner().invoke(app, ["trino-plugin", "--to", str(target), "--trino", str(home)])
    assert ran.exit_code == 0, ran.output
    assert ran.output.startswith(f"{target}: 3 jars, 0.0 MB, for Trino 476\n")
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        "trino-parquet-476.jar": b"parquet",
        "guava-33.jar": b"guava",
        plugin.JAR: b"ours",
    }
    # once more, in place of what is there
    (target / "older-1.jar").write_bytes(b"")
    assert plugin.lay_out(target, home) == len(b"parquetguavaours")
    assert len(list(target.iterdir())) == 3


def test_another_trino_and_folders_of_others_are_refused(built: Path) -> None:
    home = built / "trino"
    with pytest.raises(ServiceError, match="no installation of Trino"):
        plugin.lay_out(built / "to", home)
    (home / "plugin/hive").mkdir(parents=True)
    (home / "plugin/hive/io.trino_trino-parquet-477.jar").write_bytes(b"")
    with pytest.raises(ServiceError, match=r"another Trino than 476.*it has io\.trino_trino-parquet-477\.jar"):
        plugin.lay_out(built / "to", home)
    (built / "to").mkdir()
    (built / "to/mine.txt").write_text("")
    with pytest.raises(ServiceError, match="no folder of this plugin"):
        plugin.lay_out(built / "to", home)
    assert (built / "to/mine.txt").exists()


def test_jars_of_mavens_repository_and_none(built: Path) -> None:
    with pytest.raises(ServiceError, match=r"trino-parquet-476\.jar and 1 other libraries.*--trino.*install Maven"):
        plugin.lay_out(built / "to")
    for library, content in zip(LISTED, (b"parquet", b"guava"), strict=True):
        folder = built.joinpath("m2", *library.group.split("."), library.name, library.version)
        folder.mkdir(parents=True)
        (folder / library.file_name).write_bytes(content)
    assert plugin.lay_out(built / "to") == len(b"parquetguavaours")


def test_a_jar_that_is_not_built_says_how(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r"make trino-jar.*JDK of version 24"):
        plugin.connector_jar(tmp_path)


def test_the_list_of_libraries_is_of_this_version() -> None:
    found = plugin.libraries()
    assert len({library.file_name for library in found}) == len(found) > 20
    assert all(library.version == plugin.TRINO for library in found if library.group == "io.trino")
