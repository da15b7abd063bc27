"""The commands of indexes: `hudi-catalog index show | bootstrap | verify | resize`.

The writer is imported when a command runs: the other commands start without it.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from catalog.amounts import bytes_text
from hudi_catalog.cli.arguments import (
    HELP,
    Config,
    Json,
    TablePath,
    WriterOptions,
    all_options,
    print_json,
    print_lines,
)
from table_format.config.option_keys import check_writer_options
from table_format.hfile.reader import HFileReader
from table_format.metadata_table import layout as names
from table_format.metadata_table.record_index_layout import GLOBAL, LAYOUT_KEY, IndexLayout
from table_format.storage import Storage
from table_format.table.client import TableClient

if TYPE_CHECKING:
    from table_writer.record_index.bootstrap import BootstrapReport
    from table_writer.record_index.verify import VerifyReport

_EXAMPLES = 10

index_app = typer.Typer(
    help="Build, check and change the indexes of a table.",
    no_args_is_help=True,
    context_settings=HELP,
)


@index_app.callback()
def _index() -> None:
    """Build, check and change the indexes of a table: the record index, column statistics, bloom filters."""


@index_app.command("show")
def index_show(path: TablePath, *, as_json: Json = False) -> None:
    """Show the indexes of a table: file groups, entries, sizes."""
    facts = index_json(TableClient.open(path))
    print_facts(facts, index_lines(facts), as_json=as_json)


# typer reads a command's options from its signature, so that commands with the same options repeat them


@index_app.command("bootstrap")
def index_bootstrap(
    path: TablePath,
    *,
    groups: Annotated[
        int | None,
        typer.Option("--groups", min=1, help="File groups of the index; chosen by the number of keys by default."),
    ] = None,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for writes that are under way.")] = 60,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Build the record index of a table from its data; an interrupted build is resumed."""
    from table_writer.record_index.bootstrap import bootstrap_index

    options = writer_options(config, option)
    with ProgressThreads() as view:
        report = bootstrap_index(
            TableClient.open(path), options, groups=groups, wait_seconds=wait, mapper=view, progress=view.begin_step
        )
    print_facts(bootstrap_json(report), bootstrap_lines(report), as_json=as_json)


