"""Scripts that tests run in interpreters of their own, and what they report."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT


def reports(
    script: Path,
    *arguments: str | Path,
    seconds: float,
    python: str | Path = sys.executable,
    folder: Path | None = None,
) -> list[Any]:
    """What each line says, as JSON, that a script of this project prints before it ends well.

    Args:
        script: is run with the project in front of the installed packages.
        arguments: of the script.
        seconds: that it may take.
        python: the interpreter.
        folder: to run in.
    """
    done = subprocess.run(
        [python, script, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def report(script: Path, *arguments: str | Path, seconds: float, **where: Any) -> Any:
    """The last of them."""
    return reports(script, *arguments, seconds=seconds, **where)[-1]
