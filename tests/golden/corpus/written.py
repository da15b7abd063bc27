"""Tables of the corpus that Apache Hudi wrote into a folder, with Apache's facts about each."""

import base64
import dataclasses
import datetime as dt
import json
import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.engines.apache_tables import ApacheTable, Statements, Write
from tests.golden.corpus.rows import LISTS_OF_TWO_LEVELS
from tests.golden.corpus.tables import FAMILIES, UPGRADED, tables
from tests.golden.packing import Members, files_of
from tests.support.apache_hudi_client import ApacheError, ApacheHudi

_METADATA = ".hoodie/metadata"
_OLD_LISTS = "parquet.avro.write-old-list-structure"
_READ_OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}
#: Types of the metadata table's records.
_COLUMN_STATS, _PARTITION_STATS = 3, 6


@dataclass(frozen=True)
class Written:
    """One table.

    Attributes:
        folder: `table` below it is the table, `rows.parquet` its rows as Apache reads them, `apache.json` what else it
            says, and `options.json` the options of the writes.
    """

    folder: Path

    @property
    def name(self) -> str:
        """With the family."""
        return self.folder.name

    @property
    def release(self) -> str:
        """Of Apache Hudi, which writes it."""
        return FAMILIES[self.name.partition("__")[0]][0]

    @property
    def path(self) -> Path:
        """Of the table."""
        return self.folder / "table"

    @cached_property
    def rows(self) -> pa.Table:
        """All rows and columns as Apache reads them."""
        return pq.read_table(self.folder / "rows.parquet")

    @cached_property
    def apache(self) -> dict[str, Any]:
        """See `ask`."""
        return dict(json.loads((self.folder / "apache.json").read_text()))

    @cached_property
    def options(self) -> dict[str, str]:
        """Options of its writes."""
        return dict(json.loads((self.folder / "options.json").read_text()))

    @property
    def is_written(self) -> bool:
        """Whether the table was written and read."""
        return (self.folder / "rows.parquet").exists()

    @property
    def is_done(self) -> bool:
        """Whether Apache was asked too."""
        return self.is_written and (self.folder / "apache.json").exists()

    @property
    def slices(self) -> list[dict[str, Any]]:
        """The latest file slices as Apache tells them."""
        names = ("partition", "file_id", "base_instant", "base_file", "log_files")
        return [dict(zip(names, row, strict=True)) for row in self.apache["slices"]]

    def texts(self, column: str) -> list[str]:
        """A column of the rows; empty where they have none of the name."""
        return self.rows[column].to_pylist() if column in self.rows.column_names else []

    def files(self) -> Members:
        """All files of the table."""
        return files_of(self.path, without=None)

    def hoodie(self, without: tuple[str, ...] = ()) -> Members:
        """All files below `.hoodie` but those whose paths start with `without`."""
        files = self.files().items()
        return {path: data for path, data in files if path.startswith(".hoodie/") and not path.startswith(without)}

    def data_files(self) -> dict[str, int]:
        """Sizes of what lies outside `.hoodie`."""
        return {name: len(data) for name, data in self.files().items() if not name.startswith(".hoodie/")}


def partitions_of(path: Path) -> list[str]:
    """Folders with data, without those of the metadata table; "" is the table's own."""
    folders = sorted(file.parent.relative_to(path) for file in path.rglob(".hoodie_partition_metadata"))
    return ["" if folder == Path() else folder.as_posix() for folder in folders if folder.parts[:1] != (".hoodie",)]


def write(apache: ApacheHudi, written: Written) -> None:
    """Let Apache write a table and read it."""
    family, _, name = written.name.partition("__")
    extra = FAMILIES[family][1]
    made = tables()[name]
    if family == "v9up_1200":
        [*steps, last] = made.writes
        made = dataclasses.replace(made, writes=[*steps, dataclasses.replace(last, options=UPGRADED)])
    else:
        made = dataclasses.replace(made, writes=[_with_settings(step, extra) for step in made.writes])
    if family == "v8_1020":
        extra = {**extra, **_without_dates(made)}
    made = dataclasses.replace(made, options={**made.options, **extra})
    written.folder.mkdir(parents=True)
    (written.folder / "options.json").write_text(json.dumps(made.options, sort_keys=True))
    two_levels = name in LISTS_OF_TWO_LEVELS
    try:
        apache.configure(_OLD_LISTS, str(two_levels).lower())
        made.write(apache, written.path)
    finally:
        apache.configure(_OLD_LISTS, "false")
    pq.write_table(read(apache, written.path), written.folder / "rows.parquet")


