"""`make trino-jar`: builds the jars of Trino's connector, one a release, whose sources are newer; runs their tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from hudi_catalog.local_metastore import server
from hudi_catalog.trino.connector import plugin
from table_format.errors import ServiceError
from tools.engines.artifacts import EngineMissingError, fetch, locked
from tools.engines.jdk import find_java
from tools.engines.trino_assembly import COMPILER, LEVEL

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "trino_connector"
SHARED = ROOT / "hive_handler/src/main/java/hudicatalog/wire"
JDKS = {"476": (25, 24, 26, 27), "483": (25, 26, 27)}
"""Versions of Java whose compilers read the class files of a release of Trino."""
JAVA = 25


def build(version: str = plugin.TRINO) -> None:
    """Build the jar for a release of Trino if it is missing, or older than its sources.

    Raises:
        EngineMissingError: there is no Maven, or no JDK of a version whose compiler reads Trino's classes.
    """
    with locked("trino-connector.build"):
        if not is_current(version):
            _build(version)


def _build(version: str) -> None:
    jar = plugin.jar_path(version)
    maven = shutil.which("mvn")
    if maven is None:
        raise EngineMissingError(f"{jar.name} is missing, and Maven (mvn), which builds it")
    command = [maven, "--quiet", "--batch-mode", "--file", str(SOURCES / "pom.xml"), f"-Dtrino.version={version}"]
    home = _jdk(version)
    made = _by_eclipse(command, version) if home is None else _by_maven(command, version, home)
    # One step, so that nobody sees half a jar.
    partial = jar.with_suffix(".part")
    shutil.copyfile(made, partial)
    partial.replace(jar)


def _by_maven(maven: Sequence[str], version: str, home: Path) -> Path:
    """Maven's jar, tested."""
    jar = _target(version) / plugin.jar_path(version).name
    if subprocess.run([*maven, "package"], check=False, env=os.environ | {"JAVA_HOME": str(home)}).returncode:
        raise EngineMissingError(f"{jar.name} could not be built: Maven says above why")
    return jar


def _target(version: str) -> Path:
    return SOURCES / "target" / version


def _by_eclipse(maven: Sequence[str], version: str) -> Path:
    """The jar where there is a Java runtime that is new enough, but no compiler: Eclipse's, without Java's tests."""
    try:
        java, compiler = find_java(JAVA), fetch(COMPILER)
    except EngineMissingError as error:
        raise EngineMissingError(
            f"{plugin.jar_path(version).name} needs a JDK of version {min(JDKS[version])} or later, with its compiler: "
            f"install one, or set HUDI_CATALOG_JDK25 to its folder. All else works without it ({error})"
        ) from error
    target = _target(version)
    target.mkdir(parents=True, exist_ok=True)
    classes, paths = target / "eclipse", target / "classpath.txt"
    shutil.rmtree(classes, ignore_errors=True)
    listing = ["dependency:build-classpath", f"-Dmdep.outputFile={paths}", "-Dmdep.includeScope=compile"]
    _run([*maven, *listing])
    sources = [str(path) for folder in _source_folders(version) for path in folder.glob("**/*.java")]
    level = [*LEVEL, "-encoding", "UTF-8", "-nowarn"]
    _run([str(java), "-jar", str(compiler), *level, "-cp", paths.read_text().strip(), "-d", str(classes), *sources])
    jar = target / plugin.jar_path(version).name
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\nTrino-Version: {version}\r\n\r\n")
        for root in (classes, SOURCES / "src/main/resources"):
            for path in sorted(path for path in root.rglob("*") if path.is_file()):
                archive.write(path, path.relative_to(root).as_posix())
    return jar


def _run(command: list[str]) -> None:
    if subprocess.run(command, check=False).returncode:
        raise EngineMissingError(f"Trino's connector could not be built: {Path(command[0]).name} says above why")


def is_current(version: str) -> bool:
    """Whether the jar for a release of Trino is there, and no older than its sources."""
    folders = (*_source_folders(version), SOURCES / "src/main/resources", SOURCES / "src/test")
    files = [SOURCES / "pom.xml", *(path for folder in folders for path in folder.glob("**/*.*"))]
    jar = plugin.jar_path(version)
    return jar.exists() and jar.stat().st_mtime >= max(path.stat().st_mtime for path in files)


def _source_folders(version: str) -> tuple[Path, ...]:
    return SOURCES / "src/main/java", SOURCES / f"src/trino{version}/java", SHARED


def _jdk(version: str) -> Path | None:
    """Folder of a JDK with a compiler that reads the classes of a release of Trino; None if there is none."""
    for java in JDKS[version]:
        try:
            home = server.find_java((java,)).resolve().parents[1]
        except ServiceError:
            continue
        if (home / "bin/javac").exists():
            return home
    return None


def main() -> int:
    """Build, and say what is missing."""
    missing = 0
    for version in plugin.VERSIONS:
        try:
            build(version)
        except EngineMissingError as error:
            print(f"make trino-jar: {error}", file=sys.stderr)
            missing = 1
    return missing


if __name__ == "__main__":
    sys.exit(main())
