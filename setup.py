"""Wheels hold the jar of Hive's storage handler, which Maven builds; all else is in pyproject.toml."""

import os
import shutil
import subprocess
import warnings
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.errors import SetupError

SOURCES = Path(__file__).parent / "hive_handler"
JAR = Path(__file__).parent / "hudi_catalog/hive/hudi-hive-handler.jar"
WITHOUT = "HUDI_CATALOG_WITHOUT_HIVE"


def build_jar() -> None:
    """Build the jar if it is missing, or older than its sources.

    Raises:
        SetupError: it is missing and cannot be built.
    """
    if JAR.exists() and JAR.stat().st_mtime >= _newest_source():
        return
    maven = shutil.which("mvn")
    if maven is None and JAR.exists():
        warnings.warn(f"{JAR.name} is older than hive_handler/, and there is no mvn to build it anew", stacklevel=2)
    elif maven is None:
        raise SetupError(
            f"{JAR.name} is missing: install Maven and a JDK, which build it from hive_handler/, "
            f"or set {WITHOUT}=1 for a wheel that cannot serve Hive"
        )
    else:
        command = [maven, "--quiet", "--batch-mode", "-DskipTests", "package"]
        subprocess.run(command, cwd=SOURCES, check=True)  # noqa: S603  # Maven, as it is found
        # One step, so that nobody sees half a jar.
        partial = JAR.with_suffix(".part")
        shutil.copyfile(SOURCES / "target" / JAR.name, partial)
        partial.replace(JAR)


def _newest_source() -> float:
    files = [SOURCES / "pom.xml", *SOURCES.glob("src/main/**/*.java")]
    return max((path.stat().st_mtime for path in files if path.exists()), default=0.0)


class BuildWithJar(build_py):
    """Builds the jar before package data is collected; editable installs have `make hive-jar`."""

    def run(self) -> None:
        """Build."""
        if not self.editable_mode and not os.environ.get(WITHOUT):
            build_jar()
        super().run()


class SourcesWithJar(sdist):
    """Source distributions hold the jar too: who installs them needs no Maven."""

    def run(self) -> None:
        """Build."""
        if not os.environ.get(WITHOUT):
            build_jar()
        super().run()


setup(cmdclass={"build_py": BuildWithJar, "sdist": SourcesWithJar})
