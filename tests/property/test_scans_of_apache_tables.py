"""No scan loses a row of a table that Apache Hudi wrote: with log files, changed columns, indexes, nested columns.

Random filters, as texts, as Hive's storage handler sends them, as Hive's optimizer does, and for what Trino's Thrift
connector is served; each against the filter on all rows.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from catalog import Plan, Table
from catalog.planner import make_plan
from catalog.rows.slice_rows import slice_batches
from catalog.snapshots.scan_options import ScanOptions
from catalog.splits import splitter
from hudi_catalog.hive import planning
from hudi_catalog.metastore.hive_types import hive_columns
from hudi_catalog.trino.domains import bound_domain
from hudi_catalog.trino.types import TypeMapping, columns_of
from pushdown import HudiExpression, bind, matches, parse_sql
from pushdown.errors import ExpressionError
from pushdown.translators import from_search_argument
from tests.property.hive_trees import hive_tree
from tests.property.profile import examples
from tests.property.search_arguments import search_argument
from tests.property.table_filters import Filters
from tests.property.test_hive_scans import is_sent
from tests.property.test_trino_domains import served, value_sets
from tests.support.apache_folders import TABLES, lay_out
from tests.support.hive_client import Asking, read
from tests.support.trino_wire import SERVICE

FILTERS = 6
IDENTITY = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_seqno"]
MERGED = {"hoodie.catalog.hive.query.type": "snapshot"}
_LEAVES = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_integer, "LONG"),
    (pa.types.is_floating, "FLOAT"),
    (pa.types.is_decimal, "DECIMAL"),
    (pa.types.is_string, "STRING"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_timestamp, "TIMESTAMP"),
)
MAPPINGS = st.builds(
    TypeMapping,
    timestamp=st.sampled_from(["truncate", "bigint", "varchar"]),
    decimal=st.sampled_from(["varchar", "double", "bigint"]),
    binary=st.sampled_from(["base64"]),
)
Row = tuple[str, ...]


class Whole:
    """All rows of a table, slice by slice."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = Table.open(str(folder / "t"))
        self.snapshot = self.table.snapshot()
        self.rows = self.table.scan().to_arrow()
        self.of_slice = {row: self._of(row) for row in self.snapshot.live_rows.tolist()}

    def _of(self, row: int) -> set[Row]:
        batches = slice_batches(self.snapshot, self.snapshot.file_slice(row), IDENTITY)
        return {one for _, batch in batches for one in identities(batch)}

    def check(self, plan: Plan, wanted: set[Row]) -> None:
        """The slices of a plan hold the rows, and no others where all rows match."""
        kept = [self.of_slice[row] for row in plan.rows.tolist()]
        assert wanted <= set().union(*kept)
        assert all(self.of_slice[row] <= wanted for row in plan.rows[plan.fully_matching].tolist())

    def passing(self, expression: HudiExpression) -> set[Row] | None:
        """The rows for which a filter is true; None if no engine takes it."""
        try:
            truth: Any = matches(bind(expression, self.snapshot.schema), self.rows)
        except ExpressionError:
            return None
        return set(identities(self.rows.filter(truth)))


def identities(rows: pa.Table) -> list[Row]:
    return list(zip(*(rows[name].to_pylist() for name in IDENTITY), strict=True))


@pytest.fixture(autouse=True)
def _everything_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitter, "_PRUNE_BYTES", 1)
    monkeypatch.setattr(planning, "_LEAST_SPLIT", 1)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Whole]:
    folders = lay_out(tmp_path_factory.mktemp("apache"))
    return {what: Whole(folder) for what, folder in folders.items()}


@pytest.mark.parametrize("what", TABLES)
@examples(2)
@given(data=st.data())
def test_filters_of_texts_and_of_hive(tables: dict[str, Whole], what: str, data: st.DataObject) -> None:
    whole = tables[what]
    schema = whole.snapshot.schema
    types = {name: one.type for name, one in zip(schema.names, hive_columns(schema), strict=True)}
    leaves = {field.name: leaf for field in schema for test, leaf in _LEAVES if test(field.type)}
    asking = Asking(whole.folder)
    for condition in data.draw(st.lists(Filters(whole.rows).trees(), min_size=FILTERS, max_size=FILTERS)):
        note(repr(condition))
        wanted = whole.passing(condition)
        if wanted is None:
            continue
        scan = whole.table.scan(condition)
        whole.check(scan.plan(), wanted)
        assert set(identities(scan.to_arrow())) == wanted
        # a text is read by Spark's rules, which change what some comparisons mean
        text = parse_sql(str(condition))
        meant = whole.passing(text)
        if meant is not None:
            whole.check(whole.table.scan(str(condition)).plan(), meant)
        argument = search_argument(condition, leaves, between=data.draw(st.booleans()))
        kept = whole.table.scan(from_search_argument(argument)).plan().rows.tolist()
        assert wanted <= set().union(*(whole.of_slice[row] for row in kept))
        if is_sent(condition):
            sent = json.dumps(hive_tree(condition, types))
            splits = asking.splits("t", filter=sent, splitBytes=1 << 14, columns=IDENTITY, settings=MERGED).splits
            assert wanted <= set(identities(read(splits, IDENTITY)))
    asking.service.close()


@pytest.mark.parametrize("what", TABLES)
@examples(2)
@given(data=st.data(), mapping=MAPPINGS)
def test_domains_of_served_values(
    tables: dict[str, Whole], what: str, data: st.DataObject, mapping: TypeMapping
) -> None:
    whole = tables[what]
    columns = columns_of(whole.snapshot.schema, mapping)
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    for _ in range(FILTERS):
        domains, passing = {}, [True] * whole.rows.num_rows
        for column in chance.sample(columns, min(len(columns), 2)):
            field, values = served(whole.rows[column.source].combine_chunks(), column)
            numbers = [value for value in values if value is not None and value == value]
            value_set, inside = data.draw(value_sets(field, numbers))
            null = data.draw(st.booleans())
            domains[column.name] = SERVICE.TrinoThriftDomain(value_set, null)
            contained = [null if one is None else one == one and inside(one) for one in values]
            passing = [both and one for both, one in zip(passing, contained, strict=True)]
        expression = bound_domain(whole.snapshot, columns, SERVICE.TrinoThriftTupleDomain(domains))
        note(repr(expression))
        wanted = {row for row, passes in zip(identities(whole.rows), passing, strict=True) if passes}
        whole.check(make_plan(whole.snapshot, expression, ScanOptions()), wanted)
