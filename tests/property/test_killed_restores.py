"""A restore over many commits that is killed at its changes: the table is in one of the two states.

CI takes few commits, and some changes of each kind. The nightly profile takes every change of a restore over few
commits, and some of each kind over 1,000; `HUDI_CATALOG_RESTORED` says over how many.
"""

import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

import hudi_catalog
from hudi_catalog.table import create_table, open_table
from table_format.instant import Action
from tests.property.profile import STRIDE
from tests.support.faults import Faults, FaultyStorage, dying
from tests.support.toy_table import assert_tidy

pytestmark = pytest.mark.timeout(2 * 60 * 60)  # of the nightly profile
_NIGHTLY = settings.get_current_profile_name() == "nightly"
_FEW = 14
MANY = int(os.environ.get("HUDI_CATALOG_RESTORED", "1000" if _NIGHTLY else str(_FEW)))
GROWN = [(index, commits) for commits in sorted({_FEW, MANY}) for index in ("BUCKET", "RECORD_INDEX")]
KEEP = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
KEYS = 40
_ALL_OF = 400


@pytest.fixture(scope="module", params=GROWN, ids=str)
def grown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A table of many commits, and the instant of its second write."""
    index, commits = request.param
    path = tmp_path_factory.mktemp(index.lower()) / "t"
    buckets = 1 if index == "BUCKET" else None
    table = create_table(
        path,
        "id bigint, p string, v bigint",
        record_key="id",
        partition_by="p",
        index=index,
        buckets=buckets,
        options=KEEP,
    )
    target = ""
    for number in range(commits):
        table.upsert([batch_row(number * 3 + each, number) for each in range(3)])
        target = target or (table.history()[-1].instant if number == 1 else "")
    return path, target


def batch_row(key: int, number: int) -> dict[str, object]:
    return {"id": key % KEYS, "p": f"p{key % KEYS % 2}", "v": number}


def rows(path: Path) -> list[tuple[object, ...]]:
    table = open_table(path).scan(columns=["id", "p", "v"]).to_arrow()
    return sorted(tuple(row.values()) for row in table.to_pylist())


def kind(change: str) -> str:
    """A change without its numbers."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+", "#", change)


def critical(log: list[str]) -> list[int]:
    """Numbers of the changes to die at: of each kind the first two, one in the middle, and the last.

    In CI they take turns, but for those around the change by which the restore takes effect; at night, all of few.
    """
    if _NIGHTLY and len(log) <= _ALL_OF:
        return [*range(1, len(log) + 1)]
    places: dict[str, list[int]] = {}
    for number, change in enumerate(log, 1):
        places.setdefault(kind(change), []).append(number)
    chosen = sorted({at for of in places.values() for at in (*of[:2], of[len(of) // 2], of[-1])})
    effect = effect_of(log)
    return [at for turn, at in enumerate(chosen) if turn % STRIDE == 0 or abs(at - effect) <= 1]


def effect_of(log: list[str]) -> int:
    """Number of the change by which a restore takes effect."""
    return next(number for number, change in enumerate(log, 1) if change.endswith(".restore.inflight"))


def restore(path: Path, target: str) -> None:
    hudi_catalog.Table.open(FaultyStorage(str(path)), options=KEEP).restore(to=target)


def test_killed_at_its_changes(grown: tuple[Path, str], tmp_path: Path) -> None:
    original, target = grown
    before = rows(original)
    path = tmp_path / "t"
    shutil.copytree(original, path)
    FaultyStorage.faults = Faults()
    restore(path, target)
    log = list(FaultyStorage.faults.log)
    after = rows(path)
    assert len(after) == 6 != len(before)
    inflight = effect_of(log)
    seen: set[str] = set()
    for turn, at in enumerate(critical(log)):
        for when in ("before", "after") if at == inflight or _NIGHTLY else (("before", "after")[turn % 2],):
            shutil.rmtree(path)
            shutil.copytree(original, path)
            with dying(at, when):
                restore(path, target)
            took_effect = at > inflight or (at == inflight and when == "after")
            wanted = after if took_effect else before
            place = f"{when} change {at} of {len(log)}, {log[at - 1]}"
            assert rows(path) == wanted, place
            seen.add("after" if took_effect else "before")
            table = open_table(path, options=KEEP)
            table.upsert([{"id": KEYS, "p": "p0", "v": -1}])
            assert rows(path) == sorted([*wanted, (KEYS, "p0", -1)]), place
            timeline = table.client.timeline()
            assert not timeline.pending, place
            assert any(one.action == Action.RESTORE for one in timeline.completed) == took_effect, place
            if table.config.index_type == "RECORD_INDEX":
                assert table.verify_index().is_right, place
            assert_tidy(str(path))
    assert seen == {"before", "after"}
    print(f"{len(log)} changes, died at {len(critical(log))} of them")
