"""A stream whose process is killed at random moments and started again: the table equals its source exactly once.

`HUDI_CATALOG_STREAM_KILLS` says how many times, which CI keeps few, since each takes a JVM; the nightly profile takes
50.
"""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import settings

from hudi_catalog import open_table
from tests.support.stream_job import ROWS, feed, make, start

pytestmark = [pytest.mark.spark, pytest.mark.timeout(60 * 60)]
_NIGHTLY = settings.get_current_profile_name() == "nightly"
KILLS = int(os.environ.get("HUDI_CATALOG_STREAM_KILLS", "50" if _NIGHTLY else "5"))
#: Batches that wait at each start: more than are written before a kill.
WAITING = 6
#: Seconds from a line of the job to the kill, at most; a batch takes less.
LATEST = 1.0


def test_a_stream_that_is_killed(tmp_path: Path) -> None:
    make(tmp_path)
    chance = random.Random(None if _NIGHTLY else 20)
    written: set[int] = set()
    replayed: set[int] = set()
    kills = files = 0
    while True:
        # the last start gets nothing new, and ends the source
        more = range(files, max(written, default=-1) + 1 + WAITING) if kills < KILLS else range(0)
        feed(tmp_path, more)
        files += len(more)
        log = tmp_path / "stderr.log"
        process = start(tmp_path, log, tasks=chance.random() < 0.5)
        killed = watch(process, chance, written, replayed, kill=kills < KILLS)
        if killed:
            kills += 1
            continue
        assert process.returncode == 0, log.read_text()[-4000:]
        if kills >= KILLS:
            break
    rows = open_table(tmp_path / "t").scan(columns=["id", "v"]).to_arrow().to_pylist()
    wanted = [{"id": number, "v": number // ROWS} for number in range(files * ROWS)]
    assert sorted(rows, key=lambda row: row["id"]) == wanted, f"{kills} kills, replayed {sorted(replayed)}"
    assert replayed or kills < 20  # else no kill fell between a commit and Spark's note of it


def watch(
    process: subprocess.Popen[str], chance: random.Random, written: set[int], replayed: set[int], *, kill: bool
) -> bool:
    """Follow a job to its end, which may be a kill; whether it was.

    The moment is a random time after a random line: while a batch is planned, written, committed, or noted by Spark. A
    third of them follow a commit at once, so that Spark has not noted it.
    """
    assert process.stdout is not None
    word, line = chance.choice(["written", "begins", "begins"]), chance.randrange(1, 3)
    delay = 0.0 if word == "written" else chance.uniform(0, LATEST)
    try:
        for text in process.stdout:
            event, _, number = text.strip().partition(" ")
            if event in ("written", "replayed"):
                (written if event == "written" else replayed).add(int(number))
            line -= event == word
            if kill and line == 0:
                time.sleep(delay)
                return True
        return False
    finally:
        if kill:
            end(process)
        process.wait(120)
        process.stdout.close()


def end(process: subprocess.Popen[str]) -> None:
    """SIGKILL to the process, its JVM and what else is of its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
