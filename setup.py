"""Wheels hold the jars of Hive's handler and Trino's connector, which Maven builds; all else is in pyproject.toml."""

import os
import shutil
import subprocess
import warnings
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.errors import SetupError

ROOT = Path(__file__).parent
HIVE = "HUDI_CATALOG_WITHOUT_HIVE"
TRINO = "HUDI_CATALOG_WITHOUT_TRINO"
TRINO_VERSIONS = sorted(path.name.removeprefix("trino") for path in ROOT.glob("trino_connector/src/trino*"))
SHARED = ROOT / "hive_handler/src/main/java/hudicatalog/wire"


def build_jars() -> None:
    """Build the jars that are missing, or older than their sources.

    Raises:
        SetupError: that of Hive's handler is missing and cannot be built.
    """
    if not os.environ.get(HIVE):
        build_hive()
    if not os.environ.get(TRINO):
        build_trino()


def build_hive() -> None:
    """The jar of Hive's storage handler, which any JDK builds."""
    sources, jar = ROOT / "hive_handler", ROOT / "hudi_catalog/hive/hudi-hive-handler.jar"
    if is_current(sources, jar):
        return
    maven = shutil.which("mvn")
    if maven is None and jar.exists():
        warnings.warn(f"{jar.name} is older than hive_handler/, and there is no mvn to build it anew", stacklevel=2)
    elif maven is None:
        raise SetupError(
            f"{jar.name} is missing: install Maven and a JDK, which build it from hive_handler/, "
            f"or set {HIVE}=1 for a wheel that cannot serve Hive"
        )
    else:
        subprocess.run([maven, *QUIET], cwd=sources, check=True)  # noqa: S603  # Maven, as it is found
        put(sources / "target", jar)


def build_trino() -> None:
    """The jars of Trino's connector, whose JDK few machines have: a wheel without them serves all but the connector."""
    for version in TRINO_VERSIONS:
        build_connector(version)


def build_connector(version: str) -> None:
    """The connector's jar for a release of Trino."""
    sources, jar = ROOT / "trino_connector", ROOT / f"hudi_catalog/trino/connector/hudi-trino-connector-{version}.jar"
    if is_current(sources, jar, SHARED, sources / f"src/trino{version}/java/hudicatalog/trino"):
        return
    maven = shutil.which("mvn")
    home = os.environ.get("HUDI_CATALOG_JDK25") or os.environ.get("JAVA_HOME")
    environment = os.environ | ({"JAVA_HOME": home} if home else {})
    command = [maven, *QUIET, f"-Dtrino.version={version}"]
    done = maven and subprocess.run(command, cwd=sources, check=False, env=environment)  # noqa: S603  # likewise
    if done and not done.returncode:
        put(sources / "target" / version, jar)
        return
    state = "is older than its sources" if jar.exists() else "is not in this wheel, which so cannot lay out the plugin"
    warnings.warn(
        f"{jar.name} {state}: Maven and a JDK of version 25 or later (HUDI_CATALOG_JDK25, JAVA_HOME) build it from "
        f"trino_connector/; {TRINO}=1 does without",
        stacklevel=2,
    )


QUIET = ("--quiet", "--batch-mode", "-DskipTests", "package")


def is_current(sources: Path, jar: Path, *more: Path) -> bool:
    """Whether a jar is there, and no older than its sources."""
    files = [sources / "pom.xml", *sources.glob("src/main/**/*.*"), *(path for one in more for path in one.glob("*"))]
    newest = max((path.stat().st_mtime for path in files if path.exists()), default=0.0)
    return jar.exists() and jar.stat().st_mtime >= newest


def put(target: Path, jar: Path) -> None:
    """Take a jar from the folder in which Maven makes it; in one step, so that nobody sees half of it."""
    partial = jar.with_suffix(".part")
    shutil.copyfile(target / jar.name, partial)
    partial.replace(jar)


class BuildWithJars(build_py):
    """Builds the jars before package data is collected; editable installs have `make hive-jar trino-jar`."""

    def run(self) -> None:
        """Build."""
        if not self.editable_mode:
            build_jars()
        super().run()


class SourcesWithJars(sdist):
    """Source distributions hold the jars too: who installs them needs no Maven."""

    def run(self) -> None:
        """Build."""
        build_jars()
        super().run()


setup(cmdclass={"build_py": BuildWithJars, "sdist": SourcesWithJars})
