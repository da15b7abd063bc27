"""No scan of Hive loses a row of a whole table: random tables, and random filters as Hive's storage handler sends them.

Splits are read as Hive reads them, from the table's files and from those that the service writes for Hive.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from hudi_catalog.hive import planning
from hudi_catalog.metastore.hive_types import hive_columns
from pushdown import HudiExpression, Predicate, bind, matches
from pushdown.errors import ExpressionError
from pushdown.walk import leaves
from tests.property.hive_trees import hive_tree
from tests.property.profile import examples
from tests.property.table_filters import Filters
from tests.property.whole_tables import ROW, TablePlan, table_plans
from tests.support.hive_client import Asking, read
from tests.support.lost_rows import FullScan

FILTERS = 8


@pytest.fixture(autouse=True)
def _everything_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.splits.splitter._PRUNE_BYTES", 1)
    monkeypatch.setattr(planning, "_LEAST_SPLIT", 1)


def is_sent(expression: HudiExpression) -> bool:
    """Whether `hive_tree` has a form for it."""
    predicates = [leaf for leaf in leaves(expression) if isinstance(leaf, Predicate)]
    texts = [value for leaf in predicates for value in leaf.values if isinstance(value, str)]
    return not any("." in leaf.column or leaf.function for leaf in predicates) and not any(
        "\\" in text for text in texts
    )


def numbers(splits: Any) -> list[int]:
    row_numbers: list[Any] = read(splits, [ROW])[ROW].to_pylist()
    return sorted(row_numbers)


@examples(10)
@given(table_plans(), st.data())
def test_rows_that_match_are_in_the_splits(plan: TablePlan, data: st.DataObject) -> None:
    with plan.written() as written:
        folder = Path(written.path)
        asking = Asking(folder.parent)
        most = data.draw(st.sampled_from([1, 1000, 1 << 30]), label="bytes of a split")
        assert numbers(asking.splits(folder.name, splitBytes=most).splits) == sorted(written.rows.values())
        table = written.open()
        full, schema = FullScan.of(table), table.snapshot().schema
        columns = zip(schema.names, hive_columns(schema), strict=True)
        types = {name: column.type for name, column in columns}
        for condition in data.draw(st.lists(Filters(full.rows).trees(), min_size=FILTERS, max_size=FILTERS)):
            if not is_sent(condition):
                continue
            note(repr(condition))
            try:
                truth: pa.BooleanArray = matches(bind(condition, schema), full.rows)
            except ExpressionError:
                continue
            wanted = full.rows.filter(truth)[ROW].to_pylist()
            sent = json.dumps(hive_tree(condition, types))
            served = numbers(asking.splits(folder.name, filter=sent, splitBytes=most).splits)
            assert set(wanted) <= set(served)
            assert len(served) == len(set(served))
        asking.service.close()
