"""The rows of a change in place, computed by Spark: the table's rows that it may concern, joined with the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from catalog.table import Table
from pushdown.builder import col
from pushdown.expression import HudiExpression, all_of
from spark_writer.frame_rows import FrameRows, can_be_sent, estimated_size
from spark_writer.in_place.column_values import PLACE, bare, held, values_held
from spark_writer.read.dataframe import scan_frame
from spark_writer.spark_types import arrow_schema, nested_names
from spark_writer.worker_errors import in_worker, workers_errors
from table_format.meta_columns import FILE_NAME, IS_DELETED
from table_format.schema.evolution import refuse_unknown_fields
from table_format.storage import Storage
from table_writer.execution.local import SharesInMemory
from table_writer.in_place.change import Change, negative_zero
from table_writer.in_place.clauses import CLAUSE, OLD, PRESENT, Clause, join_type
from table_writer.in_place.computed import (
    count_new,
    in_table,
    moved_record,
    moves_of,
    refuse_moved,
    refuse_repeated,
    repeated_record,
    written_schema,
)
from table_writer.in_place.expressions import SOURCE, TARGET
from table_writer.in_place.matching import MOST_VALUES, comparable_columns, filter_of_source
from table_writer.in_place.moves import AFTER, BEFORE, KEY, Placing, meeting_records
from table_writer.plan.executor_options import DRIVER_BYTES
from table_writer.plan.options import WriteOptions
from table_writer.plan.plan import FROM_COLUMN
from table_writer.writer import selected_columns

#: The place among parameters of a join's condition that is a Column.
ON: Final = "on"
_ROWS, _INSERTED, _MOVED, _PARTITION = (f"_hudi_catalog_{name}" for name in ("rows", "inserted", "moved", "partition"))
_FEW_BYTES: Final = 32 * 1024 * 1024


class _HeldFrames(FrameRows, AbstractContextManager["_HeldFrames"]):
    """Rows that are made of others, which Spark keeps until the context ends."""

    def __init__(self, made: Callable[[], DataFrame]) -> None:
        super().__init__(made)
        self._held: list[DataFrame] = []

    def __exit__(self, *_: object) -> None:
        for frame in self._held:
            frame.unpersist()
        self._held.clear()

    def _hold(self, frame: DataFrame) -> DataFrame:
        """Keep rows that are used several times, unless their owner keeps them."""
        level = frame.storageLevel
        if not level.useMemory and not level.useDisk:
            self._held.append(frame.persist())
        return frame


class SelectedKeys(_HeldFrames):
    """The keys of the rows that a delete takes away; counted, and kept until the context ends.

    Args:
        select: makes a DataFrame of these rows, as the table is now.
        reader: the table.
        options: of the write.
    """

    is_selected = True

    def __init__(self, select: Callable[[], DataFrame], reader: Table, options: WriteOptions) -> None:
        super().__init__(self._keys)
        self._select = select
        self._columns = selected_columns(reader.client.config, options)

    def _keys(self) -> DataFrame:
        columns = [_group_number() if name == FILE_NAME else bare(name) for name in self._columns]
        keys = self._hold(self._select().select(*columns))
        self.matched = keys.count()
        return keys


class ChangedFrame(_HeldFrames):
    """The rows of a change to upsert, of the table as it is when they are asked for first; kept until the context ends.

    Args:
        session: Spark's.
        change: its source is a DataFrame, its texts are Spark's SQL; its parameters and conditions may be Columns.
        reader: the table, held open.
        options: of the write.
    """

    is_computed = True

    def __init__(self, session: SparkSession, change: Change, reader: Table, options: WriteOptions) -> None:
        super().__init__(self._rows)
        self._session = session
        self._change = change
        self._reader = reader
        self._options = options
        self.is_selected = not change.is_upsert

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns that are written."""
        return written_schema(self._change, self._options)

    def reads_table(self, storage: Storage, name: str) -> bool:  # noqa: ARG002 - they always do
        """They come from the table that is written."""
        return True

    def _rows(self) -> DataFrame:
        change = self._change
        source = None if change.source is None else self._hold(change.source)
        if change.is_upsert and source is not None:
            rows = source.select(*(bare(name) for name in self.schema.names))
            for field in self.schema:
                refuse_unknown_fields(field.name, nested_names(rows.schema[field.name].dataType), field.type)
            if (table := self._few(rows)) is None:
                _check(change, rows.withColumn(CLAUSE, F.lit(-1)), change.identity, None)
            else:
                refuse_repeated([table.select(change.identity)], None)
            return rows
        rows = self._hold(_changed(change, self._target(source), source))
        with values_held():
            if change.moves:
                return self._moving(rows)
            if (table := self._few(rows)) is None:
                self.new_keys, self.matched = _check(change, rows, change.identity, self._reader)
            else:
                self._check_few(table)
        return rows.select(*(bare(name) for name in self.schema.names))

    def _few(self, rows: DataFrame) -> pa.Table | None:
        """Held rows in the driver, if they are so few that they are written there; all their columns."""
        if not hasattr(rows, "_jdf"):  # over Spark Connect, which does not tell their size
            return None
        rows.count()  # fills the cache, which then knows it
        most = self._options.number(DRIVER_BYTES) or 0
        shares = FrameRows(rows).collected(most, direct=False) if can_be_sent(rows) else None
        if shares is None:
            return None
        names = self.schema.names
        self._collected = SharesInMemory([[batch.select(names) for batch in share] for share in shares.shares])
        batches = [batch for share in shares.shares for batch in share]
        return pa.Table.from_batches(batches) if batches else arrow_schema(rows.schema).empty_table()

    def _check_few(self, rows: pa.Table) -> None:
        """As `_check`, without a job of Spark."""
        change = self._change
        new = count_new(change, rows)
        self.new_keys, self.matched = new, len(rows) - new
        refuse_moved(change, rows, change.identity)
        if change.source is not None:
            refuse_repeated([rows.select(change.identity)], self._reader)

    def _moving(self, rows: DataFrame) -> DataFrame:
        """The rows of a change that may move records to other partitions; see `table_writer.in_place.moves`."""
        change, moves = self._change, moves_of(self._change, self._options)
        _refuse_new_keys(change, rows)
        kinds = StructType([*rows.schema.fields, *(StructField(name, StringType()) for name in (KEY, BEFORE, AFTER))])
        with workers_errors():
            placed = self._hold(rows.mapInArrow(in_worker(_placed(moves.placing)), kinds))
            moved = F.coalesce(F.col(BEFORE) != F.col(AFTER), F.expr("FALSE"))
            taken = placed.where(F.col(AFTER).isNotNull())
            left = placed.where(F.col(AFTER).isNull() | moved)
            place = [KEY] if moves.by_index else [KEY, _PARTITION]
            of_taken = taken.withColumn(_PARTITION, F.col(AFTER))
            of_left = left.withColumn(_PARTITION, F.col(BEFORE))
            _refuse_meeting(placed if moves.by_index else of_taken, place)
            fresh = of_taken.where(F.col(BEFORE).isNull() | moved)
            self.gone_keys = left.count()
            if moves.by_index:
                deleted = left.where(F.col(AFTER).isNull())
            else:
                fresh = fresh.join(of_left.select(*place), place, "left_anti")
                deleted = of_left.join(of_taken.select(*place), place, "left_anti")
                self.gone_keys = deleted.count()
            self.new_keys = fresh.count()
            self.matched = placed.where(F.col(BEFORE).isNotNull()).count()
        if FROM_COLUMN in taken.columns and not moves.by_index:  # the index has what was in their places before
            taken = taken.withColumn(FROM_COLUMN, F.when(~moved, F.col(FROM_COLUMN)))
        names = self.schema.names
        gone = deleted.select(
            *(
                F.expr("TRUE").alias(name)
                if name == IS_DELETED
                else F.col(FROM_COLUMN)
                if name == FROM_COLUMN
                else bare(OLD + name).alias(name)
                if name in change.identity
                else F.lit(None).cast(rows.schema[name].dataType).alias(name)
                for name in names
            )
        )
        return taken.select(*map(bare, names)).unionByName(gone)

    def _target(self, source: DataFrame | None) -> DataFrame:
        """Rows of the table that the change may concern; those of files that may hold such rows."""
        change = self._change
        scan = self._reader.refresh().scan()
        if source is None:
            return scan_frame(self._session, scan, change.filter)
        return scan_frame(self._session, scan, files=None if change.reads_all else _filter_of(change, source))


