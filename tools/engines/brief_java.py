"""Java's options for sessions of Spark that run for minutes, and archives of the classes that such sessions load.

A Java that maps an archive starts Spark in half the processor time. Java itself leaves an archive aside that does not
fit its version or class path.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".work/classes"
SCRIPT: Final = Path(__file__).with_name("load_classes.py")

#: With one compiler alone, the room for its code would be too small, and with little room for classes at first, whole
#: heaps are collected because of it.
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:MetaspaceSize=384m"
_SECONDS: Final = 300


def quick(release: str | None = None) -> str:
    """Options of a Java for minutes.

    Args:
        release: of Apache Hudi, whose bundle stands before Spark's jars; None for the PySpark that is installed here.
    """
    path = _archive(release)
    return f"{_QUICK} -XX:SharedArchiveFile={path}" if path.exists() else _QUICK


def make_archives(apache: Path, bundles: Mapping[str, Path]) -> None:
    """Make those that are missing or older than the jars: of the PySpark here, and of each release of Apache Hudi.

    A failure is told; sessions then start as without an archive.

    Args:
        apache: the interpreter with the PySpark that releases run on.
        bundles: their jars, by release.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    _make_archive(None, Path(sys.executable), None)
    for release, bundle in bundles.items():
        if apache.exists() and bundle.exists():
            _make_archive(release, apache, bundle)


def _archive(release: str | None) -> Path:
    name = f"spark-{metadata.version('pyspark')}" if release is None else f"hudi-{release}"
    return FOLDER / f"{name}.jsa"


def _make_archive(release: str | None, python: Path, bundle: Path | None) -> None:
    path = _archive(release)
    newest = max(one.stat().st_mtime for one in (python.parent, bundle) if one is not None)
    if path.exists() and path.stat().st_mtime > newest:
        return
    print(f"archiving the classes of {path.stem} …", flush=True)
    partial = path.with_suffix(".part")
    options = f"{_QUICK} -XX:ArchiveClassesAtExit={partial}"
    try:
        with tempfile.TemporaryDirectory() as scratch:
            command = [str(python), str(SCRIPT), options, str(bundle or "")]
            subprocess.run(command, cwd=scratch, capture_output=True, timeout=_SECONDS, check=True)
        partial.replace(path)
    except (OSError, subprocess.SubprocessError) as error:
        output = (getattr(error, "stderr", None) or b"").decode(errors="replace")
        print(f"could not archive them: {error}; tests take longer\n{output[-2000:]}", file=sys.stderr)
