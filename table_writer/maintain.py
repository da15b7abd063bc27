"""Maintenance: one run of all services that a table needs by its policy.

A service is an entry of `SERVICES`. Each can be repeated, and finishes what an earlier run left; so can the whole.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from catalog.amounts import bytes_text
from table_format.config.table_config import require_writable
from table_format.errors import HudiError, OptionError, UnsupportedTableError, did_you_mean, error_text
from table_format.metadata_table import layout
from table_format.table.client import TableClient
from table_writer.archive.archive import ArchiveReport, archive, archive_locked
from table_writer.cluster import cluster_by_policy, why_not_clustered
from table_writer.execution.executor import Executor
from table_writer.index_upkeep import IndexUpkeep, build_needed, needed_indexes
from table_writer.metadata import instants
from table_writer.metadata.compaction import clean_metadata_table, compact_metadata_table, due_compaction
from table_writer.partition_ttl import ExpiryReport, expire_partitions
from table_writer.plan import option_registry as registry
from table_writer.plan.options import WriteOptions
from table_writer.repair import RepairReport, foresee_settling, repair, settle_locked
from table_writer.services.clean import CleanReport, clean, is_due
from table_writer.summary import counted
from table_writer.timeline.instants import table_lock
from table_writer.timeline.options import TTL_DAYS, ProtocolOptions

_log = logging.getLogger(__name__)
_INCREMENTAL: Final = "hoodie.clean.incremental.enabled"

DONE, PLANNED, NOTHING, SKIPPED, FAILED = "done", "planned", "nothing", "skipped", "failed"
"""What became of a service: `PLANNED` in a dry run, `NOTHING` where it was not needed, `SKIPPED` where the policy does
not ask for it, or the table is of a kind that it does not serve."""


@dataclass(frozen=True)
class Upkeep:
    """A table under maintenance.

    Attributes:
        client: the table.
        options: the policy.
        executor: runs what has tasks.
    """

    client: TableClient
    options: WriteOptions
    executor: Executor

    @property
    def protocol(self) -> ProtocolOptions:
        """The options of the commit protocol and its services."""
        return ProtocolOptions.parse(self.options.texts)


@dataclass(frozen=True)
class Service:
    """A service that a maintenance run considers.

    Attributes:
        name: in `hoodie.catalog.maintain.services`, and in reports.
        plan: what it would do, as a report (a dataclass); changes nothing, and takes no lock.
        run: does it, and reports what was done.
        summary: of a report in a few words; empty where there is nothing to do.
        skipped: why the policy leaves the service out; empty where it does not.
    """

    name: str
    plan: Callable[[Upkeep], Any]
    run: Callable[[Upkeep], Any]
    summary: Callable[[Any], str]
    skipped: Callable[[Upkeep], str] = lambda _: ""


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one service.

    Attributes:
        service: its name.
        state: `DONE`, `PLANNED`, `NOTHING`, `SKIPPED` or `FAILED`.
        summary: in a few words; of a failed service the error, of a skipped one why.
        report: of the service; None where it failed or was skipped.
    """

    service: str
    state: str
    summary: str
    report: Any = None

    def to_json(self) -> dict[str, Any]:
        """The fields by name, the report as an object."""
        report = None if self.report is None else dataclasses.asdict(self.report)
        return {"service": self.service, "state": self.state, "summary": self.summary, "report": report}


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """What a maintenance run did, or would do.

    Attributes:
        name: of the table.
        uri: its folder.
        steps: one for each service that was considered, in order.
    """

    name: str
    uri: str
    steps: tuple[Step, ...]

    @property
    def failed(self) -> bool:
        """Whether a service failed."""
        return any(step.state == FAILED for step in self.steps)

    @property
    def idle(self) -> bool:
        """Whether nothing was needed."""
        return all(step.state in (NOTHING, SKIPPED) for step in self.steps)

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return {"name": self.name, "uri": self.uri, "steps": [step.to_json() for step in self.steps]}


