"""Which cases of a test run: those with Apache's releases in turns, and a share of those of tests marked `in_turns`."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from zlib import crc32

import pytest

_RELEASE = re.compile(r"(?<![\w.])\d+\.\d+\.\d+(?![\w.])")


def release_of(nodeid: str) -> str | None:
    """The release of Apache Hudi that a test runs with, by its parameters; None if these name none."""
    match = _RELEASE.search(nodeid.partition("[")[2])
    return match[0] if match else None


def left_out(nodeids: Iterable[str]) -> set[str]:
    """The tests that are left out, of those collected.

    A test of one case runs with all its releases. Of several cases each runs with one release, the same in all tests of
    its name, so that tables that a release writes for several tests are written by it alone.

    Args:
        nodeids: as pytest has them, such as `test_x.py::test_reads[0.15.0-types]`.
    """
    tests: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for nodeid in nodeids:
        test, _, case = nodeid.partition("[")
        if release_of(nodeid):
            tests[test][_RELEASE.sub("", case)].append(nodeid)
    return {
        nodeid
        for cases in tests.values()
        if len(cases) > 1
        for case, of_releases in cases.items()
        for nodeid in of_releases
        if nodeid != sorted(of_releases)[crc32(case.encode()) % len(of_releases)]
    }


def out_of_turn(cases: Iterable[tuple[str, int]]) -> set[str]:
    """The cases that are left out of tests of which a share runs.

    Args:
        cases: the node id of each case, in order, and of how many cases of its test one runs.
    """
    places: Counter[str] = Counter()
    dropped = set()
    for nodeid, share in cases:
        test = nodeid.partition("[")[0]
        if places[test] % share != crc32(test.encode()) % share:
            dropped.add(nodeid)
        places[test] += 1
    return dropped


def all_cases() -> bool:
    """Whether no case is left out, as nightly."""
    return bool(os.environ.get("HUDI_CATALOG_ALL_CASES"))


def shares(items: Iterable[pytest.Item]) -> Iterator[tuple[str, int]]:
    """The cases of tests marked `in_turns`, and of how many one runs."""
    for item in items:
        mark = item.get_closest_marker("in_turns")
        if mark is not None:
            yield item.nodeid, mark.args[0]


def deselect(config: pytest.Config, items: list[pytest.Item], dropped: set[str]) -> None:
    """Take tests out of those collected."""
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in dropped])
    items[:] = [item for item in items if item.nodeid not in dropped]
