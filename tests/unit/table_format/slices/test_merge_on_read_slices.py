import pyarrow as pa
import pytest

from table_format.actions.table_services import CompactionPlan
from table_format.errors import UnsupportedTableError
from table_format.instant import Instant, State
from table_format.slices.file_slices import (
    FILES_SCHEMA,
    REPLACED_SCHEMA,
    SLICES_SCHEMA,
    latest_base_files,
    latest_file_slices,
    list_data_files,
    read_optimized_slices,
)
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from tests.support.golden_tables import NAMES, NEW_NAMES, facts, lay_out
from tests.support.history_files import write_history
from tests.support.work import function_calls

PENDING = [name for name in NEW_NAMES if name.endswith("mor_pending")]
NONE_REPLACED = REPLACED_SCHEMA.empty_table()


def _listing(*names, partition="p"):
    rows = [{"partition": partition, "file_name": name, "size": 10 + i} for i, name in enumerate(names)]
    return pa.Table.from_pylist(rows, FILES_SCHEMA)


def _timeline(*instants, layout=1, storage=None):
    """Instants as `time`, `time action`, `time completion` or `time action completion`; pending ones end with ?."""
    made = []
    for text in instants:
        moment, *rest = text.rstrip("?").split()
        action = next((word for word in rest if not word.isdigit()), "deltacommit")
        completion = next((word for word in rest if word.isdigit()), f"{moment}1") if layout == 2 else None
        pending = text.endswith("?")
        state = State.INFLIGHT if pending else State.COMPLETED
        made.append(Instant(moment, action, state, None if pending else completion))
    history = ".hoodie/timeline/history" if storage else ""
    return Timeline(storage, tuple(sorted(made)), ".hoodie", layout, {}, history)


def _slices(files, timeline, **options):
    slices = latest_file_slices(files, timeline, **{"replaced": NONE_REPLACED, **options})
    assert slices.schema == SLICES_SCHEMA
    slices.validate(full=True)
    return [(row["instant"], row["file_name"], [log["file_name"] for log in row["logs"]]) for row in slices.to_pylist()]


@pytest.mark.parametrize("name", NEW_NAMES)
def test_slices_are_those_of_apache(name, tmp_path):
    client = TableClient.open(lay_out(name, tmp_path))
    files, timeline, known = list_data_files(client.storage), client.timeline(), facts(name)
    slices = latest_file_slices(files, timeline)
    by_group = {(r["partition"], r["file_id"]): r for r in slices.to_pylist()}
    assert by_group.keys() == {(partition, file_id) for partition, file_id, *_ in known["slices"]}
    for partition, file_id, instant, base, logs in known["slices"]:
        row = by_group[partition, file_id]
        log_names = [log["file_name"] for log in row["logs"]]
        assert (row["instant"], row["file_name"]) == (instant, base)
        assert log_names == logs
        sizes = {f"{partition}/{log['file_name']}".lstrip("/"): log["size"] for log in row["logs"]}
        assert sizes.items() | {(row["path"], row["size"])} <= known["files"].items()
    assert list(by_group) == sorted(by_group)


@pytest.mark.parametrize("name", PENDING)
def test_logs_after_a_pending_compaction_are_read_with_the_slice_before(name, tmp_path):
    client = TableClient.open(lay_out(name, tmp_path))
    files, timeline = list_data_files(client.storage), client.timeline()
    logs = [row["file_name"] for row in files.to_pylist() if ".log." in row["file_name"]]
    slices = latest_file_slices(files, timeline).to_pylist()
    assert sorted(log["file_name"] for row in slices for log in row["logs"]) == sorted(logs)
    [compaction] = timeline.pending_compactions
    assert max(facts(name)["commits_of_rows"]) > compaction.time, "the rows that Apache reads are of later logs too"
    plan = CompactionPlan.from_avro(timeline.read(compaction.at(State.REQUESTED)), "plan")
    before = latest_file_slices(files, timeline, as_of=compaction.time[:-1])
    assert {(o.partition, o.file_id, o.base_instant, o.base_file, tuple(o.log_files)) for o in plan.operations} == {
        (r["partition"], r["file_id"], r["instant"], r["file_name"], tuple(log["file_name"] for log in r["logs"]))
        for r in before.to_pylist()
    }


@pytest.mark.parametrize("name", NEW_NAMES)
def test_read_optimized_slices_are_the_base_files(name, tmp_path):
    client = TableClient.open(lay_out(name, tmp_path))
    files, timeline = list_data_files(client.storage), client.timeline()
    slices = read_optimized_slices(files, timeline)
    assert slices.drop_columns("logs") == latest_file_slices(files, timeline).drop_columns("logs")
    assert not slices["logs"].combine_chunks().flatten()


