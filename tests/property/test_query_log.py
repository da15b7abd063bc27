"""Whatever an engine sends, a line of the query log is one bounded line of JSON, and nothing is raised."""

import io
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.server.query_log import QueryLog
from hudi_catalog.server.status import status_page

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**300)
    | st.floats()
    | st.text()
    | st.text(st.characters(codec=None), max_size=5)
    | st.text('x\u2028"<\n', min_size=4_000, max_size=9_000)
    | st.binary()
    | st.binary(min_size=2_000, max_size=5_000)
    | st.decimals()
    | st.dates()
)
keys = st.text() | st.integers() | st.none() | st.tuples(st.integers(), st.text())
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=30)
        | st.dictionaries(keys, inner, max_size=30)
        | st.tuples(inner, inner)
        | st.frozensets(st.integers(), max_size=40)
    ),
    max_leaves=60,
)


@given(st.dictionaries(st.sampled_from(["received", "tables", "sql", "ms", "detail"]), values))
def test_a_line_is_bounded_json(fields: dict[str, Any]) -> None:
    stream = io.StringIO()
    log = QueryLog(stream)
    log.query("gateway", outcome="unchanged", reason="not parsed", **fields)
    text = stream.getvalue()
    assert log.lost == 0
    assert text.endswith("\n")
    assert len(text.splitlines()) == 1
    assert len(text) <= 32_001
    assert text.isascii()
    record = json.loads(text)
    assert record == log.recent()[0]
    assert (record["outcome"], record["reason"]) == ("unchanged", "not parsed")
    assert set(fields) <= set(record)
    page = status_page("gateway", {}, log.recent(), ready=True)
    assert page.count("<details>") == 1