@dataclass(frozen=True, slots=True)
class MetadataCompaction:
    """A compaction of the metadata table.

    Attributes:
        instant: of the compaction; None where none is due.
    """

    instant: str | None = None


def maintain(
    client: TableClient,
    options: WriteOptions,
    executor: Executor,
    *,
    dry_run: bool = False,
    progress: Callable[[str], None] | None = None,
) -> MaintenanceReport:
    """Run the services that a table needs by its policy.

    Args:
        client: the table.
        options: the policy.
        executor: runs what has tasks.
        dry_run: report what would be done, and change nothing.
        progress: called with the name of each service as it begins.

    Raises:
        OptionError: an invalid option.
        UnsupportedTableError: a table of this kind can only be read.
    """
    upkeep = Upkeep(client, options, executor)
    require_writable(client.config, client.storage.uri)
    _ = upkeep.protocol  # a wrong option fails the run, and not each of its services
    steps: list[Step] = []
    for service in wanted_services(options):
        if progress is not None:
            progress(service.name)
        steps.append(_step(service, upkeep, dry_run=dry_run))
        if service is SETTLE and steps[-1].state == FAILED:
            break  # the others build on a timeline at rest
    return MaintenanceReport(client.config.name, client.storage.uri, tuple(steps))


def wanted_services(options: WriteOptions) -> list[Service]:
    """The services that the options name, in the order in which they run.

    Raises:
        OptionError: a name that no service has.
    """
    names = options.names(registry.MAINTENANCE)
    known = [service.name for service in SERVICES]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise OptionError(f"{registry.MAINTENANCE.key}: there is no service {name!r}{hint}; give {known}")
    return [service for service in SERVICES if service.name in names]


def _step(service: Service, upkeep: Upkeep, *, dry_run: bool) -> Step:
    client = upkeep.client
    try:
        client.reload()
        if reason := service.skipped(upkeep):
            return Step(service.name, SKIPPED, reason)
        report = service.plan(upkeep) if dry_run else service.run(upkeep)
    except UnsupportedTableError as error:
        return Step(service.name, SKIPPED, error_text(error))
    except (HudiError, pa.ArrowException, OSError) as error:
        _log.warning("%s: %s failed: %s", client.storage.uri, service.name, error_text(error))
        return Step(service.name, FAILED, error_text(error))
    summary = service.summary(report)
    return Step(service.name, (PLANNED if dry_run else DONE) if summary else NOTHING, summary, report)


def _settle(upkeep: Upkeep) -> RepairReport:
    with table_lock(upkeep.client, upkeep.protocol):
        return settle_locked(upkeep.client, upkeep.protocol)


def _settled(report: RepairReport) -> str:
    parts = (
        (len(report.rolled_back), "dead write"),
        (len(report.cleans), "interrupted clean"),
        (len(report.leftovers), "leftover"),
        (len(report.files), "file"),
    )
    return ", ".join(counted(number, noun) for number, noun in parts if number)


def _expired(report: ExpiryReport) -> str:
    if not report.partitions:
        return ""
    partitions = counted(len(report.partitions), "partition")
    return f"{partitions} of {counted(report.files, 'file')}, {bytes_text(report.bytes)}"


def _clean(upkeep: Upkeep, *, dry_run: bool) -> CleanReport:
    if not is_due(upkeep.client.timeline(), upkeep.protocol.clean):
        return CleanReport()
    incremental = "true" if upkeep.protocol.clean.incremental else "false"
    return clean(upkeep.client, {**upkeep.options.texts, _INCREMENTAL: incremental}, dry_run=dry_run)


def _cleaned(report: CleanReport) -> str:
    if not report.files:
        return ""
    return f"{counted(report.files, 'file')} of {counted(report.partitions, 'partition')}, {bytes_text(report.bytes)}"