@pytest.mark.parametrize("name", NAMES[::5])
def test_copy_on_write_tables_have_slices_without_logs(name, tmp_path):
    client = TableClient.open(lay_out(name, tmp_path))
    files, timeline = list_data_files(client.storage), client.timeline()
    slices = latest_file_slices(files, timeline)
    assert slices.drop_columns("logs") == latest_base_files(files, timeline)
    assert not slices["logs"].combine_chunks().flatten()


def test_logs_follow_each_other_by_version_and_token():
    names = [f".a-0_3.log.{v}_{t}" for v, t in ((10, "0-1-1"), (2, "0-9-1"), (2, "0-10-1"), (1, "1-0-1"))]
    files = _listing("a-0_0-0-0_3.parquet", *names, ".a-0_3.log.3_0-1-1.cdc")
    expected = [names[3], names[2], names[1], names[0]]
    assert _slices(files, _timeline("3 commit")) == [("3", "a-0_0-0-0_3.parquet", expected)]


def test_a_log_belongs_to_the_slice_of_its_name():
    files = _listing("a-0_0-0-0_3.parquet", "a-0_0-0-0_5.parquet", ".a-0_3.log.1_0-0-0", ".a-0_5.log.1_0-0-0")
    timeline = _timeline("3 commit", "4", "5 commit", "6")
    assert _slices(files, timeline) == [("5", "a-0_0-0-0_5.parquet", [".a-0_5.log.1_0-0-0"])]
    assert _slices(files, timeline, as_of="4") == [("3", "a-0_0-0-0_3.parquet", [".a-0_3.log.1_0-0-0"])]


def test_groups_of_logs_only():
    files = _listing(".b-0_4.log.1_0-0-0", ".b-0_4.log.2_0-0-0", "a-0_0-0-0_3.parquet")
    timeline = _timeline("3 commit", "4", "5")
    [_, lonely] = latest_file_slices(files, timeline, replaced=NONE_REPLACED).to_pylist()
    assert (lonely["file_id"], lonely["instant"], lonely["file_name"], lonely["path"]) == ("b-0", "4", None, None)
    assert lonely["size"] == 0
    assert [log["size"] for log in lonely["logs"]] == [10, 11]
    assert len(_slices(files, timeline, as_of="3")) == 1
    assert len(_slices(files, _timeline("3 commit", "4?"))) == 1, "begun by a write that did not complete"
    assert _slices(_listing(".b-0_4.log.1_0-0-0"), timeline) == [("4", None, [".b-0_4.log.1_0-0-0"])]
    assert read_optimized_slices(files, timeline, replaced=NONE_REPLACED)["file_id"].to_pylist() == ["a-0"]


def test_logs_of_a_pending_compaction_without_an_older_slice():
    files = _listing(".b-0_4.log.1_0-0-0", ".b-0_5.log.1_0-0-0")
    expected = ("4", None, [".b-0_4.log.1_0-0-0", ".b-0_5.log.1_0-0-0"])
    assert _slices(files, _timeline("4", "5 compaction?", "6")) == [expected]
    assert _slices(files, _timeline("4", "5 commit", "6")) == [expected], "completed, but there was nothing to write"


@pytest.mark.parametrize("layout", [1, 2])
def test_replaced_groups_go_with_their_logs(layout):
    files = _listing("a-0_0-0-0_3.parquet", ".a-0_3.log.1_0-0-0", ".b-0_3.log.1_0-0-0", "c-0_0-0-0_3.parquet")
    gone = pa.Table.from_pylist([{"partition": "p", "file_id": i, "replaced_at": "4"} for i in ("a-0", "b-0")])
    timeline = _timeline("3", "4 replacecommit", layout=layout)
    assert _slices(files, timeline, replaced=gone) == [("3", "c-0_0-0-0_3.parquet", [])]
    assert len(_slices(files, timeline, replaced=gone.filter(pa.array([False, True])))) == 2


def test_the_same_file_id_in_two_partitions():
    files = pa.concat_tables(
        [
            _listing("0-0_0-0-0_3.parquet", ".0-0_3.log.1_0-0-0"),
            _listing("0-0_0-0-0_4.parquet", ".0-0_4.log.1_0-0-0", partition="p/0-0"),
        ]
    )
    assert _slices(files, _timeline("3", "4")) == [
        ("3", "0-0_0-0-0_3.parquet", [".0-0_3.log.1_0-0-0"]),
        ("4", "0-0_0-0-0_4.parquet", [".0-0_4.log.1_0-0-0"]),
    ]


