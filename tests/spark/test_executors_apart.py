"""A cluster: executors are JVMs of their own, to which no class goes that the driver compiled for itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.spark


def test_executors_of_their_own(tmp_path: Path) -> None:
    script = Path(__file__).with_name("executors_script.py")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    ids = range(20_000)
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "one": [38.5],
        "some": sum(one % 4 == 2 and one >= 200 and one % 7 == 3 for one in ids),
        "by executors": 7,
        "joined": [10_000, 20_000.0],
        "exchanges": 0,
        "after": [20_009, 20, 9],
        "amount": 4.5,
    }
