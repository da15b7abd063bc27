"""The jars that Hive's servers run from: Maven Central's, each with a known checksum, and one class of our own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hudi_catalog.hive.handler import handler_jar
from table_format.errors import ServiceError
from tools.engines.artifacts import Artifact, EngineMissingError, cache_folder, download, locked, present

VERSION = "4.0.1"
LIST = Path(__file__).with_name("artifacts.txt")
PROJECT = Path(__file__).with_name("pom.xml")
HOOKS = Path(__file__).parents[3] / "docker/hive/hooks"
_THREADS = 16
_TELL_SECONDS = 5.0


def installation(listed: Path = LIST) -> Path:
    """Folder of all jars, fetched on first use and compared with their checksums then.

    Maven fetches them with one call where it is installed; else they are read from the repository that the environment
    names, many at once. Jars that this machine has already are linked to, not copied.

    Args:
        listed: File with a line for each jar: SHA-256, two spaces, `group:name:version[:classifier]`.

    Raises:
        EngineMissingError: One could not be fetched, or is not the one listed.
    """
    text = listed.read_text()
    folder = cache_folder() / f"hive-{VERSION}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if folder.exists():
        return folder
    with locked(f"{folder.name}.fetch"):
        if not folder.exists():
            partial = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            _fill(partial, dict(_parsed(line) for line in text.splitlines()))
            partial.rename(folder)
    return folder


def in_order(jars: Path) -> list[Path]:
    """Hive's jars, as a class path takes them.

    Hive's own comes first: it has classes of ANTLR and Avro in it that older jars beside it have, too. The order that
    Java gives `jars/*` is the file system's.

    Args:
        jars: What `installation` gave.
    """
    return sorted(jars.glob("*.jar"), key=lambda jar: (not jar.name.startswith("hive-exec-"), jar.name))


def hook_classes(java: Path, jars: Path) -> Path:
    """Folder of the compiled classes of `docker/hive/hooks`.

    Args:
        java: The `java` program of a JDK, which has `javac` beside it.
        jars: What `installation` gave.

    Raises:
        EngineMissingError: It is a Java runtime without compiler, or the compiler refused.
    """
    sources = sorted(HOOKS.rglob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    folder = cache_folder() / f"hive-hooks-{VERSION}-{digest}"
    compiler = java.resolve().with_name("javac")
    with locked(f"{folder.name}.compile"):
        if folder.exists():
            return folder
        if not compiler.exists():
            raise EngineMissingError(f"Hive's test hook needs a compiler, and {compiler} is missing: install a JDK")
        partial = folder.with_name(f"{folder.name}.part")
        command = [str(compiler), "--release", "8", "-proc:none", "-cp", f"{jars}/*", "-d", str(partial)]
        done = subprocess.run([*command, *map(str, sources)], check=False, capture_output=True, text=True)
        if done.returncode:
            raise EngineMissingError(f"Hive's test hook could not be compiled: {done.stderr.strip()[-500:]}")
        partial.rename(folder)
    return folder


def _parsed(line: str) -> tuple[Artifact, str]:
    digest, coordinates = line.split()
    group, name, version, *classifier = coordinates.split(":")
    return Artifact(group, name, version, classifier="".join(classifier)), digest


def _fill(folder: Path, wanted: Mapping[Artifact, str]) -> None:
    """Put every jar into a folder."""
    jars = {artifact: path for artifact in wanted if (path := present(artifact))}
    missing = [artifact for artifact in wanted if artifact not in jars]
    if missing:
        print(f"fetching Hive {VERSION}: {len(missing)} jars …", file=sys.stderr, flush=True)
        fetch = _by_maven if shutil.which("mvn") else _by_hand
        jars |= fetch(missing, wanted, folder.with_name(f"{folder.name}.fetched"))
    for artifact, path in jars.items():
        if hashlib.sha256(path.read_bytes()).hexdigest() != wanted[artifact]:
            raise EngineMissingError(f"{path} is not the jar that is listed (SHA-256 differs); delete it and try again")
        _link(path, folder / artifact.file_name)
    shutil.rmtree(folder.with_name(f"{folder.name}.fetched"), ignore_errors=True)


def _by_maven(missing: Sequence[Artifact], _wanted: Mapping[Artifact, str], folder: Path) -> dict[Artifact, Path]:
    command = ["mvn", "-q", "-B", "-f", str(PROJECT), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
        told = time.monotonic()
        while process.poll() is None:
            time.sleep(0.2)
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                here = sum(present(artifact) is not None for artifact in missing)
                print(f"  {here} of {len(missing)} jars are here", file=sys.stderr, flush=True)
        said.seek(0)
        if process.returncode:
            raise EngineMissingError(f"Maven could not fetch Hive {VERSION}: {said.read().strip()[-500:]}")
    jars = {artifact: folder / artifact.file_name for artifact in missing}
    lost = [artifact.file_name for artifact, path in jars.items() if not path.exists()]
    if lost:
        raise EngineMissingError(f"{PROJECT} and {LIST.name} disagree: Maven gave no {', '.join(lost)}")
    return jars


def _by_hand(missing: Sequence[Artifact], wanted: Mapping[Artifact, str], folder: Path) -> dict[Artifact, Path]:
    def fetched(artifact: Artifact) -> Path:
        try:
            return download(artifact, folder / artifact.file_name, "sha256", wanted[artifact])
        except OSError as error:
            raise EngineMissingError(f"{artifact.file_name} could not be fetched: {error}") from error

    jars: dict[Artifact, Path] = {}
    told = time.monotonic()
    with ThreadPoolExecutor(_THREADS) as threads:
        for artifact, path in zip(missing, threads.map(fetched, missing), strict=True):
            jars[artifact] = path
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                print(f"  {len(jars)} of {len(missing)} jars are here", file=sys.stderr, flush=True)
    return jars


def _link(source: Path, target: Path) -> None:
    """One file under two names; a copy where the two lie on different disks."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def handler() -> Path:
    """The storage handler's jar, as `make hive-jar` builds it.

    Raises:
        EngineMissingError: It is not built.
    """
    try:
        return Path(handler_jar())
    except ServiceError as error:
        raise EngineMissingError(str(error)) from error
