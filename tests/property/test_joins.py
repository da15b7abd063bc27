"""Joins by buckets, or without, equal DuckDB's own joins of all rows."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import hudi_catalog
from hudi_catalog.joins import JOINS
from pushdown.verdict import CannotPrune
from tests.property.profile import examples

pytestmark = pytest.mark.slow
#: Record keys, bucket fields and keys of the join, which may be more or fewer than these.
KEYS = (
    (["n"], [], ["n"]),
    (["t"], [], ["t"]),
    (["n", "t"], ["n"], ["n"]),
    (["n", "t"], ["n"], ["n", "t"]),
    (["n", "t"], [], ["t", "n"]),
    (["t", "n"], ["n", "t"], ["n", "t"]),
    (["n"], [], ["v"]),
    (["n", "t"], ["n"], ["t"]),
)
NUMBERS = st.integers(-4, 12) | st.sampled_from([2**31 - 1, -(2**31)])
TEXTS = st.sampled_from(["a", "b", "c", "d", "e", "é", "Z"])
AWKWARD = st.sampled_from(["a", "x:y", "n:1", "t:a,n:1", "a,b", "__null__", "__empty__", ""])


BLANK = (None, "", "__null__", "__empty__")


@dataclass(frozen=True)
class Made:
    """A table to make."""

    rows: pa.Table
    buckets: int
    wide: bool
    partitioned: bool

    def table(self, folder: str, record_key: Sequence[str], hashed: Sequence[str]) -> hudi_catalog.Table:
        kind = "bigint" if self.wide else "int"
        table = hudi_catalog.create_table(
            folder,
            f"n {kind}, t string, v int, p string",
            record_key=record_key,
            partition_by=["p"] if self.partitioned else [],
            buckets=self.buckets,
            options={"hoodie.metadata.enable": "false"}
            | ({"hoodie.bucket.index.hash.field": ",".join(hashed)} if hashed else {}),
        )
        if self.rows.num_rows:
            table.insert(self.rows)  # an upsert refuses records that share the text of their key
        return table


@st.composite
def made(draw: st.DrawFn, record_key: Sequence[str], texts: st.SearchStrategy[str]) -> Made:
    single = len(record_key) == 1
    number = NUMBERS if single else NUMBERS | st.none()
    text = texts.filter(bool) if single else texts | st.none()
    row = st.fixed_dictionaries(
        {"n": number, "t": text, "v": st.integers(0, 3) | st.none(), "p": st.sampled_from(["x", "y"])}
    )
    rows = draw(
        st.lists(row, max_size=25).map(
            lambda rows: [one for one in rows if any(one[key] not in BLANK for key in record_key)]
        )
    )
    kinds = pa.schema([("n", pa.int64()), ("t", pa.string()), ("v", pa.int32()), ("p", pa.string())])
    return Made(
        pa.Table.from_pylist(rows, kinds),
        draw(st.sampled_from([1, 2, 3, 4, 8])),
        draw(st.booleans()),
        draw(st.booleans()),
    )


def expected(left: pa.Table, right: pa.Table, on: Sequence[str], how: str) -> Counter[tuple[Any, ...]]:
    """The rows by DuckDB's own join."""
    columns = [
        f"coalesce(l.{name}, r.{name})" if name in on and how in {"right", "full"} else f"l.{name}" for name in "ntvp"
    ]
    if how not in {"semi", "anti"}:
        columns += [f"r.{name}" for name in "ntvp" if name not in on]
    condition = " AND ".join(f"l.{name} = r.{name}" for name in on)
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        query = f"SELECT {', '.join(columns)} FROM l {how} JOIN r ON {condition}"
        return Counter(connection.execute(query).fetchall())


@examples(15)
@given(data=st.data(), how=st.sampled_from(JOINS), keys=st.sampled_from(KEYS), awkward=st.booleans())
def test_joins_equal_those_of_all_rows(data: st.DataObject, how: str, keys: Any, awkward: bool) -> None:
    record_key, hashed, on = keys
    texts = AWKWARD if awkward else TEXTS
    sides = [data.draw(made(record_key, texts)) for _ in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        tables = [one.table(f"{folder}/{at}", record_key, hashed) for at, one in enumerate(sides)]
        scans = [table.scan(columns=list("ntvp")) for table in tables]
        joined = hudi_catalog.join(tables[0], tables[1], on, how)
        rows = joined.to_arrow()
        steps = joined.steps
        event("at once" if isinstance(steps, CannotPrune) else f"{steps} steps")
        assert Counter(zip(*rows.to_pydict().values(), strict=True)) == expected(
            scans[0].to_arrow(), scans[1].to_arrow(), on, how
        ), joined.explain()
        counts = [one.buckets for one in sides]
        fits = max(counts) % min(counts) == 0
        if not awkward and on != ["v"] and not (on == ["t"] and hashed) and fits:
            assert steps == min(counts), joined.explain()
