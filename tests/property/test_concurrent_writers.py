"""Writers at the same time, some of which are killed or meet a full disk, against a dictionary."""

import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.property.concurrent_rounds import Soak

_NIGHTLY = settings.get_current_profile_name() == "nightly"
_ROUNDS = 10


@pytest.mark.parametrize("seed", range(100 if _NIGHTLY else 5))
def test_the_table_holds_what_its_writers_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten rounds of one table; nothing that was reported as written is lost, and no writer sees an error of others."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the machine does not die in these tests
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder) / "t", random.Random(seed))
        for _ in range(_ROUNDS):
            soak.round()
        soak.finish()
        assert soak.kinds["ok"] > 0
