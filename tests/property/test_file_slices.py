"""File slices of random listings and timelines are those that the rules give, file by file."""

from dataclasses import dataclass
from unittest import mock

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from table_format.instant import Instant, State
from table_format.slices import file_names, file_slices
from table_format.slices.file_names import BaseFileName, LogFileName
from table_format.slices.file_slices import (
    FILES_SCHEMA,
    REPLACED_SCHEMA,
    latest_base_files,
    latest_file_slices,
    read_optimized_slices,
)
from table_format.timeline.timeline import Timeline
from tests.property.profile import examples

#: Times are two digits, so that text order is that of numbers; completion times lie between them.
TIMES = [f"{n:02d}" for n in range(10, 20)]
GROUPS = [(partition, file_id) for partition in ("", "p", "p/q") for file_id in ("a-0", "a-1", "a-10")]


@dataclass
class Case:
    timeline: Timeline
    files: pa.Table
    as_of: str | None
    replaced: list[tuple[str, str]]


@st.composite
def cases(draw, layout):
    start = draw(st.integers(0, 4))
    instants = []
    for i, time in enumerate(TIMES[start:], start):
        kind = draw(
            st.sampled_from(
                ["deltacommit", "deltacommit", "deltacommit", "commit", "pending", "compaction", "rolled back"]
            )
        )
        state = State.INFLIGHT if kind in ("pending", "compaction") else State.COMPLETED
        action = kind if kind in ("commit", "compaction") else "deltacommit"
        completion = None
        if layout == 2 and state is State.COMPLETED:
            completion = f"{TIMES[draw(st.integers(i, len(TIMES) - 1))]}{draw(st.integers(0, 9))}"
        if kind != "rolled back" or not instants:
            instants.append(Instant(time, action, state, completion))
    groups = draw(st.lists(st.sampled_from(GROUPS), min_size=1, max_size=5, unique=True))
    rows = set()
    for partition, file_id in groups:
        for time in draw(st.lists(st.sampled_from(TIMES), max_size=4, unique=True)):
            rows.add((partition, str(BaseFileName(file_id, "0-0-0", time))))
        # archived logs of layout 2 need a history, which separate tests cover
        times = TIMES[start:] if layout == 2 else TIMES
        for time in draw(st.lists(st.sampled_from(times), max_size=6)):
            name = LogFileName(file_id, time, draw(st.integers(1, 12)), draw(st.sampled_from(["0-9-1", "0-10-1"])))
            rows.add((partition, f"{name}{draw(st.sampled_from(['', '', '', '.cdc']))}"))
    listed = [
        {"partition": p, "file_name": n, "size": i} for i, (p, n) in enumerate(draw(st.permutations(sorted(rows))))
    ]
    # the plans of pending compactions would be read from a storage, for times before them
    times = [i.time for i in instants if i.action == "compaction"] if layout == 2 else []
    as_of = draw(st.none() | st.sampled_from([time for time in TIMES if time >= max(times, default="")]))
    timeline = Timeline(None, tuple(sorted(instants)), layout=layout)
    replaced = draw(st.lists(st.sampled_from(GROUPS), max_size=2)) if timeline.writes else []
    return Case(timeline, pa.Table.from_pylist(listed, FILES_SCHEMA), as_of, replaced)


