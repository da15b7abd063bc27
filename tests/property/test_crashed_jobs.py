"""Whole write jobs meet a fault at each of their changes to files, on every executor that needs no JVM."""

import os
from pathlib import Path

import pytest

from tests.property.profile import STRIDE
from tests.support.crashed_jobs import FAULTS, JOBS, CrashSite, Job, publishes
from tests.support.local_writes import EXECUTORS


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_fault_at_any_change_leaves_all_or_nothing(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes that publish, and a share of the others, are divided among the executors: all commit by the same code."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # the machine does not die in these tests
    site = CrashSite(job, tmp_path)
    executors = [*EXECUTORS]
    for turn, executor in enumerate(executors):
        steps = site.changes(executor)
        assert sum(map(publishes, steps)) >= 16
        for at, step in enumerate(steps, 1):
            share = 1 if publishes(step) else STRIDE
            if at % (share * len(executors)) == turn:
                following = executors[(turn + at) % len(executors)]
                site.fail(at, FAULTS[(at + turn) % len(FAULTS)], executor, following)
