"""The commands that create and change tables: `hudi-catalog create | write | delete | update | merge`.

The writer is imported when a command runs: the other commands start without it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudi_catalog.cli.arguments import (
    Config,
    Json,
    TablePath,
    WriterOptions,
    all_options,
    print_json,
    print_lines,
    stdout_console,
)
from hudi_catalog.cli.print import show_json, show_lines
from hudi_catalog.table import Table, create_table, open_table
from table_format.errors import HudiError, OptionError, TableExistsError, TableNotFoundError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hudi_catalog.sources.rows import RowStream
    from table_writer.summary import WriteSummary


class WriteOperation(StrEnum):
    """What a write does, by the names of Apache's writers."""

    upsert = "upsert"
    insert = "insert"
    bulk_insert = "bulk_insert"
    insert_overwrite = "insert_overwrite"
    insert_overwrite_table = "insert_overwrite_table"


class FileFormat(StrEnum):
    """Formats of files with rows."""

    parquet = "parquet"
    arrow = "arrow"
    csv = "csv"
    tsv = "tsv"
    json = "json"


class IndexKind(StrEnum):
    """The index by which writes find a record's file."""

    bucket = "bucket"
    record_index = "record_index"
    record_level_index = "record_level_index"


class Matched(StrEnum):
    """What happens to the table's rows that match one of the files."""

    update = "update"
    delete = "delete"
    keep = "keep"


class NotMatched(StrEnum):
    """What happens to rows of the files that match none."""

    insert = "insert"
    skip = "skip"


class NotMatchedBySource(StrEnum):
    """What happens to the table's rows that no row of the files matches."""

    delete = "delete"
    keep = "keep"


Key = Annotated[str | None, typer.Option("--key", help="Column or columns of the record key, separated by commas.")]
PartitionBy = Annotated[
    str | None, typer.Option("--partition-by", help="Column or columns of the partition path, separated by commas.")
]
Ordering = Annotated[
    str | None,
    typer.Option("--ordering", help="Column whose greatest value wins among versions of a record."),
]
BucketCount = Annotated[
    int | None,
    typer.Option("--buckets", min=1, help="File groups per partition; by default from the size of the first write."),
]
Index = Annotated[
    IndexKind | None,
    typer.Option(
        "--index", case_sensitive=False, help="Index by which writes find a record's file; bucket by default."
    ),
]
Name = Annotated[str | None, typer.Option("--name", help="Name of a new table; the folder's by default.")]
Format = Annotated[
    FileFormat | None, typer.Option("--format", help="Format of the files; by default from their endings.")
]
TimeZone = Annotated[
    str | None, typer.Option("--time-zone", help="Time zone of timestamps that have none, such as UTC.")
]


# typer reads a command's options from its signature, so that commands with the same options repeat them


