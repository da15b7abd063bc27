"""`make trino-jar`: builds the jar of Trino's connector where its sources are newer, and runs its tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from hudi_catalog.local_metastore import server
from hudi_catalog.trino.connector import plugin
from table_format.errors import ServiceError
from tools.engines.artifacts import Artifact, EngineMissingError, fetch, locked
from tools.engines.jdk import find_java

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "trino_connector"
SHARED = ROOT / "hive_handler/src/main/java/hudicatalog/wire"
JAR = Path(plugin.__file__).parent / plugin.JAR
VERSIONS = (25, 24, 26, 27)
JAVA = 25
COMPILER = Artifact("org.eclipse.jdt", "ecj", "3.43.0")


def build() -> None:
    """Build the jar if it is missing, or older than its sources.

    Raises:
        EngineMissingError: there is no Maven, or no JDK of a version whose compiler reads Trino's classes.
    """
    with locked("trino-connector.build"):
        if not is_current():
            _build()


def _build() -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise EngineMissingError(f"{JAR.name} is missing, and Maven (mvn), which builds it")
    home = _jdk()
    made = _by_eclipse(maven) if home is None else _by_maven(maven, home)
    # One step, so that nobody sees half a jar.
    partial = JAR.with_suffix(".part")
    shutil.copyfile(made, partial)
    partial.replace(JAR)


def _by_maven(maven: str, home: Path) -> Path:
    """Maven's jar, tested."""
    command = [maven, "--quiet", "--batch-mode", "--file", str(SOURCES / "pom.xml"), "package"]
    if subprocess.run(command, check=False, env=os.environ | {"JAVA_HOME": str(home)}).returncode:
        raise EngineMissingError(f"{JAR.name} could not be built: Maven says above why")
    return SOURCES / "target" / JAR.name


def _by_eclipse(maven: str) -> Path:
    """The jar where there is a Java runtime that is new enough, but no compiler: Eclipse's, without Java's tests."""
    try:
        java, compiler = find_java(JAVA), fetch(COMPILER)
    except EngineMissingError as error:
        raise EngineMissingError(
            f"{JAR.name} needs a JDK of version 24 or later, with its compiler: install one, or set HUDI_CATALOG_JDK25 "
            f"to its folder. All else works without it ({error})"
        ) from error
    target = SOURCES / "target"
    classes, paths = target / "eclipse", target / "classpath.txt"
    shutil.rmtree(classes, ignore_errors=True)
    listing = ["dependency:build-classpath", f"-Dmdep.outputFile={paths}", "-Dmdep.includeScope=compile"]
    _run([maven, "--quiet", "--batch-mode", "--file", str(SOURCES / "pom.xml"), *listing])
    sources = [str(path) for path in (*SOURCES.glob("src/main/java/**/*.java"), *SHARED.glob("*.java"))]
    level = ["-source", "24", "-target", "24", "-encoding", "UTF-8", "-nowarn"]
    _run([str(java), "-jar", str(compiler), *level, "-cp", paths.read_text().strip(), "-d", str(classes), *sources])
    jar = target / JAR.name
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\r\nTrino-Version: {plugin.TRINO}\r\n\r\n")
        for root in (classes, SOURCES / "src/main/resources"):
            for path in sorted(path for path in root.rglob("*") if path.is_file()):
                archive.write(path, path.relative_to(root).as_posix())
    return jar


def _run(command: list[str]) -> None:
    if subprocess.run(command, check=False).returncode:
        raise EngineMissingError(f"{JAR.name} could not be built: {Path(command[0]).name} says above why")


def is_current() -> bool:
    """Whether the jar is there, and no older than its sources."""
    files = [SOURCES / "pom.xml", *SOURCES.glob("src/**/*.*"), *SHARED.glob("*.java")]
    return JAR.exists() and JAR.stat().st_mtime >= max(path.stat().st_mtime for path in files)


def _jdk() -> Path | None:
    """Folder of a JDK with a compiler that reads Trino's classes; None if there is none."""
    for version in VERSIONS:
        try:
            home = server.find_java((version,)).resolve().parents[1]
        except ServiceError:
            continue
        if (home / "bin/javac").exists():
            return home
    return None


def main() -> int:
    """Build, and say what is missing."""
    try:
        build()
    except EngineMissingError as error:
        print(f"make trino-jar: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
