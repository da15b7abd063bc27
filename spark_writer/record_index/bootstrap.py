"""Building the record index of a table by Spark's tasks, and comparing it with the data."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_writer.progress import WriteProgress
from spark_writer.spark_map import spark_mapper
from table_format.table.client import TableClient
from table_writer.plan import option_registry as registry
from table_writer.plan.options import WriteOptions
from table_writer.record_index.bootstrap import BootstrapReport, bootstrap_index
from table_writer.record_index.verify import VerifyReport, verify_index


def bootstrap(
    session: SparkSession, client: TableClient, options: WriteOptions, *, groups: int | None, wait_seconds: float
) -> BootstrapReport:
    """Build the record index; see `table_writer.record_index.bootstrap.bootstrap_index`."""
    with _progress(session, options) as progress:
        return bootstrap_index(
            client,
            options.texts,
            groups=groups,
            wait_seconds=wait_seconds,
            mapper=spark_mapper(session),
            tell=progress.phase,
        )


def verify(
    session: SparkSession, client: TableClient, options: WriteOptions, *, sample: float | None, repair: bool
) -> VerifyReport:
    """Compare the record index with the data; see `table_writer.record_index.verify.verify_index`."""
    with _progress(session, options) as progress:
        return verify_index(
            client,
            options.texts,
            sample=sample,
            repair=repair,
            mapper=spark_mapper(session),
            shared=True,
            tell=progress.phase,
        )


def _progress(session: SparkSession, options: WriteOptions) -> WriteProgress:
    return WriteProgress(session, options.text(registry.PROGRESS) or "auto")