def create(
    path: TablePath,
    *,
    key: Annotated[str, typer.Option("--key", help="Column or columns of the record key, separated by commas.")],
    schema: Annotated[
        str | None, typer.Option("--schema", help="Columns, such as 'id bigint, name string, price decimal(10,2)'.")
    ] = None,
    like: Annotated[str | None, typer.Option("--like", help="File whose columns the table gets, not its rows.")] = None,
    partition_by: PartitionBy = None,
    ordering: Ordering = None,
    buckets: BucketCount = None,
    index: Index = None,
    name: Name = None,
    file_format: Format = None,
    time_zone: TimeZone = None,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Create an empty table."""
    if schema is not None and like is not None:
        raise typer.BadParameter("give --schema or --like, not both")
    columns: Any = (
        schema
        if like is None
        else _rows([like], file_format, None, time_zone, [*_names(key), *_names(partition_by)]).schema
    )
    table = create_table(
        path,
        columns,
        record_key=_names(key),
        partition_by=_names(partition_by),
        ordering=_names(ordering),
        buckets=buckets,
        index=_index(index),
        name=name,
        options=all_options(config, option),
    )
    if not table.columns.names:
        facts = {"name": table.name, "uri": table.client.storage.uri, "schema": []}
        lines: Iterable[RenderableType] = [f"{table.name}  {path}: no columns yet, the first write decides them"]
    else:
        facts, lines = show_json(table, None), show_lines(table, None)
    if as_json:
        print_json(facts)
    else:
        print_lines(lines)


def write(
    path: TablePath,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Parquet, Arrow IPC, CSV or JSON lines; - is standard input.")
    ],
    *,
    operation: Annotated[
        WriteOperation, typer.Option("--operation", case_sensitive=False, help="What to do with the rows.")
    ] = WriteOperation.upsert,
    key: Key = None,
    partition_by: PartitionBy = None,
    ordering: Ordering = None,
    buckets: BucketCount = None,
    index: Index = None,
    name: Name = None,
    file_format: Format = None,
    time_zone: TimeZone = None,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Write the rows of files in one commit; with --key the table is created if there is none."""
    from table_writer.plan import option_registry as registry

    options = all_options(config, option)
    flags = {
        registry.RECORD_KEY.key: key,
        registry.PARTITION_PATH.key: partition_by,
        registry.ORDERING.key: ordering,
        registry.BUCKETS.key: None if buckets is None else str(buckets),
        registry.INDEX_TYPE.key: _index(index),
    }
    table = _open_if_there(path, {**options, **_check_flags(options, flags)})
    if table is None and key is None:
        raise TableNotFoundError(f"{path}: there is no Hudi table; give --key COLUMN to create one for these rows")
    rows = _rows(files, file_format, table, time_zone, [*_names(key), *_names(partition_by)])
    is_new = False
    if table is None:
        try:
            table = create_table(
                path,
                rows,
                record_key=_names(key),
                partition_by=_names(partition_by),
                ordering=_names(ordering),
                buckets=buckets,
                index=_index(index),
                name=name,
                options=options,
            )
            is_new = True
        except TableExistsError:
            table = _open_if_there(path, {**options, **_check_flags(options, flags)})
            if table is None:
                raise  # the folder holds other files
            rows = _rows(files, file_format, table, time_zone)  # another process created the table: use its types
    with _noted_if_left(path, table) if is_new else contextlib.nullcontext():
        summary: WriteSummary = getattr(table, operation.value)(rows)
    _print_summary(summary, as_json=as_json, created=is_new)


@contextlib.contextmanager
def _noted_if_left(path: str, table: Table) -> Iterator[None]:
    """Note in the error of a first write that the table which was created for it is there, with its columns."""
    try:
        yield
    except HudiError as error:
        with contextlib.suppress(HudiError):
            if table.refresh().snapshot().instant is None:
                error.add_note(
                    f"the empty table {path} was created for these rows, with the types that they seemed to have: "
                    "delete it before you create it with others"
                )
        raise


def delete(
    path: TablePath,
    *,
    where: Annotated[str | None, typer.Option("--where", help="Condition in SQL on the rows to delete.")] = None,
    keys: Annotated[
        str | None,
        typer.Option("--keys", help="File with key and partition columns of rows to delete; - is standard input."),
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option("--partition", help="Path of a partition to delete; * is any text; repeatable.")
    ] = None,
    file_format: Format = None,
    time_zone: TimeZone = None,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Delete rows in one commit: those that match a condition, those with keys in a file, or partitions."""
    if sum(each is not None for each in (where, keys, partition)) != 1:
        raise typer.BadParameter("give one of --where, --keys and --partition")
    table = open_table(path, options=all_options(config, option))
    if where is not None:
        summary = table.delete(where)
    elif keys is not None:
        summary = table.delete(_rows([keys], file_format, table, time_zone))
    else:
        summary = table.delete_partitions(partition or [])
    _print_summary(summary, as_json=as_json)


def update(
    path: TablePath,
    *,
    values: Annotated[
        list[str],
        typer.Option("--set", metavar="COLUMN=SQL", help="Column and the SQL expression of its new value; repeatable."),
    ],
    where: Annotated[str | None, typer.Option("--where", help="Condition in SQL on the rows; all by default.")] = None,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Change columns of rows that fulfil a condition, in one commit."""
    pairs = [text.partition("=") for text in values]
    for name, equals, expression in pairs:
        if not (name.strip() and equals and expression.strip()):
            raise typer.BadParameter(f"--set takes COLUMN=SQL, not {name + equals + expression!r}")
    table = open_table(path, options=all_options(config, option))
    summary = table.update({name.strip(): expression for name, _, expression in pairs}, where)
    _print_summary(summary, as_json=as_json)


def merge(
    path: TablePath,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Parquet, Arrow IPC, CSV or JSON lines; - is standard input.")
    ],
    *,
    on: Annotated[
        str, typer.Option("--on", help="Columns that are equal in matching rows, separated by commas, or a condition.")
    ],
    matched: Annotated[
        Matched, typer.Option("--matched", case_sensitive=False, help="What happens to matching rows of the table.")
    ] = Matched.update,
    matched_if: Annotated[
        str | None, typer.Option("--matched-if", help="Condition in SQL on target and source; others stay as they are.")
    ] = None,
    not_matched: Annotated[
        NotMatched, typer.Option("--not-matched", case_sensitive=False, help="What happens to rows that match none.")
    ] = NotMatched.insert,
    not_matched_by_source: Annotated[
        NotMatchedBySource,
        typer.Option(
            "--not-matched-by-source",
            case_sensitive=False,
            help="What happens to rows that no row of the files meets.",
        ),
    ] = NotMatchedBySource.keep,
    schema_evolution: Annotated[
        bool, typer.Option("--schema-evolution", help="Add columns of the files that the table lacks.")
    ] = False,
    file_format: Format = None,
    time_zone: TimeZone = None,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Merge the rows of files into a table, in one commit."""
    table = open_table(path, options=all_options(config, option))
    columns = _names(on)
    named = set(columns) <= set(table.columns.names)
    change = table.merge(_rows(files, file_format, table, time_zone), columns if named else on)
    if schema_evolution:
        change.with_schema_evolution()
    if matched is Matched.update:
        change.when_matched_update_all(matched_if)
    elif matched is Matched.delete:
        change.when_matched_delete(matched_if)
    if not_matched is NotMatched.insert:
        change.when_not_matched_insert_all()
    if not_matched_by_source is NotMatchedBySource.delete:
        change.when_not_matched_by_source_delete()
    _print_summary(change.execute(), as_json=as_json)


def _rows(
    files: Sequence[str],
    file_format: FileFormat | None,
    table: Table | None,
    time_zone: str | None,
    keys: Sequence[str] = (),
) -> RowStream:
    """The rows of files; `keys` are key and partition columns of a table that is not there yet."""
    from hudi_catalog.sources.files import file_rows

    columns = None
    if table is not None:
        config = table.config
        columns, keys = table.columns, [*config.record_key_fields, *config.partition_fields]
    kind = None if file_format is None else file_format.value
    return file_rows(files, kind, columns, keys=keys, time_zone=time_zone)


def _open_if_there(path: str, options: dict[str, str]) -> Table | None:
    try:
        return open_table(path, options=options)
    except TableNotFoundError:
        return None


def _check_flags(options: Mapping[str, str], flags: Mapping[str, str | None]) -> dict[str, str]:
    """The flags that are set, by option key.

    Raises:
        OptionError: an option contradicts its flag.
    """
    values = {key: value for key, value in flags.items() if value is not None}
    for key, value in values.items():
        if options.get(key, value) != value:
            raise OptionError(f"{key} is {options[key]!r} by --option or --config, and {value!r} by its flag; give one")
    return values


def _index(kind: IndexKind | None) -> str | None:
    return None if kind is None else kind.value.upper()


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _print_summary(summary: WriteSummary, *, as_json: bool, created: bool = False) -> None:
    if as_json:
        print_json({**dataclasses.asdict(summary), "created": created})
    elif not (sys.stdout.isatty() and sys.stderr.isatty()):  # a terminal has the summary from the writer's progress
        stdout_console().print(str(summary))