def _indexed(report: IndexUpkeep) -> str:
    done = "built " if report.reports else ""
    return "; ".join(f"{done}{need.index}: {need.reason}" for need in report.needs)


def _due_compaction(upkeep: Upkeep) -> MetadataCompaction:
    client = upkeep.client
    if layout.FILES not in client.config.metadata_partitions:
        return MetadataCompaction()
    data, own = client.timeline(), instants.load_metadata_timeline(client.storage)
    return MetadataCompaction(due_compaction(client, data, own, upkeep.options.texts))


def _compact(upkeep: Upkeep) -> MetadataCompaction:
    client, options = upkeep.client, upkeep.options.texts
    if _due_compaction(upkeep).instant is None:
        return MetadataCompaction()
    with table_lock(client, upkeep.protocol):
        instant = compact_metadata_table(client, options, upkeep.executor.map)
        if instant is not None:
            clean_metadata_table(client)
        return MetadataCompaction(instant)


def _foresee_archive(upkeep: Upkeep) -> ArchiveReport:
    client = upkeep.client
    return archive_locked(client, client.timeline(), upkeep.protocol, None, dry_run=True)


def _archived(report: ArchiveReport) -> str:
    if not report.files:
        return ""
    both = f"{counted(len(report.instants), 'instant')}, and {report.metadata_instants:,} of the metadata table"
    return f"{both}; {counted(report.files, 'file')}"


def _repaired(report: RepairReport) -> str:
    settled = _settled(dataclasses.replace(report, files=()))
    files = f"{counted(len(report.files), 'file')} of no instant, {bytes_text(report.bytes)}" if report.files else ""
    return ", ".join(text for text in (settled, files) if text)


SETTLE: Final = Service("settle", lambda upkeep: foresee_settling(upkeep.client, upkeep.protocol), _settle, _settled)
"""What every write does first: dead writers' writes, interrupted rollbacks, restores and cleans."""

SERVICES: Final = (
    SETTLE,
    Service(
        "repair",
        lambda upkeep: repair(upkeep.client, upkeep.options.texts, dry_run=True),
        lambda upkeep: repair(upkeep.client, upkeep.options.texts),
        _repaired,
    ),
    Service(
        "clean", lambda upkeep: _clean(upkeep, dry_run=True), lambda upkeep: _clean(upkeep, dry_run=False), _cleaned
    ),
    Service(
        "expire",
        lambda upkeep: expire_partitions(upkeep.client, upkeep.options, upkeep.executor, dry_run=True),
        lambda upkeep: expire_partitions(upkeep.client, upkeep.options, upkeep.executor),
        _expired,
        lambda upkeep: "" if upkeep.protocol.ttl.days >= 1 else f"{TTL_DAYS} does not say how long partitions live",
    ),
    Service(
        "cluster",
        lambda upkeep: cluster_by_policy(upkeep.client, upkeep.options, upkeep.executor, dry_run=True),
        lambda upkeep: cluster_by_policy(upkeep.client, upkeep.options, upkeep.executor),
        lambda clusterings: "; ".join(str(report) for report in clusterings.reports),
        lambda upkeep: why_not_clustered(upkeep.client, upkeep.options),
    ),
    Service(
        "index",
        lambda upkeep: IndexUpkeep(needed_indexes(upkeep.client, upkeep.options)),
        lambda upkeep: build_needed(upkeep.client, upkeep.options, upkeep.executor),
        _indexed,
    ),
    Service("compact", _due_compaction, _compact, lambda report: report.instant or ""),
    Service("archive", _foresee_archive, lambda upkeep: archive(upkeep.client, upkeep.options.texts), _archived),
)
"""In the order in which they run.

Cleaning comes before what replaces file groups: of a replaced group it keeps all versions until the policy no longer
retains the replacing commit. Partitions expire before a clustering, which would count as a write to them; indexes are
built after it, of fewer files; archiving comes last, since pending instants and the metadata table hold it back.
"""
