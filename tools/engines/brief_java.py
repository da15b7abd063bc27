"""Java's options for sessions of Spark that run for minutes, and archives of the classes that such sessions load.

A Java that maps an archive starts Spark in half the processor time. Java itself leaves an archive aside that does not
fit its version or class path.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".work/classes"
SCRIPT: Final = Path(__file__).with_name("load_classes.py")

#: With one compiler alone, the room for its code would be too small, and with little room for classes at first, whole
#: heaps are collected because of it.
_QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:MetaspaceSize=384m"
_SECONDS: Final = 300


def quick(archive: str) -> str:
    """Options of a Java for minutes.

    Args:
        archive: its name, `spark-4.3.0` or `hudi-1.2.0`; it is used where it was made.
    """
    path = FOLDER / f"{archive}.jsa"
    return f"{_QUICK} -XX:SharedArchiveFile={path}" if path.exists() else _QUICK


def make_archives(bundles: Mapping[str, Path]) -> None:
    """Make those that are missing or older than the jars: of the newest Spark, and of each release of Apache Hudi.

    A failure is told; sessions then start as without an archive.

    Args:
        bundles: jars of Apache Hudi for Spark 3.5, by release.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, python, class_path in _wanted(bundles):
        path = FOLDER / f"{name}.jsa"
        jars = [python.parent, *([Path(class_path)] if class_path else [])]
        if path.exists() and path.stat().st_mtime > max(one.stat().st_mtime for one in jars):
            continue
        print(f"archiving the classes of {name} …", flush=True)
        try:
            _make(path, python, class_path)
        except (OSError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", None) or b"").decode(errors="replace")
            print(f"could not archive them: {error}; tests take longer\n{said[-2000:]}", file=sys.stderr)


def _wanted(bundles: Mapping[str, Path]) -> Iterator[tuple[str, Path, str]]:
    """Names of archives, with the interpreter that has Spark, and what stands before Spark's jars on the class path."""
    newest, apache = ROOT / ".venv/bin/python", ROOT / ".venv-apache/bin/python"
    if newest.exists():
        version = subprocess.run(
            [str(newest), "-c", "import pyspark; print(pyspark.__version__)"],
            capture_output=True,
            text=True,
            check=True,
        )
        yield f"spark-{version.stdout.strip()}", newest, ""
    for release, bundle in bundles.items():
        if apache.exists() and bundle.exists():
            yield f"hudi-{release}", apache, str(bundle)


def _make(path: Path, python: Path, class_path: str) -> None:
    partial = path.with_suffix(".part")
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [str(python), str(SCRIPT), f"{_QUICK} -XX:ArchiveClassesAtExit={partial}", class_path],
            cwd=scratch,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
    partial.replace(path)
