"""No scan of Trino's connector loses a row, and what statistics answer for it is exact.

Random tables, and those that Apache Hudi wrote with log files, changed columns and indexes, under random filters as the
connector sends them; rows are read as it reads them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from catalog import Table
from catalog.splits import splitter
from table_format.meta_columns import RECORD_KEY
from tests.property.connector_filters import Column, Filter, columns_of_rows, draw_filter, in_json, ordered
from tests.property.profile import examples
from tests.property.whole_tables import TablePlan, table_plans
from tests.support.apache_folders import TABLES, lay_out
from tests.support.connector_client import Asking

FILTERS = 6
IDENTITY = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_seqno")
chances = st.integers(0, 2**32).map(random.Random)


@pytest.fixture(autouse=True)
def _everything_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitter, "_PRUNE_BYTES", 1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return lay_out(tmp_path_factory.mktemp("apache"))


class Checks:
    """A table's rows, and what is asked about them.

    Args:
        path: of the table.
        chance: of everything.
    """

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.name, self.chance = path.name, chance
        sizes = {"page_size": chance.choice(["40", "4000"]), "split_size": str(1 << 20)}
        self.asking = Asking(path.parent, **sizes)
        table = Table.open(str(path))
        rows = table.scan().to_arrow()
        self.ids = _identities(rows)
        self.columns = columns_of_rows(rows)
        often = {name.lower() for name in (*table.config.partition_fields, *table.config.record_key_fields, RECORD_KEY)}
        self.favourites = [column for column in self.columns if column.name in often]

    def run(self) -> None:
        for _ in range(FILTERS):
            drawn = draw_filter(self.columns, self.favourites, len(self.ids), self.chance)
            note(repr(drawn.members))
            request = self.asking.pinned(self.name, **drawn.members)
            kept = self.kept(request)
            assert len(kept) == len(set(kept))
            assert set(drawn.of_rows(self.ids)) <= set(kept)
            self.check_aggregates(request, drawn)
            self.check_limits(request, drawn)
            self.asking.ask("hudiStatistics", request)

    def kept(self, request: dict[str, Any]) -> list[tuple[str, ...]]:
        return self.asking.rows(request, self.asking.ask("hudiPlan", request), IDENTITY)

    def check_aggregates(self, request: dict[str, Any], drawn: Filter) -> None:
        """Statistics give what the rows give, or nothing."""
        asked, expected = [{"function": "count"}], [sum(drawn.rows)]
        for column in self.chance.sample(self.columns, min(3, len(self.columns))):
            function = self.chance.choice(["count", "min", "max"])
            values = [value for value in drawn.of_rows(column.values) if value is not None]
            if not column.path:
                asked.append({"function": function, "column": column.name})
                expected.append(len(values) if function == "count" else _edge(function, column, values))
        values = self.asking.ask("hudiAggregates", {**request, "aggregates": asked})["values"]
        assert values in (None, expected)

    def check_limits(self, request: dict[str, Any], drawn: Filter) -> None:
        """Files that a limit and an order leave out are not needed."""
        limit = self.chance.randint(1, max(1, sum(drawn.rows)))
        passing = set(drawn.of_rows(self.ids))
        assert len(passing & set(self.kept({**request, "limit": limit}))) >= min(limit, len(passing))
        sortable = [one for one in self.columns if not one.path and not pa.types.is_floating(one.kind)]
        column = self.chance.choice(sortable)
        order = {name: self.chance.random() < 1 / 2 for name in ("ascending", "nulls_first")}
        kept = set(self.kept({**request, "limit": limit, "order": {"column": column.name, **order}}))
        present = [
            one for one, row in zip(drawn.of_rows(column.values), drawn.of_rows(self.ids), strict=True) if row in kept
        ]
        assert _first(present, limit, **order) == _first(drawn.of_rows(column.values), limit, **order)


def _identities(rows: pa.Table) -> list[tuple[str, ...]]:
    ids: list[tuple[str, ...]] = list(zip(*(rows[name].to_pylist() for name in IDENTITY), strict=True))
    assert len(ids) == len(set(ids))
    return ids


def _edge(function: str, column: Column, values: Sequence[Any]) -> Any:
    edge = min if function == "min" else max
    return in_json(edge(values, key=ordered), column.kind) if values else None


def _first(values: Sequence[Any], limit: int, *, ascending: bool, nulls_first: bool) -> list[Any]:
    nulls = [value for value in values if value is None]
    rest = sorted((value for value in values if value is not None), key=ordered, reverse=not ascending)
    return (nulls + rest if nulls_first else rest + nulls)[:limit]


@examples(8)
@given(table_plans(), chances)
def test_random_tables(plan: TablePlan, chance: random.Random) -> None:
    with plan.written() as written:
        Checks(Path(written.path), chance).run()


@pytest.mark.parametrize("what", TABLES)
@examples(2)
@given(chance=chances)
def test_tables_that_apache_wrote(folders: dict[str, Path], what: str, chance: random.Random) -> None:
    Checks(folders[what] / "t", chance).run()
