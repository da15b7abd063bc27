"""Writers that die anywhere: repair leaves the rows as they are, and no file that belongs to nothing."""

import contextlib
import tempfile

from hypothesis import given
from hypothesis import strategies as st

from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.archive.archive import archive
from table_writer.repair import repair
from table_writer.services.clean import clean
from tests.property.profile import examples
from tests.support import toy_table
from tests.support.archived_tables import SHORT
from tests.support.faults import Faults, FaultyStorage, Frozen

OPTIONS = {**SHORT, "hoodie.catalog.repair.minutes": "0"}
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "upsert", "overwrite", "retried", "clean", "archive", "late", "stray"]),
        st.sampled_from(["p=a", "p=b", "p=c"]),
        st.integers(0, 40),
    ),
    min_size=3,
    max_size=14,
)


@examples(20)
@given(STEPS, st.booleans())
def test_repair_leaves_rows_and_removes_what_belongs_to_nothing(steps, listed: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        storage = Storage(f"{folder}/t")
        options = {**OPTIONS, "hoodie.metadata.enable": str(listed).lower()}
        toy_table.make(storage, options)
        for number, (step, partition, at) in enumerate(steps):
            FaultyStorage.faults = Faults(at, "before", "freeze")
            with contextlib.suppress(Frozen):
                act(FaultyStorage(storage.uri), step, {(partition, number % 2): {f"k{number % 4}": number}}, options)
            FaultyStorage.faults = Faults()
        for number, (step, partition, _) in enumerate(steps):
            leave(storage, step, partition, number, listed=listed)
        before = visible(storage)
        client = TableClient.open(storage)
        planned = repair(client, options, dry_run=True)
        done = repair(client, options)
        assert visible(storage) == before
        assert toy_table.rows_of(storage.uri) == before
        toy_table.assert_tidy(storage.uri)
        assert planned.rolled_back == done.rolled_back
        assert planned.files == done.files
        assert (done.unclear, done.unlisted, done.young) == (0, (), 0)
        again = repair(client, options)
        assert (again.files, again.rolled_back, again.leftovers) == ((), (), ())
        toy_table.upsert(client, {("p=a", 0): {"after": 1}}, options)
        assert toy_table.rows_of(storage.uri) == before | {("p=a", "after"): 1}


def act(storage: Storage, step: str, changes: toy_table.Changes, options: dict[str, str]) -> None:
    """One step by a process that may die in it."""
    client = TableClient.open(storage)
    if step == "clean":
        clean(client, {**options, "hoodie.clean.commits.retained": "1"})
    elif step == "archive":
        archive(client, options)
    elif step in ("upsert", "retried", "overwrite"):
        action = "replacecommit" if step == "overwrite" else "commit"
        tx = toy_table.begin(client, options, action)
        tx._abort_because = lambda error: None  # the process has died
        tx.mark_inflight()
        if step == "retried":
            toy_table.write_files(tx, changes, attempt=7)
        replaced: dict[str, list[str]] = {}
        for (partition, _), (file_id, _, _) in toy_table.current_files(client).items() if step == "overwrite" else ():
            if any(partition == name for name, _ in changes):
                replaced.setdefault(partition, []).append(file_id)
        stats, columns = toy_table.write_files(tx, changes, fresh=step == "overwrite")
        tx.commit(stats, schema_json=toy_table.SCHEMA_JSON, column_stats=columns, replaced=replaced)


def leave(storage: Storage, step: str, partition: str, number: int, *, listed: bool) -> None:
    """A task writes its file after its write has ended, or a file comes from nowhere."""
    timeline = TableClient.open(storage).timeline()
    times = [write.time for write in timeline.writes]
    if not times or not storage.exists(f"{partition}/.hoodie_partition_metadata"):
        return
    group = f"{number:08d}-1111-1111-1111-111111111111-0"
    if step == "late":
        # readers that list the storage see a file of a completed write
        for time in [*sorted(timeline.rolled_back), *(times if listed else ())][-1:]:
            storage.create(f"{partition}/{group}_1-9-9_{time}.parquet", b"late")
    elif step == "stray":
        time = f"{int(times[-1]) + 1}"
        if all(instant.time != time for instant in timeline.instants):
            storage.create(f"{partition}/{group}_1-9-9_{time}.parquet", b"stray")


def visible(storage: Storage) -> toy_table.Rows:
    """What readers of the metadata table see, or of the storage without one."""
    client = TableClient.open(storage)
    rows: toy_table.Rows = {}
    for (partition, _), (_, _, path) in toy_table.current_files(client).items():
        for key, value in zip(*toy_table._read(storage, path), strict=True):
            rows[partition, key] = value
    return rows