@index_app.command("verify")
def index_verify(
    path: TablePath,
    *,
    sample: Annotated[
        float | None, typer.Option("--sample", help="Share of the file slices to read, such as 0.01; all if left out.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Instant or time: compare only what later writes touched.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Correct the index by a commit without data.")] = False,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Compare the record index of a table with its data; exit code 1 if they differ."""
    from table_writer.record_index.compare import DUPLICATE
    from table_writer.record_index.verify import verify_index

    options = writer_options(config, option)
    with ProgressThreads() as view:
        report = verify_index(
            TableClient.open(path),
            options,
            sample=sample,
            since=since,
            repair=repair,
            mapper=view,
            progress=view.begin_step,
        )
    print_facts(verify_json(report), verify_lines(report), as_json=as_json)
    left = report.counts[DUPLICATE] if report.repaired else sum(report.counts.values())
    if left:
        raise typer.Exit(1)


@index_app.command("resize")
def index_resize(
    path: TablePath,
    groups: Annotated[int, typer.Argument(min=1, help="New number of file groups.")],
    *,
    option: WriterOptions = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Change the number of file groups of a table's record index."""
    from table_writer.record_index.resize import resize

    client = TableClient.open(path)
    with ProgressThreads() as view:
        resize(client, groups, view, writer_options(config, option))
    facts = index_json(client)
    print_facts(facts, index_lines(facts), as_json=as_json)


def writer_options(config: str | None, option: Iterable[str] | None) -> dict[str, str]:
    """The options of a command, which are those of the table's writers."""
    options = all_options(config, option)
    check_writer_options(options)
    return options


def print_facts(facts: Any, lines: Iterable[RenderableType], *, as_json: bool) -> None:
    """Print what a command has to say, as JSON or as lines."""
    if as_json:
        print_json(facts)
    else:
        print_lines(lines)


def index_json(client: TableClient) -> dict[str, Any]:
    """Facts about a table's record index, for JSON output.

    Raises:
        CorruptFileError: file groups are missing, or a base file is damaged.
    """
    layout = IndexLayout.of(client)
    private = bool(client.config.raw.get(LAYOUT_KEY, "").strip())
    facts: dict[str, Any] = {
        "name": client.config.name,
        "uri": client.storage.uri,
        "state": "none" if layout is None and not private else "stale" if layout is None else "in use",
        "read_by_apache": layout is not None and not layout.is_private,
    }
    listed = client.config.metadata_partitions
    indexes = [index for index in (names.COLUMN_STATS, names.BLOOM_FILTERS) if index in listed]
    facts["indexes_of_files"] = {index: _sizes(client.storage, index) for index in indexes}
    if layout is None:
        return facts
    groups = names.list_file_groups(client.storage, names.RECORD_INDEX)
    bases = [group.base_files[-1] for group in groups if group.base_files]
    logs = [
        log
        for group in groups
        for log in group.log_files
        if not group.base_files or log.base_instant >= group.base_files[-1].instant
    ]
    return {
        **facts,
        "scope": layout.scope,
        "hash": layout.hash_name,
        "families": [{"prefix": prefix, "file_groups": count} for prefix, count in layout.families],
        "file_groups": layout.count,
        "entries_in_base_files": sum(_entries(client.storage, base) for base in bases),
        "base_bytes": sum(base.size for base in bases),
        "log_files": len(logs),
        "log_bytes": sum(log.size for log in logs),
    }


def _sizes(storage: Storage, index: str) -> dict[str, int]:
    groups = names.list_file_groups(storage, index)
    bases = sum(file.size for group in groups for file in group.base_files)
    return {"file_groups": len(groups), "bytes": bases + sum(log.size for group in groups for log in group.log_files)}


def index_lines(facts: dict[str, Any]) -> Iterator[RenderableType]:
    """The facts of `index_json` as lines to print."""
    yield Text.assemble((facts["name"], "bold"), "  ", (facts["uri"], "dim"))
    for index, sizes in facts["indexes_of_files"].items():
        yield f"{index}: {sizes['file_groups']:,} file groups, {bytes_text(sizes['bytes'])}"
    if facts["state"] != "in use":
        advice = {
            "none": "no record index: hudi-catalog index bootstrap builds one",
            "stale": "the record index is stale, since a writer did not update it: hudi-catalog index bootstrap "
            "rebuilds it",
        }
        yield advice[facts["state"]]
        return
    since = "" if facts["scope"] == GLOBAL else " from 1.1 on; 0.15 must not write to the table"
    whose = f"Apache Hudi reads it{since}" if facts["read_by_apache"] else "Apache Hudi does not read it"
    yield grid(
        {
            "scope": {"global": "the whole table", "partition": "each partition by itself"}[facts["scope"]],
            "hash": f"{facts['hash']}; {whose}",
            "file groups": " + ".join(f"{family['file_groups']:,}" for family in facts["families"][:8]),
            "base files": f"{facts['entries_in_base_files']:,} entries, {bytes_text(facts['base_bytes'])}",
            "log files": f"{facts['log_files']:,}, {bytes_text(facts['log_bytes'])}",
        }
    )


def bootstrap_json(report: BootstrapReport) -> dict[str, Any]:
    """Result of a bootstrap, for JSON output."""
    return dataclasses.asdict(report)


def bootstrap_lines(report: BootstrapReport) -> Iterator[RenderableType]:
    """Result of a bootstrap as lines to print."""
    rate = report.keys / report.seconds if report.seconds else 0.0
    yield grid(
        {
            "keys": f"{report.keys:,} of {report.slices:,} file slices, {report.keys_read:,} of them read now",
            "index": f"{report.groups:,} file groups, {bytes_text(report.size)}",
            "time": f"{report.seconds:.1f} s, {rate:,.0f} keys/s",
        }
    )
    if report.duplicates:
        yield Text(f"{report.duplicates:,} rows have the key of another row; the index has the newest:", "yellow")
        for key, places in report.examples[:_EXAMPLES]:
            yield f"  {key}: {', '.join(places)}"
        if all(_in_several_partitions(places) for _, places in report.examples):
            yield (
                "keys seem to be unique in each partition only: hudi-catalog index bootstrap -o "
                "hoodie.metadata.record.level.index.enable=true builds an index by partition"
            )


def verify_json(report: VerifyReport) -> dict[str, Any]:
    """The report of a verification, for JSON output."""
    return {**dataclasses.asdict(report), "is_right": report.is_right}


def verify_lines(report: VerifyReport) -> Iterator[RenderableType]:
    """The report of a verification as lines to print."""
    some = "" if report.slices == report.slices_total else f" of {report.slices_total:,}"
    later = "" if report.since is None else f" that writes after {report.since} touched"
    yield grid(
        {
            "data": f"{report.keys:,} keys in {report.slices:,}{some} file slices{later}",
            "index": f"{report.entries:,} entries in {report.groups:,} file groups",
            "time": f"{report.seconds:.1f} s",
        }
    )
    if report.is_right:
        yield Text("the index agrees with the data", "green")
        if report.verified_to is not None:
            yield f"later writes alone: --since {report.verified_to}"
        return
    faults = RichTable(box=None, pad_edge=False, header_style="bold")
    faults.add_column("fault")
    faults.add_column("keys", justify="right")
    for kind, count in report.counts.items():
        faults.add_row(kind, f"{count:,}")
    yield faults
    examples = RichTable(box=None, pad_edge=False, header_style="bold")
    for name in ("fault", "key", "in the data", "in the index"):
        examples.add_column(name, overflow="fold")
    for one in report.examples:
        examples.add_row(one.kind, one.key, ", ".join(one.data) or "-", one.index or "-")
    yield examples
    if report.repaired:
        how = "rebuilt" if report.instant is None else f"repaired by the commit {report.instant}"
        yield Text(f"the index was {how}", "green")


def _in_several_partitions(places: Sequence[str]) -> bool:
    folders = [place.rpartition("/")[0] for place in places]
    return len(set(folders)) == len(folders)


def _entries(storage: Storage, base: names.BaseFile) -> int:
    def read_range(offset: int, length: int) -> memoryview:
        return storage.read_range(base.path, offset, length)

    return HFileReader.open(read_range, base.size, base.path).entry_count


def grid(rows: dict[str, str]) -> RichTable:
    """Facts and their names in two columns."""
    grid = RichTable(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, text in rows.items():
        grid.add_row(name, text)
    return grid


T = TypeVar("T")

R = TypeVar("R")

_MOST_THREADS = 8


class ProgressThreads:
    """A mapper that runs in threads and shows a progress bar where standard error is a terminal.

    Attributes:
        steps: the descriptions of its steps so far.
    """

    def __init__(self) -> None:
        self.steps: list[str] = []
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin_step(self, text: str) -> None:
        """Begin a step; the bar shows its description."""
        self.steps.append(text)
        self._bar.reset(self._task, description=text, total=None)

    def __call__(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Apply the function to all items; the first error is raised, and items not begun are dropped."""
        self._bar.reset(self._task, total=len(items))
        with concurrent.futures.ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
            begun = [pool.submit(function, item) for item in items]
            try:
                for done in concurrent.futures.as_completed(begun):
                    done.result()
                    self._bar.advance(self._task)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            return [one.result() for one in begun]
