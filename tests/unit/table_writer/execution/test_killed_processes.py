"""What a killed process leaves: no worker processes, and temporary files that the next process removes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from table_format.errors import StorageError
from table_writer.execution.local import LocalExecutor
from table_writer.execution.spill_folder import SpillFolder, remove_abandoned
from tests.support.waiting import until

LONG = 300.0


def tell(folder: str, text: str) -> None:
    """Of a process that is killed: leave a text for the test."""
    part = Path(folder) / "told.part"
    part.write_text(text)
    part.rename(Path(folder) / "told")


def told_by_killed(code: str, folder: Path) -> str:
    """What some code of this module tells; its process is killed then."""
    program = f"from {__name__} import *; {code}"
    message = folder / "told"
    with subprocess.Popen([sys.executable, "-c", program, str(folder)]) as process:
        try:
            until(message.exists)
        finally:
            process.send_signal(signal.SIGKILL)
    return message.read_text()


def is_running(process: int) -> bool:
    """Whether a process runs; one that waits for its parent to take note of its end does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def tell_and_wait(folder: str) -> None:
    """A task of a worker."""
    tell(folder, str(os.getpid()))
    time.sleep(LONG)


def run_worker() -> None:
    """Of a process that is killed."""
    LocalExecutor(1, processes=1).map(tell_and_wait, [sys.argv[1]])


def spill() -> None:
    """Of a process that is killed."""
    folder = SpillFolder(sys.argv[1])
    (Path(folder.path) / "rows.arrow").write_text("rows")
    tell(sys.argv[1], folder.path)
    time.sleep(LONG)


@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    worker = int(told_by_killed("run_worker()", tmp_path))
    until(lambda: not is_running(worker))


def test_folders_of_killed_processes_are_removed_by_the_next_one(tmp_path: Path) -> None:
    left = Path(told_by_killed("spill()", tmp_path))
    assert (left / "rows.arrow").exists()
    with SpillFolder(str(tmp_path)) as folder:
        assert Path(folder.path).is_dir()
        assert not left.exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["told"]


def test_folders_in_use_and_those_of_others_stay(tmp_path: Path) -> None:
    others = [tmp_path / "hudi-catalog-spilled", tmp_path / "rows"]
    for other in others:
        other.mkdir()
    (tmp_path / "hudi-catalog-spill-file").write_text("no folder")
    (tmp_path / "hudi-catalog-spill-link").symlink_to(others[1])
    with SpillFolder(str(tmp_path)) as one, SpillFolder(str(tmp_path)) as another:
        assert Path(one.path).is_dir()
        assert Path(another.path).is_dir()
        remove_abandoned(str(tmp_path))
        assert Path(one.path).is_dir()
        assert Path(another.path).is_dir()
    kept = {"hudi-catalog-spilled", "rows", "hudi-catalog-spill-file", "hudi-catalog-spill-link"}
    assert {entry.name for entry in tmp_path.iterdir()} == kept


def test_a_folder_that_cannot_be_made_is_an_error_of_the_storage(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="absent"):
        _ = SpillFolder(str(tmp_path / "absent")).path
