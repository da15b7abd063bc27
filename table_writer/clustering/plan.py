"""Planning a clustering: which files are rewritten together, and into how many."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from table_format.actions.table_services import ClusteringPlan, ClusteringSlice
from table_format.errors import OptionError, SchemaError, UnsupportedTableError, did_you_mean
from table_format.meta_columns import META_FIELDS, RECORD_KEY
from table_format.table.client import TableClient
from table_writer.clustering.curves import MOST_AXES
from table_writer.clustering.order import Layout
from table_writer.plan import clustering_options as keys
from table_writer.plan.options import WriteOptions
from table_writer.slots.partition_files import matches_partition, refuse_unmatched_partitions
from table_writer.tagging.files import are_buckets

STRATEGY: Final = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
#: The one that keeps each file a file, of a table with buckets.
SINGLE_FILE_STRATEGY: Final = "org.apache.hudi.client.clustering.run.strategy.SparkSingleFileSortExecutionStrategy"
_BUCKET: Final = "BUCKET"
#: Short names of Apache's plan strategies that choose files as `plan_clustering` does, with the filter mode of each.
_PLAN_CLASSES: Final = {
    "SparkSizeBasedClusteringPlanStrategy": None,
    "JavaSizeBasedClusteringPlanStrategy": None,
    "FlinkSizeBasedClusteringPlanStrategy": None,
    "SparkRecentDaysClusteringPlanStrategy": "RECENT_DAYS",
    "SparkSelectedPartitionsClusteringPlanStrategy": "SELECTED_PARTITIONS",
}
_RUN_CLASSES: Final = {
    "SparkSortAndSizeExecutionStrategy": False,
    "JavaSortAndSizeExecutionStrategy": False,
    "SparkSingleFileSortExecutionStrategy": True,
}
_HOURS: Final = 24


@dataclass(frozen=True)
class Sorting:
    """By what rows are sorted.

    Attributes:
        columns: none for the record key.
        layout: see `Layout`.
    """

    columns: tuple[str, ...]
    layout: Layout

    @classmethod
    def of(cls, options: WriteOptions) -> Self:
        """The sorting that options ask for."""
        text = options.text(keys.LAYOUT) or Layout.LINEAR.value
        layout = Layout.Z_ORDER if text == "zorder" else Layout(text)
        return cls(options.names(keys.SORT_COLUMNS), layout)

    @classmethod
    def of_plan(cls, plan: ClusteringPlan, options: WriteOptions) -> Self:
        """The sorting of a plan; Apache's plans leave the layout to the job that runs them."""
        named = {
            key.key: plan.parameters[key.key] for key in (keys.SORT_COLUMNS, keys.LAYOUT) if key.key in plan.parameters
        }
        return cls.of(options.with_values({keys.SORT_COLUMNS.key: "", **named}))

    @property
    def by(self) -> tuple[str, ...]:
        """The columns, or that of the record key."""
        return self.columns or (RECORD_KEY,)

    def refuse_columns(self, schema: pa.Schema, place: str) -> None:
        """Refuse columns by which rows cannot be sorted.

        Raises:
            OptionError: too many, or one twice.
            SchemaError: one that the table does not have, or that has no order.
        """
        if len(self.columns) > MOST_AXES or len(set(self.columns)) < len(self.columns):
            raise OptionError(
                f"{keys.SORT_COLUMNS.key}={','.join(self.columns)}: give up to {MOST_AXES} columns, each once"
            )
        fields = {field.name: field.type for field in (*META_FIELDS, *schema)}
        for name in self.columns:
            if name not in fields:
                hint = did_you_mean(name, schema.names)
                raise SchemaError(f"{place}: no column {name!r} to sort by{hint}; columns are {schema.names}")
            if pa.types.is_nested(fields[name]):
                raise SchemaError(f"{place}: column {name!r} is {fields[name]}, which has no order; choose another")