def _filter_of(change: Change, source: DataFrame) -> HudiExpression | None:
    """A condition that rows of the table fulfil which match some row of the source."""
    if change.condition is None:
        return None
    schema = arrow_schema(source.schema)
    pairs = list(comparable_columns(change.condition, change.schema, schema))
    if not pairs:
        return None
    keys = source.select(*map(bare, dict.fromkeys(name for _, name in pairs)))
    ends = (one(bare(name)) for _, name in pairs for one in (F.min, F.max))
    count, *bounds = keys.agg(F.count(F.lit(1)), *ends).collect()[0]
    if count <= MOST_VALUES:
        rows = [row.asDict() for row in keys.collect()]
        values = pa.Table.from_pylist(rows, pa.schema([schema.field(name) for name in keys.columns]))
        return filter_of_source(change.condition, change.schema, values)
    return all_of(
        *(
            col(name).is_null() & col(name).is_not_null()  # nothing equals null
            if bounds[2 * place] is None
            else col(name).between(bounds[2 * place], bounds[2 * place + 1])
            for place, (name, _) in enumerate(pairs)
        )
    )


def _changed(change: Change, target: DataFrame, source: DataFrame | None) -> DataFrame:
    """The rows that a clause concerns: their new values, the clause's number, and key and partition as they were."""
    rows = target.alias(TARGET)
    if source is not None:
        parameters = change.expressions.parameters
        if ON in parameters:
            on = reduce(lambda one, other: one & other, map(F.expr, change.signs), parameters[ON])
        else:
            on = F.expr(change.on or "")
        marked = source.withColumn(PRESENT, F.expr("TRUE")).alias(SOURCE)
        rows = rows.join(marked, on, join_type(change.clauses).lower())
    rows = _with_clause(change, rows)
    kinds = {field.name: field.dataType for field in from_arrow_schema(change.written).fields}
    values = {
        (number, name): _value(change, number, name, target.columns)
        for name in kinds
        for number in range(len(change.clauses))
    }
    if len(change.clauses) > 1:
        values = {place: F.when(F.col(CLAUSE) == place[0], value) for place, value in values.items()}
    named = {place: PLACE.format(number) for number, place in enumerate(values)}
    old = [_of(change, TARGET, name).alias(OLD + name) for name in change.identity]
    old.append(_group_number(f"{TARGET}."))
    staged = rows.select(CLAUSE, *old, *(value.alias(named[place]) for place, value in values.items()))
    staged_types = {field.name: field.dataType for field in staged.schema.fields}

    def column(name: str) -> Column:
        parts = [named[number, name] for number in range(len(change.clauses))]
        return F.coalesce(*(held(part, staged_types[part], kinds[name], name) for part in parts)).alias(name)

    deleting = [number for number, clause in enumerate(change.clauses) if clause.values is None]
    gone = F.col(CLAUSE).isin(deleting) if deleting else F.expr("FALSE")
    before = (OLD + name for name in change.identity)
    return staged.select(CLAUSE, FROM_COLUMN, *before, *map(column, kinds), gone.alias(IS_DELETED))


