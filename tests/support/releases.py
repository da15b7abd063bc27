"""Which releases of Apache Hudi meet which cases: one each, in turns, where a test has many cases for each release."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from zlib import crc32

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