def _with_settings(step: Write | Statements, settings: dict[str, str]) -> Write | Statements:
    """Procedures heed the session's settings, by which a table stays at its version."""
    return dataclasses.replace(step, settings=settings) if isinstance(step, Statements) else step


def _without_dates(table: ApacheTable) -> dict[str, str]:
    """1.0.2 cannot write logs with nulls in a date column that its statistics hold."""
    if table.options.get("hoodie.datasource.write.table.type") != "MERGE_ON_READ":
        return {}
    fields = [
        field for field in table.schema if not pa.types.is_nested(field.type) and not pa.types.is_date(field.type)
    ]
    return {"hoodie.metadata.index.column.stats.column.list": ",".join(field.name for field in fields)}


def read(apache: ApacheHudi, path: Path) -> pa.Table:
    """All rows as Apache reads them; its timestamps in nanoseconds would not hold the year 9999."""
    apache.sql("SET spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS")
    try:
        return apache.read(path)
    finally:
        apache.sql("RESET spark.sql.parquet.outputTimestampType")


def ask(apache: ApacheHudi, path: Path, *, statistics: bool) -> dict[str, Any]:
    """What Apache says of a table.

    Returns:
        `properties`, `instants`, `archived`, `slices` (see `timelines.py`); `read_optimized`, the count of rows that a
        read-optimized query gives, of merge-on-read tables; of tables with a metadata table, its `files` (name and size
        by partition); of those whose statistics are wanted `column_stats` (by column and file), `partition_stats`
        (partition, column, nulls, rows), and `records`, see `_statistics_records`.
    """
    facts = apache.timeline(path, partitions_of(path))
    if facts["properties"]["hoodie.table.type"] == "MERGE_ON_READ":
        facts["read_optimized"] = apache.read(path, options=_READ_OPTIMIZED).num_rows
    if (path / _METADATA).exists():
        facts["files"] = files = apache.files(path)
    if statistics:
        pairs = [(partition, name) for partition, names in files.items() for name in names]
        columns = apache.read(path, "false").column_names
        indexed = (path / _METADATA / "column_stats").exists()
        facts["column_stats"] = apache.column_stats(path, columns, pairs) if indexed else {}
        facts["partition_stats"] = _partition_stats(apache, path)
        facts["records"] = _statistics_records(apache, path)
    return facts


def _statistics_records(apache: ApacheHudi, path: Path) -> list[dict[str, Any]] | None:
    """The column statistics of all files as Spark shows the metadata table; None where it cannot read that.

    `memberN` of bounds is the N-th wrapper of their union; decimals are texts, bytes in base 64.
    """
    if not (path / _METADATA / "column_stats").exists():
        return None
    try:
        records = apache.read(path / _METADATA, f"type = {_COLUMN_STATS}")
    except ApacheError as error:
        print(f"{path}: {str(error)[:200]}")
        return None
    return [
        {name: _without_nulls(value) for name, value in record.items() if value is not None and name != "isDeleted"}
        for record in records["ColumnStatsMetadata"].to_pylist()
        if not record["isDeleted"]
    ]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return _plain(value)


def _partition_stats(apache: ApacheHudi, path: Path) -> list[list[Any]]:
    if not (path / _METADATA / "partition_stats").exists():
        return []
    try:
        records = apache.read(path / _METADATA, f"type = {_PARTITION_STATS}")
    except ApacheError:
        return []
    stats = [record for record in records["ColumnStatsMetadata"].to_pylist() if not record["isDeleted"]]
    return [[one["fileName"], one["columnName"], one["nullCount"], one["valueCount"]] for one in stats]


def plain_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows for JSON, by partition path and record key: decimals, dates and times as texts, bytes in base 64."""
    maps = [field.name for field in rows.schema if pa.types.is_map(field.type)]
    made = [{name: _plain(value) for name, value in row.items()} for row in rows.to_pylist()]
    for row in made:
        row |= {name: sorted(row[name]) for name in maps if row[name] is not None}
    keys = [key for key in ("_hoodie_partition_path", "_hoodie_record_key", "id") if key in rows.column_names]
    return sorted(made, key=lambda row: [row[key] or "" for key in keys])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return value