def _with_clause(change: Change, rows: DataFrame) -> DataFrame:
    """Rows that fulfil a clause, and the number of the first one that each does."""
    tests = [_test(change, clause) for clause in change.clauses]
    if len(tests) == 1:
        return rows.where(tests[0]).withColumn(CLAUSE, F.lit(0))
    numbers: Any = F
    for number, test in enumerate(tests):
        numbers = numbers.when(test, number)
    return rows.withColumn(CLAUSE, numbers).where(F.col(CLAUSE).isNotNull())


def _test(change: Change, clause: Clause) -> Column:
    tests = [] if change.source is None else [F.expr(clause.kind.test)]
    tests += [] if clause.condition is None else [_expression(change, clause.condition)]
    return reduce(lambda one, other: one & other, tests, F.expr("TRUE"))


def _value(change: Change, number: int, name: str, columns: Sequence[str]) -> Column:
    """The value of a column in rows of a clause."""
    clause = change.clauses[number]
    values = clause.values
    if values is not None and name in values:
        return _expression(change, values[name])
    is_left = not clause.inserts and name in columns and (values is not None or name in change.identity)
    return _of(change, TARGET, name) if is_left else F.lit(None)


def _expression(change: Change, text: str) -> Column:
    """A text, or the Column or value whose place it is."""
    if not text.startswith("$"):
        return F.expr(text)
    value = change.expressions.parameters[text[1:]]
    return value if isinstance(value, Column) else F.lit(value)


