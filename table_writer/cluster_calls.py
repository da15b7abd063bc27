"""The calls of a writable table that cluster it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from table_format.table.client import TableClient
    from table_writer.clustering.report import ClusteringReport
    from table_writer.execution.executor import Executor
    from table_writer.plan.options import WriteOptions

T = TypeVar("T")
Options = Mapping[str, Any]


class ClusterCalls(ABC):
    """Part of `TableWrites`."""

    @abstractmethod
    def run_service(self, service: Callable[[TableClient, WriteOptions, Executor], T], options: Options | None) -> T:
        """Run a service on the table's current state; see `TableWrites`."""

    def cluster(
        self,
        sort_by: str | Sequence[str] = (),
        strategy: str | None = None,
        *,
        partitions: str | Sequence[str] = (),
        options: Options | None = None,
        plan_only: bool = False,
        dry_run: bool = False,
    ) -> ClusteringReport:
        """Merge small files, and sort their rows anew; one commit, after which every record is in another file.

        Until it has completed, writes that change its files are refused.

        Args:
            sort_by: column or columns, up to 8, that filters name; none for the record key, which only merges files.
            strategy: `linear` (one column after the other), `z-order` or `hilbert` (all columns alike); None for the
                option's.
            partitions: paths, `*` for any text; only these are clustered. None for all.
            options: `hoodie.clustering.plan.strategy.*` and those of the table's writers.
            plan_only: put the plan on the timeline and leave running it to `run_clustering`, or to Apache Hudi.
            dry_run: report what would be planned, and change nothing.

        Raises:
            OptionError: an invalid option.
            SchemaError: a column to sort by is not there, or has no order.
            UnsupportedTableError: a table with buckets, without columns to sort by.
            ConflictError: another writer changed the same files first; the plan stays, to be cancelled by `rollback`.
        """
        from table_writer.cluster import cluster

        names = [sort_by] if isinstance(sort_by, str) else list(sort_by)
        wanted = [partitions] if isinstance(partitions, str) else list(partitions)

        def service(client: TableClient, merged: WriteOptions, executor: Executor) -> ClusteringReport:
            return cluster(
                client,
                merged,
                executor,
                sort_by=names,
                strategy=strategy,
                partitions=wanted,
                plan_only=plan_only,
                dry_run=dry_run,
            )

        return self.run_service(service, options)

    def run_clustering(self, instant: str | None = None, options: Options | None = None) -> list[ClusteringReport]:
        """Run clusterings that are planned, by this project or by Apache Hudi; those whose run died begin anew.

        Args:
            instant: of a plan; None for all, oldest first.
            options: of the table's writers; `hoodie.layout.optimize.strategy` for Apache's plans, which do not hold it.

        Raises:
            TransactionError: there is no such plan, or another writer runs it.
            ConflictError: files of the plan were changed by a writer that does not respect plans.
        """
        from table_writer.cluster import run_planned

        return self.run_service(
            lambda client, merged, executor: run_planned(client, merged, executor, instant), options
        )
