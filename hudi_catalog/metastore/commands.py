"""The command `hudi-catalog sync`."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypeVar

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import track

from catalog.catalog import Catalog, TableEntry
from catalog.concurrency.late_tables import DEFAULT_SECONDS, LateTables
from catalog.concurrency.workers import each, leave_if_hung
from catalog.table import Table
from hudi_catalog.option_groups import key_value
from table_format.errors import HudiError, LateTableError, OptionError, error_text
from table_format.storage import Storage

if TYPE_CHECKING:
    from hudi_catalog.metastore.hive_sync import HiveSync
    from hudi_catalog.metastore.sync_options import SyncOptions
    from hudi_catalog.metastore.trino_sync import TrinoSync

T = TypeVar("T")

_THREADS = 8
_WRONG_USAGE = 2
_MAX_CHANGES = 100

TableTimeout = Annotated[
    float,
    typer.Option("--table-timeout", min=0.01, help="Seconds for which a table's storage may leave a call unanswered."),
]


class Target(StrEnum):
    """Engines that tables can be registered for."""

    hive = "hive"
    trino = "trino"


class Format(StrEnum):
    """Ways in which engines read an entry."""

    handler = "handler"
    apache = "apache"
    symlink = "symlink"


@dataclass(frozen=True)
class _Outcome:
    """Result for one table."""

    path: str
    done: TrinoSync | HiveSync | None
    problem: str | None = None
    remedy: str | None = None


def sync(
    path: Annotated[str, typer.Argument(help="Folder or URI of a table; with --all of a warehouse.")],
    *,
    metastore: Annotated[
        str, typer.Option("--metastore", help="thrift://host:port, or the folder of Trino's file metastore.")
    ],
    target: Annotated[
        Target | None,
        typer.Option("--target", help="Engine that is to read the tables: hive, for Spark too, or trino."),
    ] = None,
    entry_format: Annotated[
        Format | None, typer.Option("--format", help="How it reads them; handler by default, for Trino symlink.")
    ] = None,
    service: Annotated[
        str | None,
        typer.Option("--service", help="host:port of the service for Hive, written into the entries; or hive-site."),
    ] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", help="Schema of the entries; the table's database by default.")
    ] = None,
    table: Annotated[str | None, typer.Option("--table", help="Name of the entry; the table's by default.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All tables under the folder.")] = False,
    keep_dropped: Annotated[
        bool, typer.Option("--keep-dropped", help="Partitions that somebody dropped from the metastore stay dropped.")
    ] = False,
    also_hudi: Annotated[
        bool, typer.Option("--also-hudi", help="Also register for Trino's own Hudi connector, as NAME_hudi.")
    ] = False,
    locations: Annotated[
        str | None,
        typer.Option("--location-prefix", help="How the engine spells places, ours=theirs: file:///data=local:///"),
    ] = None,
    table_timeout: TableTimeout = DEFAULT_SECONDS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes, make none.")] = False,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="Option of the sync as key=value; repeatable.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="For scripts: JSON on standard output, nothing else.")
    ] = False,
) -> None:
    """Register tables in a metastore, or bring what is registered up to date.

    The exit code is 0 when every table is as it should be, 1 when something failed, 2 for wrong usage.
    """
    # imported here, so that other commands start faster
    from hudi_catalog.metastore import sync_options as keys
    from hudi_catalog.metastore.metastore_options import split_options
    from hudi_catalog.metastore.open_metastore import open_metastore

    flags = {
        keys.DATABASE: schema,
        keys.TABLE: table,
        keys.LOCATIONS: locations,
        keys.SERVICE: service,
        keys.FORMAT: entry_format,
        keys.DROPPED: keys.KEEP if keep_dropped else None,
    }
    try:
        of_store, values = split_options(_values(option or [], flags, every=every))
        run = _runner(target, keys.SyncOptions.parse(values), metastore, also_hudi=also_hudi)
        store = open_metastore(metastore, options=of_store)
    except OptionError as error:
        sys.stderr.write(f"hudi-catalog: {error_text(error)}\n")
        raise typer.Exit(_WRONG_USAGE) from error

    def one(path: str, names: Mapping[str, str]) -> TrinoSync | HiveSync:
        return run(Table.open(path), store, keys.SyncOptions.parse({**names, **values}), dry_run=dry_run)

    def named(entry: TableEntry) -> TrinoSync | HiveSync:
        database, _, name = entry.name.rpartition(".")
        return one(entry.uri, {keys.DATABASE: database or "default", keys.TABLE: name})

    late = LateTables(table_timeout)
    try:
        outcomes = (
            list(_all(path, named, late, values.get(keys.DATABASE)))
            if every
            else [_single(path, lambda: one(path, {}), late)]
        )
    finally:
        store.close()
    _print(outcomes, dry_run=dry_run, as_json=as_json)
    if len(late):
        leave_if_hung(1)
    if any(outcome.problem for outcome in outcomes):
        raise typer.Exit(1)


def _values(option_texts: list[str], flags: Mapping[str, str | None], *, every: bool) -> dict[str, str]:
    """Options by their keys; flags take precedence.

    Raises:
        OptionError: a malformed option, or options that exclude each other.
    """
    from hudi_catalog.metastore.sync_options import TABLE

    if every and flags[TABLE] is not None:
        raise OptionError("--table names one entry, and --all makes many; leave one of them out")
    values = dict(key_value(text) for text in option_texts)
    return values | {key: str(value) for key, value in flags.items() if value is not None}


def _runner(
    target: Target | None, options: SyncOptions, metastore: str, *, also_hudi: bool
) -> Callable[..., TrinoSync | HiveSync]:
    """The sync function: by default for Hive in a Hive Metastore, and for Trino in a file metastore.

    Raises:
        OptionError: flags that exclude each other.
    """
    from hudi_catalog.metastore.hive_sync import sync_to_hive
    from hudi_catalog.metastore.trino_sync import sync_to_trino

    symlink = options.hive.format in (None, Format.symlink)
    wanted = target or (Target.trino if symlink and not metastore.strip().startswith("thrift:") else Target.hive)
    if wanted is Target.trino:
        if not symlink:
            raise OptionError(f"--format {options.hive.format} is for Hive; write --target hive, or leave it out")
        return functools.partial(sync_to_trino, also_hudi=also_hudi)
    if also_hudi:
        raise OptionError("--also-hudi registers for Trino; write --target trino")
    return functools.partial(sync_to_hive, must_be_served=True)


def _single(path: str, run: Callable[[], TrinoSync | HiveSync], late: LateTables) -> _Outcome:
    def attempt(folder: str) -> TrinoSync | HiveSync:
        with late.working(path, folder):
            return run()

    (done,) = each([Storage(path).base], attempt, 1, "hudi-sync")
    if isinstance(done, LateTableError):
        return _Outcome(path, None, str(done))
    if isinstance(done, Exception):
        remedy = getattr(done, "REMEDY", None)
        if remedy is None:
            raise done
        return _Outcome(path, None, str(done), remedy)
    return _Outcome(path, done)


def _all(
    warehouse: str, named: Callable[[TableEntry], TrinoSync | HiveSync], late: LateTables, schema: str | None
) -> Iterator[_Outcome]:
    """Sync each table of a warehouse, to one schema if given; a failure or delay of one does not affect the others."""
    catalog = Catalog(warehouse, late=late)
    entries = catalog.tables()

    def name_of(entry: TableEntry) -> str:
        return (entry.name.rpartition(".")[2] if schema else entry.name).lower()

    first: dict[str, str] = {}
    for entry in entries:
        first.setdefault(name_of(entry), entry.path)

    def attempt(entry: TableEntry) -> _Outcome:
        other = first[name_of(entry)]
        if entry.problem is not None or other != entry.path:
            return _Outcome(
                entry.path,
                None,
                entry.problem or f"{other} has the same name for a metastore; sync it alone, with --table",
            )
        try:
            with late.working(entry.name, catalog.storage.full_path(entry.path)):
                return _Outcome(entry.path, named(entry))
        except (HudiError, pa.ArrowException, OSError) as error:
            return _Outcome(entry.path, None, str(error), getattr(error, "REMEDY", None))

    for entry, outcome in each_table(entries, attempt, _THREADS, "hudi-sync"):
        yield _Outcome(entry.path, None, str(outcome)) if isinstance(outcome, LateTableError) else outcome


def each_table(
    entries: Sequence[TableEntry], attempt: Callable[[TableEntry], T], threads: int, name: str
) -> Iterator[tuple[TableEntry, T | LateTableError]]:
    """What some work on each table of a warehouse gives, in order, with progress on a terminal.

    Args:
        entries: the tables.
        attempt: the work; its errors are raised, but for that of a table whose storage does not answer.
        threads: at a time.
        name: of the threads.
    """
    console = Console(stderr=True)
    results = each(entries, attempt, threads, name)
    disable = not console.is_terminal
    tracked = track(results, "tables", len(entries), console=console, transient=True, disable=disable)
    for entry, outcome in zip(entries, tracked, strict=True):
        if isinstance(outcome, Exception) and not isinstance(outcome, LateTableError):
            raise outcome
        yield entry, outcome


def _print(outcomes: list[_Outcome], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps([_json(outcome) for outcome in outcomes], ensure_ascii=False, indent=2) + "\n")
        return
    for outcome in outcomes:
        done = outcome.done
        if done is None:
            sys.stderr.write(f"hudi-catalog: {outcome.path}: {' '.join((outcome.problem or '').split())}\n")
            continue
        summary = f"{len(done.changes)} change{'' if len(done.changes) == 1 else 's'}" if done.changes else "up to date"
        when = f" at {done.instant}" if done.instant else ""
        names = ", ".join(f"{done.schema}.{name}" for name in done.names)
        sys.stdout.write(f"{names}{when}: {summary}{', not made' if dry_run and done.changes else ''}\n")
        for warning in done.warnings:
            sys.stderr.write(f"hudi-catalog: warning: {warning}\n")
        shown = done.changes if dry_run else done.changes[:_MAX_CHANGES] if len(outcomes) == 1 else ()
        for change in shown:
            sys.stdout.write(f"  {change}\n")
        if len(outcomes) == 1 and len(shown) < len(done.changes):
            sys.stdout.write(f"  … and {len(done.changes) - len(shown):,} more; --json lists all\n")
    for remedy in dict.fromkeys(outcome.remedy for outcome in outcomes if outcome.remedy):
        sys.stderr.write(f"hudi-catalog: {remedy}\n")


def _json(outcome: _Outcome) -> dict[str, object]:
    done = outcome.done
    if done is None:
        problem: dict[str, object] = {"path": outcome.path, "problem": outcome.problem}
        return problem | ({"remedy": outcome.remedy} if outcome.remedy else {})
    changes = [
        {"kind": change.kind, "what": change.what, "before": change.before, "after": change.after}
        for change in done.changes
    ]
    return {
        "path": outcome.path,
        "schema": done.schema,
        "table": done.names[0],
        "tables": list(done.names),
        "instant": done.instant,
        "changes": changes,
        "warnings": list(done.warnings),
    }
