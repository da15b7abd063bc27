"""The jars of Hive's test servers: taken from a repository or from this machine, never unchecked."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tools.engines.artifacts import REPOSITORY, EngineMissingError
from tools.engines.hive import jars

COORDINATES = ("org.apache.hive:hive-exec:4.0.1", "io.netty:netty-native:4.1.0.Final:linux-x86_64")
PATHS = (
    "org/apache/hive/hive-exec/4.0.1/hive-exec-4.0.1.jar",
    "io/netty/netty-native/4.1.0.Final/netty-native-4.1.0.Final-linux-x86_64.jar",
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with two jars, on a machine without Maven that has fetched nothing yet."""
    folder = tmp_path / "repository"
    for path in PATHS:
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(f"the bytes of {path}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(jars.shutil, "which", lambda _: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(REPOSITORY, f"http://127.0.0.1:{server.server_port}/")
        yield folder
        server.shutdown()


@pytest.fixture
def listed(repository: Path, tmp_path: Path) -> Path:
    """The list of the two."""
    sums = [hashlib.sha256((repository / path).read_bytes()).hexdigest() for path in PATHS]
    path = tmp_path / "artifacts.txt"
    path.write_text("".join(f"{one}  {name}\n" for one, name in zip(sums, COORDINATES, strict=True)))
    return path


def test_the_list_is_whole() -> None:
    lines = jars.LIST.read_text().splitlines()
    assert len({line.split()[1] for line in lines}) == len(lines) == 325
    assert all(len(line.split()[0]) == 64 for line in lines)


def test_jars_come_from_the_repository_once(repository: Path, listed: Path) -> None:
    folder = jars.installation(listed)
    assert sorted(path.name for path in folder.iterdir()) == sorted(Path(path).name for path in PATHS)
    for path in PATHS:
        (repository / path).unlink()
    assert jars.installation(listed) == folder


def test_jars_of_mavens_folder_are_linked(repository: Path, listed: Path, tmp_path: Path) -> None:
    local = tmp_path / "home/.m2/repository"
    local.parent.mkdir(parents=True)
    repository.rename(local)
    folder = jars.installation(listed)
    for path in PATHS:
        assert (folder / Path(path).name).samefile(local / path)


@pytest.mark.parametrize("place", ["repository", "home/.m2/repository"])
def test_another_jar_than_the_listed_one_is_refused(repository: Path, listed: Path, tmp_path: Path, place: str) -> None:
    damaged = tmp_path / place / PATHS[1]
    damaged.parent.mkdir(parents=True, exist_ok=True)
    damaged.write_text("something else")
    with pytest.raises(EngineMissingError, match=r"netty-native.*(damaged|SHA-256 differs)"):
        jars.installation(listed)
    assert not [path for path in (tmp_path / "cache").rglob("hive-4*") if ".part" not in path.name]


def test_a_jar_that_is_nowhere(repository: Path, listed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / PATHS[0]).unlink()
    with pytest.raises(EngineMissingError, match=r"hive-exec-4\.0\.1\.jar could not be fetched"):
        jars.installation(listed)
    monkeypatch.delenv(REPOSITORY)
    with pytest.raises(EngineMissingError, match="install Maven"):
        jars.installation(listed)
