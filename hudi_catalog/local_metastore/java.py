"""Finds the Java that a server needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from table_format.errors import ServiceError

_FOLDERS: Final = "/usr/lib/jvm"
_VERSION_SECONDS: Final = 30


def find_java(versions: Sequence[int]) -> Path:
    """The `java` program of one of some versions of Java.

    Looked for in the environment (`HUDI_CATALOG_JDK<version>`, `JAVA<version>_HOME`, `JAVA_HOME`), in the usual folder
    of Linux systems and on the path.

    Args:
        versions: Java's feature releases that will do, such as 17; the first ones are preferred.

    Raises:
        ServiceError: there is none; the message says how to name one.
    """
    for version in versions:
        for program in _candidates(version):
            if program.exists() and java_version(program) == version:
                return program
    wanted = " or ".join(str(version) for version in versions)
    raise ServiceError(
        f"no Java {wanted}: install it, or set HUDI_CATALOG_JDK{versions[0]} to its folder "
        f"(JAVA_HOME, {_FOLDERS} and the path have none)"
    )


def java_version(program: Path) -> int | None:
    """Feature release of a `java` program, such as 17; None where it does not run."""
    try:
        done = subprocess.run(  # noqa: S603  # a Java that the user named
            [program, "-version"], capture_output=True, text=True, check=True, timeout=_VERSION_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found else None


def _candidates(version: int) -> Iterator[Path]:
    names = (f"HUDI_CATALOG_JDK{version}", f"JAVA{version}_HOME", "JAVA_HOME")
    yield from (Path(os.environ[name]) / "bin/java" for name in names if os.environ.get(name))
    yield from (home / "bin/java" for home in sorted(Path(_FOLDERS).glob(f"*{version}*")))
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