def _of(change: Change, side: str, name: str) -> Column:
    return F.expr(change.expressions.named(side, name))


def _placed(placing: Placing) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that adds record keys, and partition paths before and after a change."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            places = placing(table)
            for name in places.column_names:
                table = table.append_column(name, places[name])
            yield from table.combine_chunks().to_batches()

    return work


def _refuse_new_keys(change: Change, rows: DataFrame) -> None:
    """Refuse updates that change the record key."""
    moves = F.coalesce(*(_moved(change, name) for name in change.client.config.key_columns))
    facts: Any = rows.agg(F.first(moves, ignorenulls=True)).collect()[0]
    if facts[0] is not None:
        raise moved_record(*facts[0])


def _refuse_meeting(rows: DataFrame, place: Sequence[str]) -> None:
    """Refuse several rows for one record after the change."""
    several = rows.groupBy(*place).count().where("count > 1")
    first = several.limit(1).collect()
    if first:
        raise meeting_records("/".join(str(first[0][name]) for name in reversed(place)), several.count())


def _check(change: Change, rows: DataFrame, names: Sequence[str], reader: Table | None) -> tuple[int, int]:
    """Refuse several rows for a record, and records that would move.

    Args:
        change: an update's rows are looked at as they are written.
        rows: its rows.
        names: columns that must stay as they are.
        reader: the table; None where rows of the source are not joined with its rows.

    Returns:
        How many rows are new, and how many are the table's.
    """
    moves = [_moved(change, name) for name in names if OLD + name in rows.columns]
    moved = F.coalesce(*moves) if moves else F.lit(None)
    inserted = F.col(CLAUSE).isin(change.inserting) if change.inserting else F.expr("FALSE")
    numbers = (f"`{name.replace('`', '``')}`" for name in change.floating_identity)
    signs = [F.expr(negative_zero(number)) for number in numbers]  # groups take -0.0 for 0.0
    # numbers only: Spark sorts the rows for an aggregate that holds anything else
    records = (
        _gathered(rows)
        .groupBy(*map(bare, change.identity), *signs)
        .agg(
            F.count(F.lit(1)).alias(_ROWS),
            F.sum(inserted.cast("bigint")).alias(_INSERTED),
            F.sum(moved.isNotNull().cast("bigint")).alias(_MOVED),
        )
    )
    repeated = F.col(_ROWS) > 1
    facts: Any = records.agg(F.sum(_INSERTED), F.count(F.when(repeated, 1)), F.sum(_MOVED), F.sum(_ROWS)).collect()[0]
    if facts[2]:
        [[first]] = rows.select(moved.alias(_MOVED)).where(F.col(_MOVED).isNotNull()).take(1)
        raise moved_record(*first)
    if change.source is not None and facts[1]:
        [first] = records.where(repeated).select(*map(bare, change.identity), _ROWS).take(1)
        record = dict(zip(change.identity, first, strict=False))
        raise repeated_record(facts[1], record, in_table=in_table(reader, record, first[_ROWS]))
    new = int(facts[0] or 0)
    return new, int(facts[3] or 0) - new


def _gathered(rows: DataFrame) -> DataFrame:
    """Rows of the cache, which `_few` has filled, in one partition if they are few.

    A shuffle into 200 takes longer than they do. Spark Connect does not tell their size.
    """
    return rows.coalesce(1) if estimated_size(rows.select("*")) <= _FEW_BYTES else rows


def _moved(change: Change, name: str) -> Column:
    """Name, old and new value of a column that an update would change; null for none."""
    changes = F.col(CLAUSE).isin(change.updating) & ~bare(name).eqNullSafe(bare(OLD + name))
    return F.when(
        changes, F.struct(F.lit(name), bare(OLD + name).cast("string"), bare(name).cast("string").alias("new"))
    )


def _group_number(side: str = "") -> Column:
    """See `table_writer.rows.several_rows.group_number`."""
    return F.crc32(F.substring_index(F.col(side + FILE_NAME), "_", 1)).alias(FROM_COLUMN)
