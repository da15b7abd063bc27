"""Releases of engines from Maven Central, kept unpacked in the user's cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = "HUDI_CATALOG_MAVEN_REPOSITORY"
"""Environment variable: URL of a Maven repository, for machines without Maven."""
_CHUNK = 1 << 20


class EngineMissingError(Exception):
    """An engine cannot run here; the message says what is missing and how to get it."""


@dataclass(frozen=True)
class Artifact:
    """A file of Maven Central."""

    group: str
    name: str
    version: str
    kind: str = "jar"
    classifier: str = ""

    @property
    def file_name(self) -> str:
        """Name of the file there and here."""
        which = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{which}.{self.kind}"

    @property
    def path(self) -> str:
        """Where it is below the root of a Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.file_name}"


def cache_folder() -> Path:
    """Folder that engines are kept in between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "hudi-catalog" / "engines"


def present(artifact: Artifact) -> Path | None:
    """The file if this machine has it: in Maven's local repository or in our cache."""
    places = (Path.home() / ".m2/repository" / artifact.path, cache_folder() / "downloads" / artifact.file_name)
    return next((place for place in places if place.exists()), None)


def fetch(artifact: Artifact) -> Path:
    """The file, downloaded where this machine lacks it.

    Maven fetches where it is installed, so that its mirrors and proxies hold; else it is read from the repository that
    the environment names and compared with the checksum published beside it.

    Raises:
        EngineMissingError: it could not be fetched.
    """
    installed = present(artifact)
    if installed:
        return installed
    print(f"fetching {artifact.file_name} …", file=sys.stderr, flush=True)
    with locked(f"{artifact.file_name}.fetch"):
        installed = present(artifact)
        if installed:
            return installed
        try:
            return _by_maven(artifact) if shutil.which("mvn") else _by_hand(artifact)
        except (OSError, subprocess.CalledProcessError) as error:
            raise EngineMissingError(f"{artifact.file_name} could not be fetched: {error}") from error


def _by_maven(artifact: Artifact) -> Path:
    parts = (artifact.group, artifact.name, artifact.version, artifact.kind, artifact.classifier)
    coordinates = ":".join(filter(None, parts))
    command = ["mvn", "-q", "-B", "dependency:get", f"-Dartifact={coordinates}", "-Dtransitive=false"]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    installed = present(artifact)
    if done.returncode or not installed:
        raise EngineMissingError(f"Maven could not fetch {coordinates}: {done.stdout.strip()[-500:]}")
    return installed


def _by_hand(artifact: Artifact) -> Path:
    target = cache_folder() / "downloads" / artifact.file_name
    with urllib.request.urlopen(f"{_address(artifact)}.sha1", timeout=60) as response:
        expected = response.read().decode().split()[0]
    return download(artifact, target, "sha1", expected)


def download(artifact: Artifact, target: Path, algorithm: str, expected: str) -> Path:
    """Read a file from the repository that the environment names.

    Args:
        artifact: The file.
        target: Where it goes.
        algorithm: Of the checksum, as `hashlib` names it.
        expected: The checksum in hexadecimal.

    Raises:
        EngineMissingError: The environment names none, or the file's checksum is another.
        OSError: It could not be read.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.new(algorithm, usedforsecurity=False)
    partial = target.with_name(f"{target.name}.part")
    with urllib.request.urlopen(_address(artifact), timeout=60) as response, partial.open("wb") as out:
        while chunk := response.read(_CHUNK):
            digest.update(chunk)
            out.write(chunk)
    if digest.hexdigest() != expected:
        partial.unlink()
        raise EngineMissingError(
            f"{artifact.file_name} arrived damaged: its {algorithm} checksum is not the published one; try again"
        )
    return partial.rename(target)


def _address(artifact: Artifact) -> str:
    repository = os.environ.get(REPOSITORY)
    if not repository:
        raise EngineMissingError(
            f"{artifact.file_name} is missing: install Maven (mvn), or set {REPOSITORY} to a Maven repository's URL"
        )
    return f"{repository.rstrip('/')}/{artifact.path}"


def unpacked(archive: Artifact, wanted: Callable[[str], bool], *, label: str) -> Path:
    """Folder with the chosen members of a tar archive, unpacked on first use.

    Args:
        archive: A `tar.gz` whose members all lie in one folder.
        wanted: Whether a member, named by its path within that folder, is unpacked.
        label: Tells this choice from others of the same archive, and changes when the choice does.

    Raises:
        EngineMissingError: The archive could not be fetched, or is damaged.
    """
    folder = cache_folder() / f"{archive.name}-{archive.version}-{label}"
    if folder.exists():
        return folder
    source = fetch(archive)
    with locked(f"{folder.name}.unpack"):
        if folder.exists():
            return folder
        partial = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(partial, ignore_errors=True)
        print(f"unpacking {archive.file_name} …", file=sys.stderr, flush=True)
        try:
            _unpack(source, wanted, partial)
        except (tarfile.TarError, OSError, EOFError) as error:
            raise EngineMissingError(f"{source} could not be unpacked: {error}; delete it and try again") from error
        partial.rename(folder)
    return folder


def _unpack(source: Path, wanted: Callable[[str], bool], folder: Path) -> None:
    """Unpack the chosen members.

    Archives of engines hold each jar once, and hard links to it in every other plugin: the one real copy may lie in a
    plugin that nobody chose.
    """
    places: dict[str, list[Path]] = {}
    with tarfile.open(source, "r|gz") as members:
        for member in members:
            inner = _inside(member.name)
            if not member.isdir() and wanted(inner):
                places.setdefault(member.linkname if member.islnk() else member.name, []).append(folder / inner)
    with tarfile.open(source, "r|gz") as members:
        for member in members:
            first, *others = places.pop(member.name, ()) or (None,)
            content = members.extractfile(member) if first and member.isreg() else None
            if first is None or content is None:
                continue
            first.parent.mkdir(parents=True, exist_ok=True)
            with content, first.open("wb") as out:
                shutil.copyfileobj(content, out, _CHUNK)
            first.chmod(member.mode & 0o755 | 0o600)
            for other in others:
                other.parent.mkdir(parents=True, exist_ok=True)
                other.hardlink_to(first)
    if places:
        raise tarfile.TarError(f"it lacks {next(iter(places))}")


def _inside(name: str) -> str:
    return name.partition("/")[2]


@contextmanager
def locked(name: str) -> Iterator[None]:
    """One process at a time fetches or unpacks what has this name."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
