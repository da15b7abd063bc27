"""The calls of a writable table that lay its rows out anew: clusterings and resizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from table_format.table.client import TableClient
    from table_writer.clustering.report import ClusteringReport, ResizeReport
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
            ConflictError: another writer changed the same files first; nothing was changed.
        """
        from table_writer.cluster import cluster
        from table_writer.plan.arguments import names_of

        names = names_of("columns to sort by", sort_by)
        wanted = names_of("paths of partitions", partitions)

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

    def resize(
        self,
        buckets: int | None = None,
        *,
        auto: bool = False,
        partitions: str | Sequence[str] = (),
        acknowledge_fixed_writers: bool = False,
        options: Options | None = None,
        dry_run: bool = False,
    ) -> ResizeReport:
        """Change the number of buckets of a table with the bucket index, or of some partitions; changes no row.

        One commit. A multiple or a divisor of the present number is reached file group by file group; any other number
        by an exchange of all rows. Readers see one side or the other, and writers of this project that are under way
        are tried again on the new buckets.

        Args:
            buckets: of each partition afterwards.
            auto: choose a multiple or a divisor instead, for files of about `hoodie.parquet.max.file.size` bytes.
            partitions: only these, by path, `*` for any text. The table then has rules of counts by partition, as
                Apache's releases from 1.1 on know them: older ones must not write it any more.
            acknowledge_fixed_writers: jobs of Apache Hudi that write this table are stopped, or will give the new
                number. Needed where other tools have written it, or may have: left at the old number, they would put
                second rows of keys into other buckets, which nothing in the table prevents.
            options: of the table's writers; Apache's tables need the present `hoodie.bucket.index.num.buckets`.
            dry_run: report what would be done, and change nothing.

        Raises:
            ArgumentError: not exactly one of `buckets` and `auto`, no such number, or no such partition.
            OptionError: other writers, which nobody has acknowledged; or an invalid option.
            UnsupportedTableError: the table has no buckets, or numbers by partition and none is named; or a key lies
                in another bucket than its hash gives.
            TransactionError: a write of another tool, or a clustering, is pending.
            ConflictError: every attempt conflicted with another writer.
        """
        from table_format.errors import ArgumentError
        from table_writer.plan.arguments import names_of
        from table_writer.resize import ResizeRequest, resize

        if auto == (buckets is not None):
            raise ArgumentError("give either a number of buckets, or auto")
        wanted = tuple(names_of("paths of partitions", partitions))
        request = ResizeRequest(buckets, wanted, acknowledge_fixed_writers)
        return self.run_service(
            lambda client, merged, executor: resize(client, merged, executor, request, dry_run=dry_run), options
        )
