"""A cluster: executors are JVMs of their own, to which no class goes that the driver compiled for itself."""

import json
from pathlib import Path

import pytest

from tests.support.scripts import printed

pytestmark = pytest.mark.spark


def test_executors_of_their_own(tmp_path: Path) -> None:
    ids = range(20_000)
    lines = printed(Path(__file__).with_name("executors_script.py"), tmp_path, seconds=400)
    assert json.loads(lines[-1]) == {
        "one": [38.5],
        "some": sum(one % 4 == 2 and one >= 200 and one % 7 == 3 for one in ids),
        "by executors": 7,
        "joined": [10_000, 20_000.0],
        "exchanges": 0,
        "after": [20_009, 20, 9],
        "amount": 4.5,
    }
