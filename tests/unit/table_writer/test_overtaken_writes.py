"""Writes that lose the files they read to another writer: they are tried again, as after other conflicts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hudi_catalog import Table, create_table, open_table
from table_format.errors import ConflictError, MissingFileError, TransactionError
from table_format.storage import Storage
from table_writer.record_index.verify import verify_index

ROW = [{"id": "k1", "part": "p1", "v": 9}]
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
BRIEF = {
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


class Made:
    """A table of two commits; `first` and `second` are their instants."""

    def __init__(self, path: Path, **arguments: Any) -> None:
        self.path = path / "t"
        self.table = create_table(self.path, "id string, part string, v bigint", record_key="id", **arguments)
        rows = [[{"id": f"k{n}", "part": f"p{n % 2}", "v": v} for n in range(4)] for v in (0, 1)]
        self.first, self.second = (str(self.table.upsert(one).instant) for one in rows)

    def opened(self) -> Table:
        return open_table(self.path)

    def values(self) -> dict[str, int]:
        return {row["id"]: row["v"] for row in self.opened().scan().to_arrow().to_pylist()}

    @contextmanager
    def beside(self, other: Callable[[], object], method: str, end: str) -> Iterator[list[int]]:
        """Runs something once, before the first storage call of a name and path, while nobody holds the lock."""
        real = getattr(Storage, method)
        done: list[int] = []

        def hooked(storage: Storage, path: str = "", *arguments: Any, **named: Any) -> Any:
            if not done and path.endswith(end) and not (self.path / ".hoodie/lock").exists():
                done.append(1)
                other()
            return real(storage, path, *arguments, **named)

        setattr(Storage, method, hooked)
        try:
            yield done
        finally:
            setattr(Storage, method, real)
        assert done


def upsert(made: Made) -> object:
    return made.table.upsert(ROW)


def update(made: Made) -> object:
    return made.table.update({"v": "v + 1"})


def delete(made: Made) -> object:
    return made.table.delete("v = 1")


def resize(made: Made) -> object:
    return made.table.resize(4)


@pytest.mark.parametrize("undo", ["rollback", "restore"])
@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (upsert, {"k0": 0, "k1": 9, "k2": 0, "k3": 0}),
        (update, {"k0": 1, "k1": 1, "k2": 1, "k3": 1}),
        (delete, {"k0": 0, "k1": 0, "k2": 0, "k3": 0}),
        (resize, {"k0": 0, "k1": 0, "k2": 0, "k3": 0}),
    ],
)
def test_the_files_that_a_write_began_with_are_undone(
    tmp_path: Path, act: Callable[[Made], object], expected: dict[str, int], undo: str
) -> None:
    made = Made(tmp_path, buckets=2)

    def undone() -> object:
        return made.opened().rollback(made.second) if undo == "rollback" else made.opened().restore(made.first)

    with made.beside(undone, "create", ".inflight"):
        act(made)
    assert made.values() == expected


def test_the_commit_that_an_index_is_of_is_undone(tmp_path: Path) -> None:
    made = Made(tmp_path, index="RECORD_INDEX")
    with made.beside(lambda: made.opened().rollback(made.second), "list", "metadata/record_index"):
        made.table.upsert(ROW)
    assert made.values() == {"k0": 0, "k1": 9, "k2": 0, "k3": 0}
    assert not any(verify_index(made.opened().client, {}).counts.values())


def test_without_attempts_the_other_write_is_named(tmp_path: Path) -> None:
    made = Made(tmp_path, buckets=2)
    with (
        made.beside(lambda: made.opened().rollback(made.second), "create", ".inflight"),
        pytest.raises(ConflictError, match=r"\(rollback\) came or went while this write was under way; .*no such file"),
    ):
        made.table.upsert(ROW, {"hoodie.catalog.write.retries": "0"})
    assert set(made.values().values()) == {0}


def test_a_file_that_is_gone_without_another_write_is_no_conflict(tmp_path: Path) -> None:
    made = Made(tmp_path, buckets=1)
    [file] = [split.path for split in made.opened().scan().plan().splits]
    Path(file.removeprefix("file:")).unlink()
    with pytest.raises(MissingFileError):
        made.table.upsert(ROW)


def test_the_state_that_a_condition_is_evaluated_on_is_compacted_away(tmp_path: Path) -> None:
    made = Made(tmp_path, buckets=2, partition_by="part")
    for _ in range(2):
        made.table.upsert(ROW, NO_SERVICES)
    writer = made.opened()

    def overwrite() -> None:
        for _ in range(3):
            open_table(made.path, options=BRIEF).insert_overwrite_table(ROW)

    with made.beside(overwrite, "list", "metadata/files"):
        assert writer.delete("v = 77").rows_deleted == 0
    assert made.values() == {"k1": 9}


@pytest.mark.parametrize("merges", [False, True])
def test_a_row_moves_while_it_is_changed(tmp_path: Path, merges: bool) -> None:
    made = Made(tmp_path, buckets=2, partition_by="part")
    moved = {"part": "'p1'"}
    with made.beside(lambda: made.opened().update(moved, "id = 'k2'"), "list", ".hoodie/.schema"):
        if merges:
            change = made.table.merge([{"id": "k2", "v": 1}], on="id")
            change.when_matched_update({"v": "target.v + 100"}).execute()
        else:
            made.table.update({"v": "v + 100"}, "id = 'k2'")
    assert made.values() == {"k0": 1, "k1": 1, "k2": 101, "k3": 1}
    assert made.opened().scan("id = 'k2'").to_arrow()["part"].to_pylist() == ["p1"]


def test_a_held_state_whose_files_are_cleaned_says_so(tmp_path: Path) -> None:
    made = Made(tmp_path, buckets=2)
    assert made.table.scan().count() == 4
    for value in (5, 6):
        made.opened().upsert([{"id": f"k{n}", "part": "p0", "v": value} for n in range(4)])
    made.opened().clean(versions=1)
    with pytest.raises(MissingFileError, match=r"has deleted it since .*: refresh the table, and scan it again"):
        made.table.scan().to_arrow()
    assert made.table.refresh().scan().to_arrow().num_rows == 4


def test_a_plan_that_another_process_has_run(tmp_path: Path) -> None:
    made = Made(tmp_path, buckets=2)
    plan = made.table.cluster(["v"], plan_only=True)
    again = open_table(made.path)
    assert [report.instant for report in again.run_clustering()] == [plan.instant]
    with pytest.raises(TransactionError, match="has been run already, by another process"):
        made.table.run_clustering(str(plan.instant))
    assert made.table.run_clustering() == []
