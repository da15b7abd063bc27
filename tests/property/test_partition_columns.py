"""Partition columns of every type, texts that are odd in paths among them: what writes do, and what filters find after.

Paths are hive style or not, and escaped or not; the index is by buckets or keys, or by keys of each partition.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st

from catalog import Table
from hudi_catalog.metastore.hive_types import hive_columns
from pushdown import And, HudiExpression, Not, Op, Or, Predicate, bind, matches
from table_format.errors import RecordError
from table_format.keys.key_generator import from_table_config
from tests.property.hive_trees import hive_tree
from tests.property.profile import examples
from tests.property.test_connector_scans import Checks
from tests.property.test_hive_scans import is_sent
from tests.support.hive_client import Asking, read
from tests.support.local_writes import LocalTable
from tests.support.table_values import INF, NAN

_TEXTS = [
    "a",
    "b",
    "日本",
    "😀",
    "a b",
    "a ",
    " a",
    "x=y",
    "50%",
    "%41",
    "A",
    "a/b",
    "a/b/c",
    "__HIVE_DEFAULT_PARTITION__",
    "__hive_default_partition__",
    "a:b",
    "p0=a",
    "p0=__HIVE_DEFAULT_PARTITION__",
    "a%2Fb",
    "%2F",
    "%",
    "%zz",
    "%00",
    ".x",
    "_x",
    "a*b",
    "a?b",
    "[a]",
    "a{b}",
    "'",
    '"',
    "a\\b",
    "null",
    "true",
    "1",
    "01",
    "é",
    "e\u0301",
    "a+b",
    "a#b",
    "a,b",
    "a/p1=b",
    "~",
    "...",
    "x.parquet",
    "/a",
    "a/",
    "a//b",
    "..",
    ".",
    "\x7f",
    "\uffff",
    "\U0010ffff",
    "2020-01-01",
]
_DAY = 86_400_000_000
#: Dates and times as numbers: Python has not all of them.
POOLS: Mapping[pa.DataType, list[Any]] = {
    pa.string(): [*_TEXTS, "", "a\tb", "a\nb", None],
    pa.binary(): [b"", b"a", b"\x00", b"\xff", b"a/b", b"\x80\x81", None],
    pa.int32(): [0, 1, -1, 2**31 - 1, -(2**31), None],
    pa.int64(): [0, 7, -(2**63), 2**63 - 1, None],
    pa.float32(): [0.0, -0.0, 1.5, 1e10, -1e-10, NAN, INF, -INF, None],
    pa.float64(): [0.0, -0.0, 0.1, 1e300, 5e-324, 1e7, NAN, INF, -INF, None],
    pa.decimal128(10, 2): [Decimal("1.50"), Decimal("-0.01"), Decimal("0.00"), Decimal("99999999.99"), None],
    pa.decimal128(38, 10): [Decimal("1.5000000000"), Decimal("0E-10"), Decimal("1E-10"), Decimal("-1.000E-7"), None],
    pa.bool_(): [True, False, None],
    pa.date32(): [0, 18321, 18322, -719162, 2932896, -1, -141428, 2932897, -719163, None],
    pa.timestamp("us", "UTC"): [0, 18321 * _DAY, 18321 * _DAY + 1, -1, None],
}
_OPERATIONS = ("upsert", "upsert", "insert_overwrite", "insert_overwrite_table", "delete", "delete_partition")
_COMPARE = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.NULL_SAFE_EQ, Op.NULL_SAFE_NE)
_INDEXES = (
    {"hoodie.bucket.index.num.buckets": "2"},
    {"hoodie.index.type": "RECORD_INDEX"},
    {"hoodie.index.type": "RECORD_LEVEL_INDEX"},
)
_KEYS, _WRITES, _FILTERS = 14, 3, 6


def _array(values: list[Any], kind: pa.DataType) -> pa.Array[Any]:
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)


class Life:
    """A table with one or two partition columns, and the row that each key has in each partition."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.path, self.chance = folder / "t", chance
        kinds = chance.sample([*POOLS, pa.string(), pa.string(), pa.string()], chance.choice([1, 1, 2]))
        self.kinds = {f"p{place}": kind for place, kind in enumerate(kinds)}
        self.pools = {name: chance.sample(POOLS[kind], min(len(POOLS[kind]), 4)) for name, kind in self.kinds.items()}
        index = chance.choice(_INDEXES)
        self.by_key = index.get("hoodie.index.type") == "RECORD_INDEX"
        self.options = {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.recordkey.field": "k",
            "hoodie.datasource.write.partitionpath.field": ",".join(self.kinds),
            "hoodie.datasource.write.hive_style_partitioning": chance.random() < 1 / 2,
            "hoodie.datasource.write.partitionpath.urlencode": chance.random() < 1 / 2,
            "hoodie.record.index.update.partition.path": "true",
            "hoodie.metadata.compact.max.delta.commits": chance.choice([1, 10]),
            **index,
        }
        note(repr((self.pools, self.options)))
        fields = [("k", pa.string()), *self.kinds.items(), ("row", pa.int64())]
        self.schema = pa.schema(fields)
        self.local = LocalTable.create(str(self.path), self.schema, self.options)
        self.generator = from_table_config(self.local.client.config)
        self.rows: dict[tuple[str, str], int] = {}
        self.written = 0

    def step(self) -> None:
        operation = self.chance.choice(_OPERATIONS)
        note(operation)
        if operation == "delete_partition":
            places = sorted({place for place, _ in self.rows if "*" not in place})
            if places:
                self.local.write(operation, partitions=places[:1])
                self.rows = {slot: row for slot, row in self.rows.items() if slot[0] != places[0]}
            return
        size = self.chance.randint(1, 8)
        keys = [f"k{number}" for number in self.chance.sample(range(_KEYS), size)]
        values = {
            name: _array([self.chance.choice(self.pools[name]) for _ in keys], kind)
            for name, kind in self.kinds.items()
        }
        batch = pa.table({"k": keys, **values, "row": range(self.written, self.written + size)}, schema=self.schema)
        self.written += size
        try:
            places = self.generator.partition_paths(batch).to_pylist()
            self.local.write(operation, batch.drop_columns("row") if operation == "delete" else batch)
        except RecordError as error:
            assert re.search("cannot be a folder name|does not overwrite", str(error))  # noqa: PT017
            return
        self.apply(operation, list(zip(places, keys, strict=True)), batch["row"].to_pylist())

    def apply(self, operation: str, slots: list[tuple[str, str]], numbers: list[int]) -> None:
        if operation == "insert_overwrite_table":
            self.rows = {}
        if operation == "insert_overwrite":
            replaced = {place for place, _ in slots}
            self.rows = {slot: row for slot, row in self.rows.items() if slot[0] not in replaced}
        if self.by_key:
            moved = {key for _, key in slots}
            self.rows = {slot: row for slot, row in self.rows.items() if slot[1] not in moved}
        for slot, number in zip(slots, numbers, strict=True):
            self.rows.pop(slot, None)
            if operation != "delete":
                self.rows[slot] = number

    def check_listed(self) -> None:
        """The rows without the metadata table."""
        with tempfile.TemporaryDirectory(prefix="hudi-catalog-") as other:
            shutil.copytree(self.path, f"{other}/t")
            shutil.rmtree(f"{other}/t/.hoodie/metadata")
            properties = Path(other, "t/.hoodie/hoodie.properties")
            text = properties.read_text(encoding="utf-8")
            properties.write_text(re.sub(r"(?m)^hoodie\.table\.metadata\.partitions=.*\n", "", text), encoding="utf-8")
            assert numbers(Table.open(f"{other}/t")) == sorted(self.rows.values())

    def check_filters(self) -> None:
        """As expressions, as texts, and as Hive and Trino send them."""
        table = Table.open(str(self.path))
        rows, schema = table.scan().to_arrow(), table.snapshot().schema
        types = {name: column.type for name, column in zip(schema.names, hive_columns(schema), strict=True)}
        hive = Asking(self.path.parent)
        for _ in range(_FILTERS):
            condition = self.tree(2)
            note(repr(condition))
            truth: Any = matches(bind(condition, schema), rows)
            wanted = sorted(rows.filter(truth)["row"].to_pylist())
            assert numbers(table, condition) == wanted
            assert table.scan(condition).count() == len(wanted)
            assert numbers(table, str(condition)) == wanted
            if is_sent(condition):
                splits = hive.splits("t", filter=json.dumps(hive_tree(condition, types))).splits
                assert set(wanted) <= set(read(splits, ["row"])["row"].to_pylist())
        hive.service.close()
        if rows.num_rows:
            Checks(self.path, self.chance).run()

    def tree(self, depth: int) -> HudiExpression:
        if depth and self.chance.random() < 1 / 2:
            kind = self.chance.choice([And, Or, Not])
            return Not(self.tree(depth - 1)) if kind is Not else kind([self.tree(depth - 1), self.tree(depth - 1)])
        name = self.chance.choice([*self.kinds])
        shape = self.chance.randrange(7)
        if shape == 0:
            return Predicate(self.chance.choice([Op.IS_NULL, Op.NOT_NULL]), name)
        if shape <= 2:
            values = tuple(self.literal(name) for _ in range(self.chance.randint(1, 3)))
            return Predicate(self.chance.choice([Op.IN, Op.NOT_IN]), name, values)
        literal = self.literal(name)
        if shape == 3 and isinstance(literal, str):
            return Predicate(self.chance.choice([Op.STARTS_WITH, Op.NOT_STARTS_WITH]), name, (literal[:2],))
        return Predicate(self.chance.choice(_COMPARE), name, (literal,))

    def literal(self, name: str) -> Any:
        """A value of the column, mostly one that rows have."""
        kind = self.kinds[name]
        value = self.chance.choice(self.pools[name] if self.chance.random() < 2 / 3 else POOLS[kind])
        if value is not None and pa.types.is_date(kind):
            return dt.date.fromordinal(max(1, min(dt.date.max.toordinal(), 719163 + value)))
        if value is not None and pa.types.is_timestamp(kind):
            return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=value)
        return value


def numbers(table: Table, condition: str | HudiExpression | None = None) -> list[int]:
    found: list[int] = sorted(table.scan(condition).to_arrow()["row"].to_pylist())
    return found


@contextmanager
def life(chance: random.Random) -> Iterator[Life]:
    with tempfile.TemporaryDirectory(prefix="hudi-catalog-") as folder:
        yield Life(Path(folder), chance)


@examples(8)
@given(st.integers(0, 2**32).map(random.Random))
def test_rows_are_found_by_their_partition(chance: random.Random) -> None:
    with life(chance) as table:
        for _ in range(_WRITES):
            table.step()
            assert numbers(Table.open(str(table.path))) == sorted(table.rows.values())
        if table.written:
            table.check_listed()
            table.check_filters()
