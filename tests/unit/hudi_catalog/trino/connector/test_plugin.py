"""The folder of Trino's plugin: where its libraries come from, and what is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hudi_catalog.cli.main import app
from hudi_catalog.trino.connector import plugin
from table_format.errors import ServiceError

S3 = plugin.Library("io.trino", "trino-filesystem-s3", "1", hashlib.sha256(b"s3").hexdigest())
GUAVA = plugin.Library("com.google.guava", "guava", "33", hashlib.sha256(b"guava").hexdigest(), "jre")
LISTED = {
    version: (plugin.Library("io.trino", "trino-parquet", version, hashlib.sha256(b"parquet").hexdigest()), GUAVA)
    for version in plugin.VERSIONS
}


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    jar = tmp_path / "built" / plugin.JAR
    jar.parent.mkdir()
    jar.write_bytes(b"ours")
    monkeypatch.setattr(plugin, "connector_jar", lambda _version: jar)
    monkeypatch.setattr(plugin, "libraries", lambda version, *, s3: (*LISTED[version], S3) if s3 else LISTED[version])
    monkeypatch.setenv("MAVEN_REPO_LOCAL", str(tmp_path / "m2"))
    monkeypatch.setenv("PATH", str(tmp_path / "no programs"))
    return tmp_path


def installation(home: Path, version: str) -> Path:
    for folder, name, content in (
        ("lib", f"io.trino_trino-spi-{version}.jar", b""),
        ("plugin/hive", f"io.trino_trino-parquet-{version}.jar", b"parquet"),
        ("plugin/hive", "com.goo...guava_guava-33-jre.jar", b"another"),
        ("plugin/iceberg", "com.google.guava_guava-33-jre.jar", b"guava"),
    ):
        (home / folder).mkdir(parents=True, exist_ok=True)
        (home / folder / name).write_bytes(content)
    return home


@pytest.mark.parametrize("version", plugin.VERSIONS)
def test_jars_come_from_an_installation_whatever_it_calls_them(built: Path, version: str) -> None:
    home = installation(built / "trino", version)
    target = built / "plugins/hudi_catalog"
    ran = CliRunner().invoke(app, ["trino-plugin", "--to", str(target), "--trino", str(home)])
    assert ran.exit_code == 0, ran.output
    assert ran.output.startswith(f"{target}: 3 jars, 0.0 MB, for Trino {version}\n")
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        f"trino-parquet-{version}.jar": b"parquet",
        "guava-33-jre.jar": b"guava",
        plugin.JAR: b"ours",
    }
    # once more, in place of what is there
    (target / "older-1.jar").write_bytes(b"")
    assert plugin.lay_out(target, home, version) == len(b"parquetguavaours")
    assert len(list(target.iterdir())) == 3


def test_s3_is_added_by_option(built: Path) -> None:
    home, target = installation(built / "trino", "476"), built / "to"
    with pytest.raises(ServiceError, match=r"there is no trino-filesystem-s3-1\.jar of the expected checksum"):
        plugin.lay_out(target, home, "476", s3=True)
    (home / "plugin/hive/io.trino_trino-filesystem-s3-1.jar").write_bytes(b"s3")
    ran = CliRunner().invoke(app, ["trino-plugin", "--to", str(target), "--trino", str(home), "--s3"])
    assert ran.output.startswith(f"{target}: 4 jars, 0.0 MB, for Trino 476 with S3\n")
    assert (target / "trino-filesystem-s3-1.jar").read_bytes() == b"s3"
    plugin.lay_out(target, home, "476")
    assert not (target / "trino-filesystem-s3-1.jar").exists()


def test_another_trino_and_folders_of_others_are_refused(built: Path) -> None:
    home = built / "trino"
    with pytest.raises(ServiceError, match="no installation of Trino"):
        plugin.lay_out(built / "to", home)
    with pytest.raises(ServiceError, match="is Trino 477, and the connector is built for 476 and 483"):
        plugin.lay_out(built / "to", installation(home, "477"))
    with pytest.raises(ServiceError, match=r"trino-spi or trino-parquet of 476 and 477"):
        plugin.lay_out(built / "to", installation(home, "476"))
    (built / "empty/plugin").mkdir(parents=True)
    with pytest.raises(ServiceError, match=r"trino-spi or trino-parquet of no release"):
        plugin.lay_out(built / "to", built / "empty")
    other = installation(built / "other", "483")
    ran = CliRunner().invoke(
        app, ["trino-plugin", "--to", str(built / "to"), "--trino", str(other), "--version", "476"]
    )
    assert isinstance(ran.exception, ServiceError)
    assert "is Trino 483, and the plugin's folder was to be for Trino 476" in str(ran.exception)
    (other / "plugin/hive/io.trino_trino-parquet-483.jar").write_bytes(b"of a vendor")
    with pytest.raises(ServiceError, match=r"another build of Trino 483.*no trino-parquet-483\.jar"):
        plugin.lay_out(built / "to", other, "483")
    ran = CliRunner().invoke(app, ["trino-plugin", "--to", str(built / "to"), "--version", "480"])
    assert ran.exit_code == 2
    assert "476 and 483, not 480" in ran.output
    (built / "to").mkdir()
    (built / "to/mine.txt").write_text("")
    with pytest.raises(ServiceError, match="no folder of this plugin"):
        plugin.lay_out(built / "to", home)
    assert (built / "to/mine.txt").exists()


@pytest.mark.parametrize("version", plugin.VERSIONS)
def test_jars_of_mavens_repository_and_none(built: Path, version: str) -> None:
    missing = rf"trino-parquet-{version}\.jar and 1 other libraries.*of Trino {version} by --trino.*install Maven"
    with pytest.raises(ServiceError, match=missing):
        plugin.lay_out(built / "to", None, version)
    for library, content in zip(LISTED[version], (b"parquet", b"guava"), strict=True):
        folder = built.joinpath("m2", *library.group.split("."), library.name, library.version)
        folder.mkdir(parents=True)
        (folder / library.file_name).write_bytes(content)
    assert plugin.lay_out(built / "to", None, version) == len(b"parquetguavaours")


def test_a_jar_that_is_not_built_says_how(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r"connector-483\.jar is missing.*make trino-jar.*JDK of version 25"):
        plugin.connector_jar("483", tmp_path)


@pytest.mark.parametrize("version", plugin.VERSIONS)
def test_the_list_of_libraries_is_of_this_version(version: str) -> None:
    libraries = plugin.libraries(version)
    assert len({library.file_name for library in libraries}) == len(libraries) > 20
    with_s3 = plugin.libraries(version, s3=True)
    assert with_s3[: len(libraries)] == libraries
    assert len({(library.group, library.name) for library in with_s3}) == len(with_s3) > len(libraries) + 40
    assert all(library.version == version for library in with_s3 if library.group == "io.trino")
