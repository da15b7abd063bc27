"""What prevents a local metastore from starting, before or after Java is started. The real one is in tests/engines."""

import importlib.util
import socket
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from hudi_catalog.cli.serve_commands import default_folder
from hudi_catalog.local_metastore import server
from hudi_catalog.local_metastore.server import LocalMetastore
from table_format.errors import MissingPackageError, OptionError, ServiceError

# what `java -cp … py4j.GatewayServer` is given here instead of a Java
FAKE = """#!/bin/sh
{script}
cat > /dev/null
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in Java's place; and jars in the place of PySpark's."""
    program = tmp_path / "java"
    program.write_text(FAKE.format(script="echo 'it cannot be' >&2; exit 3"))
    program.chmod(0o755)
    monkeypatch.setattr(server, "find_java", lambda _: program)
    monkeypatch.setattr(server, "pyspark_jars", lambda: tmp_path / "jars")
    return program


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingPackageError, match=r"pip install 'hudi-catalog\[spark\]'"):
        LocalMetastore(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_pysparks_jars_are_found_without_importing_it() -> None:
    folder = server.pyspark_jars()
    assert any(folder.glob("py4j-*.jar"))
    assert any(folder.glob("derby-*.jar"))


def test_a_pyspark_without_hive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Found:
        origin = str(tmp_path / "pyspark/__init__.py")

    monkeypatch.setattr(importlib.util, "find_spec", lambda _: Found)
    with pytest.raises(OptionError, match="has no Hive Metastore"):
        server.pyspark_jars()


@pytest.mark.usefixtures("java")
def test_a_file_in_the_place_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(OptionError, match="kept: no folder for a metastore can be made there: Not a directory"):
        LocalMetastore(tmp_path / "kept")
    assert (tmp_path / "kept").read_text() == "mine"


@pytest.mark.usefixtures("java")
def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=f"port {port} of 127.0.0.1 is in use; choose another one, or 0"):
            LocalMetastore(tmp_path / "kept", port=port)
    assert not (tmp_path / "kept").exists()


def test_a_java_that_ends_at_once(java: Path, tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r"the Hive Metastore did not start: .*metastore\.log"):
        LocalMetastore(tmp_path / "kept")
    assert "it cannot be" in (tmp_path / "kept/metastore.log").read_text()
    java.write_text(FAKE.format(script="echo 1; echo token"))  # a port that nobody answers at
    with pytest.raises(ServiceError, match="the Hive Metastore did not start"):
        LocalMetastore(tmp_path / "kept")
    assert "hive.metastore.warehouse.dir" in (tmp_path / "kept/conf/hive-site.xml").read_text()


@pytest.mark.usefixtures("java")
def test_the_warehouse_is_spelled_as_hadoop_reads_it(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="did not start"):
        LocalMetastore(tmp_path / "my é & %20")
    site = ET.fromstring((tmp_path / "my é & %20/conf/hive-site.xml").read_bytes())
    values = {one.findtext("name"): one.findtext("value") for one in site}
    assert values["hive.metastore.warehouse.dir"] == f"file://{tmp_path}/my é & %20/warehouse"


@pytest.mark.usefixtures("java")
def test_a_folder_in_use(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    with server._locked(kept), pytest.raises(OptionError, match=r"a local metastore runs there already, process \d+"):
        LocalMetastore(kept)
    with pytest.raises(ServiceError, match="did not start"):  # the lock went with its owner
        LocalMetastore(kept)


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("name", ["a:b", "a;b"])
def test_folders_that_derby_cannot_use(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError, match="Derby cannot keep a database in a folder with"):
        LocalMetastore(tmp_path / name)


def test_the_usual_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_folder() == Path("/data/hudi-catalog/metastore")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert default_folder() == Path("/home/ann/.local/share/hudi-catalog/metastore")
