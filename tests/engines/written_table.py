"""A table that a release of Apache Hudi wrote, with what Apache and we read of it."""

import random
from pathlib import Path

import pyarrow as pa

from catalog import Table
from pushdown import HudiExpression
from pushdown.binding.bind import bind
from pushdown.evaluation.rows import matches
from tests.engines.apache_tables import ApacheTable
from tests.support.apache_hudi_client import ApacheHudi
from tests.support.filter_battery import random_filter

_FAVOURITES = ["id", "_hoodie_record_key", "part"]


class Written:
    """One table, as Apache left it and reads it.

    Release 1.0.2 fails to merge its own deletes with long ordering values, so 1.2.0 reads its merge-on-read tables.
    """

    def __init__(self, engine: ApacheHudi, reader: ApacheHudi, table: ApacheTable, path: Path) -> None:
        self.engine = engine
        self.spec = table
        self.path = table.write(engine, path)
        self.theirs = reader.read(self.path, options=table.apache_reads_with)
        self.table = Table.open(str(self.path))
        self.ours = self.table.scan().to_arrow()

    def filters(self, count: int) -> list[HudiExpression]:
        chance = random.Random(self.spec.name)
        favourites = [name for name in _FAVOURITES if name in self.ours.column_names]
        return [random_filter(self.ours, favourites, chance) for _ in range(count)]

    def matching(self, expression: HudiExpression) -> pa.Table:
        return self.ours.filter(matches(bind(expression, self.ours.schema), self.ours))