def expected_slices(case):
    """The rules, one file group at a time."""
    timeline, as_of = case.timeline, case.as_of or "99"
    compactions = {i.time for i in timeline.pending_compactions}
    result = {}
    for group in {(row["partition"], _file_id(row["file_name"])) for row in case.files.to_pylist()} - set(
        case.replaced
    ):
        rows = [r for r in case.files.to_pylist() if (r["partition"], _file_id(r["file_name"])) == group]
        bases = {b.instant: str(b) for r in rows if (b := BaseFileName.parse(r["file_name"]))}
        bases = {t: name for t, name in bases.items() if timeline.is_committed(t)}
        logs = [log for r in rows if (log := LogFileName.parse(r["file_name"])) and not log.is_cdc]
        base = max((t for t in bases if t <= as_of), default=None)
        if timeline.layout == 1:
            placed = [(g.instant, g) for g in logs if timeline.is_committed(g.instant) or g.instant in compactions]
        else:
            logs = [g for g in logs if timeline.is_committed(g.instant) and g.instant <= as_of]
            placed = [(_begun(bases, timeline.completion_time(g.instant)), g) for g in logs]
            own = min((g.instant for begun, g in placed if begun is None), default=None)
            placed = [(begun or own, g) for begun, g in placed]
        seen = [(begun, g) for begun, g in placed if begun <= as_of and (base is None or begun >= base)]
        if base or seen:
            order = sorted((g for _, g in seen), key=lambda g: (g.instant, g.version, g.write_token))
            result[group] = (base or min(begun for begun, _ in seen), bases.get(base), [str(g) for g in order])
    return result


def _begun(bases, completion):
    return max((t for t in bases if t <= completion), default=None)


def _file_id(name):
    return (BaseFileName.parse(name) or LogFileName.parse(name)).file_id


def check(case):
    # by a replacecommit of the active timeline; tests of archived ones have their own tables
    replaced = [{"partition": p, "file_id": i, "replaced_at": case.timeline.writes[-1].time} for p, i in case.replaced]
    options = {"as_of": case.as_of, "replaced": pa.Table.from_pylist(replaced, REPLACED_SCHEMA)}
    slices = latest_file_slices(case.files, case.timeline, **options)
    slices.validate(full=True)
    rows = slices.to_pylist()
    sizes = {(r["partition"], r["file_name"]): r["size"] for r in case.files.to_pylist()}
    listed = {
        (r["partition"], r["file_id"]): (r["instant"], r["file_name"], [log["file_name"] for log in r["logs"]])
        for r in rows
    }
    assert listed == expected_slices(case)
    assert list(listed) == sorted(listed)
    for row in rows:
        for entry in [*row["logs"], *([row] if row["file_name"] else [])]:
            assert entry["size"] == sizes[row["partition"], entry["file_name"]]
        assert row["path"] == (f"{row['partition']}/{row['file_name']}".lstrip("/") if row["file_name"] else None)
    optimized = read_optimized_slices(case.files, case.timeline, **options)
    with_base = slices.filter(slices["file_name"].is_valid())
    assert optimized.drop_columns("logs") == with_base.drop_columns("logs")
    plain = case.files.filter(
        pa.array([not n.startswith(".") for n in case.files["file_name"].to_pylist()], pa.bool_())
    )
    assert latest_base_files(plain, case.timeline, **options) == optimized.drop_columns("logs")


@examples(200)
@given(cases(layout=1))
def test_layout_1(case):
    check(case)


@examples(200)
@given(cases(layout=2))
def test_layout_2(case):
    check(case)


@given(
    rows=st.lists(st.tuples(st.sampled_from(GROUPS), st.sampled_from(TIMES)), min_size=1, max_size=12, unique=True),
    in_order=st.booleans(),
    at_once=st.integers(1, 4),
)
def test_slices_do_not_depend_on_how_many_files_are_looked_at_at_once(rows, in_order, at_once):
    timeline = Timeline(None, tuple(Instant(time, "commit", State.COMPLETED) for time in TIMES))
    listed = [
        {"partition": partition, "file_name": str(BaseFileName(file_id, "0-0-0", time)), "size": 1}
        for (partition, file_id), time in (sorted(rows) if in_order else rows)
    ]
    with mock.patch.object(file_slices, "_AT_ONCE", at_once), mock.patch.object(file_names, "_AT_ONCE", at_once):
        slices = latest_file_slices(pa.Table.from_pylist(listed, FILES_SCHEMA), timeline).to_pylist()
    newest = {group: max(time for other, time in rows if other == group) for group, _ in rows}
    expected = [(*group, time, str(BaseFileName(group[1], "0-0-0", time))) for group, time in sorted(newest.items())]
    assert [tuple(row[name] for name in ("partition", "file_id", "instant", "file_name")) for row in slices] == expected
