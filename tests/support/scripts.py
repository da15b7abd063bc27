"""Scripts that tests run in interpreters of their own."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT


def printed(
    script: Path,
    *arguments: str | Path,
    seconds: float,
    python: str | Path = sys.executable,
    folder: Path | None = None,
) -> list[str]:
    """The lines that a script prints before it ends well.

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
    return done.stdout.splitlines()
