"""Finding Java, with programs that only print a version."""

from pathlib import Path

import pytest

from hudi_catalog.local_metastore import server
from hudi_catalog.local_metastore.server import find_java, java_version
from table_format.errors import ServiceError


def fake(folder: Path, output: str, code: int = 0) -> Path:
    program = folder / "bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{output}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def _nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for version in (8, 17, 21):
        monkeypatch.delenv(f"HUDI_CATALOG_JDK{version}", raising=False)
        monkeypatch.delenv(f"JAVA{version}_HOME", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path/bin"))
    monkeypatch.setattr(server, "_FOLDERS", str(tmp_path / "jvm"))


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("what?", None),
    ],
)
def test_versions(tmp_path: Path, output: str, version: int | None) -> None:
    assert java_version(fake(tmp_path, output)) == version


def test_a_java_that_does_not_run_is_none(tmp_path: Path) -> None:
    assert java_version(fake(tmp_path, 'version "17"', code=1)) is None
    assert java_version(tmp_path / "no such file") is None


def test_the_environment_counts_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = fake(tmp_path / "named", 'openjdk version "17.0.1"')
    home = fake(tmp_path / "home", 'openjdk version "17.0.2"')
    usual = fake(tmp_path / "jvm/java-17", 'openjdk version "17.0.3"')
    on_path = fake(tmp_path / "path", 'openjdk version "17.0.4"')
    monkeypatch.setenv("HUDI_CATALOG_JDK17", str(tmp_path / "named"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    for expected in (named, home, usual, on_path):
        assert find_java((17,)) == expected
        expected.unlink()


def test_a_java_of_another_version_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path / "home", 'java version "1.8.0_402"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(ServiceError, match=r"no Java 17 or 21: install it, or set HUDI_CATALOG_JDK17 .*JAVA_HOME"):
        find_java((17, 21))
    good = fake(tmp_path / "path", 'openjdk version "21.0.1"')
    assert find_java((17, 21)) == good