def test_layout_2_goes_by_completion_times():
    # the deltacommit 40 completed after the compaction 50 was planned, which therefore did not take it in
    files = _listing("a-0_0-0-0_20.parquet", "a-0_0-0-0_50.parquet", *(f".a-0_{t}.log.1_0-0-0" for t in (30, 40, 60)))
    timeline = _timeline("20 21", "30 31", "40 55", "50 commit 59", "60 61", layout=2)
    assert _slices(files, timeline) == [("50", "a-0_0-0-0_50.parquet", [".a-0_40.log.1_0-0-0", ".a-0_60.log.1_0-0-0"])]
    assert _slices(files, timeline, as_of="45") == [("20", "a-0_0-0-0_20.parquet", [".a-0_30.log.1_0-0-0"])]
    pending = _timeline("20 21", "30 31", "40 55", "50 compaction?", "60 61?", layout=2)
    assert _slices(files, pending) == [("20", "a-0_0-0-0_20.parquet", [".a-0_30.log.1_0-0-0", ".a-0_40.log.1_0-0-0"])]


def test_layout_2_at_the_moment_of_completion():
    files = _listing("a-0_0-0-0_20.parquet", "a-0_0-0-0_50.parquet", ".a-0_40.log.1_0-0-0")
    [(_, _, logs)] = _slices(files, _timeline("20 21", "40 50", "50 commit 59", layout=2))
    assert logs == [".a-0_40.log.1_0-0-0"]
    [(_, _, logs)] = _slices(files, _timeline("20 21", "40 49", "50 commit 59", layout=2))
    assert logs == []


class TestArchivedLogs:
    FILES = _listing("a-0_0-0-0_20.parquet", "a-0_0-0-0_50.parquet", ".a-0_40.log.1_0-0-0")

    def timeline(self, folder):
        client_storage = TableClient.open(lay_out("v9_1200__mor_log", folder)).storage
        return _timeline("60 61", layout=2, storage=client_storage)

    def test_the_history_tells_when_they_completed(self, tmp_path):
        timeline = self.timeline(tmp_path)
        write_history(timeline.storage, timeline.history_folder, [("20", "21"), ("40", "55"), ("50", "59")])
        assert _slices(self.FILES, timeline) == [("50", "a-0_0-0-0_50.parquet", [".a-0_40.log.1_0-0-0"])]

    def test_they_may_have_completed_before_the_newer_slice(self, tmp_path):
        timeline = self.timeline(tmp_path)
        write_history(timeline.storage, timeline.history_folder, [("20", "21"), ("40", "45"), ("50", "59")])
        assert _slices(self.FILES, timeline) == [("50", "a-0_0-0-0_50.parquet", [])]

    def test_they_may_never_have_completed(self, tmp_path):
        timeline = self.timeline(tmp_path)
        write_history(timeline.storage, timeline.history_folder, [("20", "21"), ("50", "59")])
        assert _slices(self.FILES, timeline) == [("50", "a-0_0-0-0_50.parquet", [])]

    @pytest.mark.parametrize("archived", [None, [("50", "59")]])
    def test_without_a_history_nobody_knows(self, archived, tmp_path):
        timeline = self.timeline(tmp_path)
        if archived:
            write_history(timeline.storage, timeline.history_folder, archived)
        with pytest.raises(UnsupportedTableError, match="completion time of the deltacommit 40 is unknown"):
            latest_file_slices(self.FILES, timeline, replaced=NONE_REPLACED)

    def test_no_history_is_read_where_it_does_not_matter(self):
        files = _listing("a-0_0-0-0_20.parquet", ".a-0_40.log.1_0-0-0", "b-0_0-0-0_50.parquet", ".b-0_60.log.1_0-0-0")
        slices = _slices(files, _timeline("60 61", layout=2, storage=None))
        assert [logs for _, _, logs in slices] == [[".a-0_40.log.1_0-0-0"], [".b-0_60.log.1_0-0-0"]]


@pytest.mark.parametrize("layout", [1, 2])
def test_logs_are_handled_by_columns(layout):
    count = 30_000
    ids = [f"{i:08d}-b357-4fbc-a6e6-074972b72bab-0" for i in range(count)]
    bases = [f"{ids[i]}_{i}-13-23_20261121080{i % 5}00000.parquet" for i in range(count)]
    logs = [f".{ids[i]}_20261121080{i % 5}00000.log.{v}_{i}-13-23" for i in range(count) for v in (1, 2)]
    files = pa.table({"partition": ["p"] * 3 * count, "file_name": bases + logs, "size": [1] * 3 * count})
    timeline = _timeline(*(f"20261121080{i}00000" for i in range(5)), layout=layout)
    slices = latest_file_slices(files, timeline, replaced=NONE_REPLACED)
    assert len(slices["logs"].combine_chunks().flatten()) == 2 * count
    assert function_calls(lambda: latest_file_slices(files, timeline, replaced=NONE_REPLACED)) < 10_000