def plan_clustering(
    client: TableClient,
    files: pa.Table,
    options: WriteOptions,
    partitions: Sequence[str] = (),
    *,
    busy: Callable[[tuple[str, str]], bool] = lambda _: False,
) -> ClusteringPlan:
    """Choose the files to cluster, as Apache's `SparkSizeBasedClusteringPlanStrategy` does.

    Files of a partition below `small.file.limit` are put together, the largest first, into groups of at most
    `max.bytes.per.group`. A file alone is taken only where rows are sorted by columns. In tables with buckets each file
    is a group.

    Args:
        client: the table.
        files: its latest base files, of `BASE_FILES_SCHEMA`.
        options: of the clustering.
        partitions: paths, `*` for any text; only these are taken. None for all that the options choose.
        busy: whether a file group, by partition path and file id, is in another plan.

    Raises:
        ArgumentError: there is no such partition.
        OptionError: a strategy that is not understood.
        UnsupportedTableError: buckets, and no columns to sort by.
    """
    sorting = Sorting.of(options)
    names = pc.unique(files["partition"]).to_pylist()
    refuse_unmatched_partitions(names, partitions)
    bucketed = has_buckets(client, options, files)
    _refuse_run_class(options, bucketed=bucketed)
    if bucketed and not sorting.columns:
        raise UnsupportedTableError(
            f"{client.storage.uri}: each bucket of this table is one file, and buckets are not merged: name columns "
            f"to sort buckets by ({keys.SORT_COLUMNS.key}). Fewer or more buckets are made by `hudi-catalog resize`"
        )
    limit, most = options.number(keys.SMALL_FILES) or 0, options.number(keys.GROUP_BYTES) or 1
    target, count = options.number(keys.TARGET_BYTES) or 1, options.number(keys.GROUPS) or 1
    small = files.filter(pc.less(files["size"], limit))
    by_partition: dict[str, list[dict[str, Any]]] = {}
    for row in small.select(["partition", "file_id", "file_name", "size"]).to_pylist():
        if not busy((row["partition"], row["file_id"])):
            by_partition.setdefault(row["partition"], []).append(row)
    plan = ClusteringPlan(
        strategy=SINGLE_FILE_STRATEGY if bucketed else STRATEGY, parameters=_parameters(sorting, target)
    )
    for partition in (name for name in chosen_partitions(names, options, partitions) if name in by_partition):
        rows = sorted(by_partition[partition], key=lambda row: (-row["size"], row["file_id"]))
        for group in ([row] for row in rows) if bucketed else _groups(rows, most):
            size = sum(row["size"] for row in group)
            outputs = 1 if bucketed else max(1, -(-size // target))
            if len(plan.groups) < count and (sorting.columns or len(group) > outputs):
                plan.groups.append([ClusteringSlice(partition, row["file_id"], row["file_name"]) for row in group])
                plan.outputs.append(outputs)
    if len(plan.file_groups) == 1 and not options.flag(keys.SINGLE):
        return replace(plan, groups=[], outputs=[])
    return plan


def has_buckets(client: TableClient, options: WriteOptions, files: pa.Table) -> bool:
    """Whether each file holds the keys of one hash value, by the table's properties, the job's or the files' names."""
    kind = client.config.index_type or options.texts.get("hoodie.index.type")
    if kind is not None:
        return kind.upper().startswith(_BUCKET)
    return bool(files.num_rows) and are_buckets(files)


def chosen_partitions(names: Iterable[str], options: WriteOptions, patterns: Sequence[str] = ()) -> list[str]:
    """The partitions that a clustering takes, by name.

    Args:
        names: paths of the table's.
        options: `partition.selected`, `partition.regex.pattern`, `partition.filter.mode` and the plan's `class`.
        patterns: paths, `*` for any text; none for all.

    Raises:
        OptionError: an invalid regular expression, or a class that is not understood.
    """
    selected = {name.strip("/") for name in options.names(keys.SELECTED)}
    try:
        regex = re.compile(options.text(keys.REGEX) or ".*", re.DOTALL)
    except re.error as error:
        raise OptionError(f"{keys.REGEX.key}={options.text(keys.REGEX)!r}: {error}") from error
    chosen = sorted(
        name
        for name in names
        if (not selected or name in selected)
        and regex.fullmatch(name)
        and (not patterns or any(matches_partition(name, pattern) for pattern in patterns))
    )
    mode = _filter_mode(options)
    if mode == "DAY_ROLLING":
        return chosen[time.localtime().tm_hour :: _HOURS]
    if mode == "SELECTED_PARTITIONS":
        first, last = options.text(keys.FIRST) or "", options.text(keys.LAST)
        return [name for name in chosen if first <= name and (not last or name <= last)]
    if mode == "RECENT_DAYS":
        skipped = options.number(keys.SKIPPED) or 0
        return chosen[::-1][skipped : skipped + (options.number(keys.LOOKBACK) or 0)]
    return chosen


def _filter_mode(options: WriteOptions) -> str | None:
    mode = options.text(keys.FILTER_MODE)
    if (given := options.text(keys.PLAN_CLASS)) is None:
        return mode
    name = given.rpartition(".")[2]
    if name not in _PLAN_CLASSES:
        raise OptionError(
            f"{keys.PLAN_CLASS.key}={given}: this strategy is not understood{did_you_mean(name, _PLAN_CLASSES)}; give "
            f"one of {', '.join(_PLAN_CLASSES)}, or let Apache Hudi plan"
        )
    return _PLAN_CLASSES[name] or mode


def _refuse_run_class(options: WriteOptions, *, bucketed: bool) -> None:
    if (given := options.text(keys.RUN_CLASS)) is None:
        return
    name = given.rpartition(".")[2]
    if name not in _RUN_CLASSES:
        raise OptionError(
            f"{keys.RUN_CLASS.key}={given}: this strategy is not understood{did_you_mean(name, _RUN_CLASSES)}; give "
            f"one of {', '.join(_RUN_CLASSES)}, or let Apache Hudi run the plan"
        )
    if _RUN_CLASSES[name] and not bucketed:
        raise OptionError(
            f"{keys.RUN_CLASS.key}={given}: files of tables without buckets are merged and sorted together, which is "
            "SparkSortAndSizeExecutionStrategy"
        )


def _groups(rows: Iterable[dict[str, Any]], most: int) -> list[list[dict[str, Any]]]:
    groups: list[list[dict[str, Any]]] = []
    size = most
    for row in rows:
        if not groups or size + row["size"] > most:
            groups.append([])
            size = 0
        groups[-1].append(row)
        size += row["size"]
    return groups


def _parameters(sorting: Sorting, target: int) -> dict[str, str]:
    size = {keys.TARGET_BYTES.key: str(target)}
    if not sorting.columns:
        return size
    return {keys.SORT_COLUMNS.key: ",".join(sorting.columns), keys.LAYOUT.key: sorting.layout.value, **size}
