"""Options of clustering, under Apache Hudi's keys."""

from __future__ import annotations

from typing import Final

from table_writer.plan.option import Kind, Option

_STRATEGY: Final = "hoodie.clustering.plan.strategy."

INLINE: Final = Option(
    "hoodie.clustering.inline",
    Kind.FLAG,
    "false",
    "Cluster after a commit, where `hoodie.clustering.inline.max.commits` have come since the last clustering.",
    aliases=("hoodie.datasource.clustering.inline.enable",),
)
INLINE_COMMITS: Final = Option(
    "hoodie.clustering.inline.max.commits",
    Kind.NUMBER,
    "4",
    "Commits since the last clustering after which `hoodie.clustering.inline` plans one.",
)
SCHEDULE_INLINE: Final = Option(
    "hoodie.clustering.schedule.inline",
    Kind.FLAG,
    "false",
    "Plan a clustering after a commit, where `hoodie.clustering.async.max.commits` have come and none is planned; "
    "`hudi-catalog cluster --run`, maintenance or Apache runs it. Not together with `hoodie.clustering.inline`.",
)
ASYNC: Final = Option(
    "hoodie.clustering.async.enabled",
    Kind.FLAG,
    "false",
    "Clustering is left to [maintenance](../guide/a-tables-life.md#maintenance), which then plans it where "
    "`hoodie.clustering.async.max.commits` have come, and runs it; a write does not.",
    aliases=("hoodie.datasource.clustering.async.enable",),
)
ASYNC_COMMITS: Final = Option(
    "hoodie.clustering.async.max.commits",
    Kind.NUMBER,
    "4",
    "Commits since the last clustering after which `hoodie.clustering.schedule.inline` and "
    "`hoodie.clustering.async.enabled` plan one.",
)
PLAN_CLASS: Final = Option(
    f"{_STRATEGY}class",
    Kind.TEXT,
    None,
    "Apache's class of the plan, by its whole or its short name: `SparkSizeBasedClusteringPlanStrategy`, which is what "
    "is built here, or `SparkRecentDaysClusteringPlanStrategy` and `SparkSelectedPartitionsClusteringPlanStrategy`, "
    "older names of its filter modes. Others are refused where a clustering is planned.",
)
RUN_CLASS: Final = Option(
    "hoodie.clustering.execution.strategy.class",
    Kind.TEXT,
    None,
    "Apache's class of the run: `SparkSortAndSizeExecutionStrategy`, or `SparkSingleFileSortExecutionStrategy` for "
    "tables with buckets. Others are refused where a clustering is planned.",
)
SORT_COLUMNS: Final = Option(
    f"{_STRATEGY}sort.columns",
    Kind.LIST,
    "",
    "Columns by which clustering sorts rows, up to 8 of any type that has an order. Without them files are merged, "
    "sorted by record key.",
)
LAYOUT: Final = Option(
    "hoodie.layout.optimize.strategy",
    Kind.CHOICE,
    "linear",
    "How the columns order rows: one after the other, or all alike, along a Z-order or a Hilbert curve.",
    choices=("linear", "z-order", "hilbert", "zorder"),
)
SMALL_FILES: Final = Option(
    f"{_STRATEGY}small.file.limit",
    Kind.COUNT,
    str(300 << 20),
    "Bytes below which clustering takes a file. 0 takes none.",
)
TARGET_BYTES: Final = Option(
    f"{_STRATEGY}target.file.max.bytes", Kind.NUMBER, str(1 << 30), "Bytes of the files that clustering writes."
)
GROUP_BYTES: Final = Option(
    f"{_STRATEGY}max.bytes.per.group",
    Kind.NUMBER,
    str(2 << 30),
    "Bytes of files of a partition that are sorted together.",
)
GROUPS: Final = Option(
    f"{_STRATEGY}max.num.groups", Kind.NUMBER, "30", "Groups of files that one clustering plan takes at most."
)
SINGLE: Final = Option(
    f"{_STRATEGY}single.group.clustering.enabled",
    Kind.FLAG,
    "true",
    "Whether a plan may be of a single file, which is sorted anew.",
)
REGEX: Final = Option(
    f"{_STRATEGY}partition.regex.pattern",
    Kind.TEXT,
    "",
    "A regular expression; only partitions whose path it matches from begin to end are clustered.",
)
SELECTED: Final = Option(
    f"{_STRATEGY}partition.selected", Kind.LIST, "", "Paths of the partitions that are clustered; unset for all."
)
FILTER_MODE: Final = Option(
    "hoodie.clustering.plan.partition.filter.mode",
    Kind.CHOICE,
    "NONE",
    "A further choice of partitions: the newest by name (`RECENT_DAYS`), a range (`SELECTED_PARTITIONS`), or each "
    "24th, beginning with that of the hour of the day, of this machine's zone (`DAY_ROLLING`).",
    choices=("NONE", "RECENT_DAYS", "SELECTED_PARTITIONS", "DAY_ROLLING"),
)
LOOKBACK: Final = Option(
    f"{_STRATEGY}daybased.lookback.partitions", Kind.NUMBER, "2", "Partitions that `RECENT_DAYS` takes."
)
SKIPPED: Final = Option(
    f"{_STRATEGY}daybased.skipfromlatest.partitions",
    Kind.COUNT,
    "0",
    "Newest partitions that `RECENT_DAYS` leaves out.",
)
FIRST: Final = Option(
    f"{_STRATEGY}cluster.begin.partition", Kind.TEXT, "", "The first partition that `SELECTED_PARTITIONS` takes."
)
LAST: Final = Option(
    f"{_STRATEGY}cluster.end.partition", Kind.TEXT, "", "The last partition that `SELECTED_PARTITIONS` takes."
)

CLUSTERING_OPTIONS: Final = (
    INLINE,
    INLINE_COMMITS,
    SCHEDULE_INLINE,
    ASYNC,
    ASYNC_COMMITS,
    PLAN_CLASS,
    RUN_CLASS,
    SORT_COLUMNS,
    LAYOUT,
    SMALL_FILES,
    TARGET_BYTES,
    GROUP_BYTES,
    GROUPS,
    SINGLE,
    REGEX,
    SELECTED,
    FILTER_MODE,
    LOOKBACK,
    SKIPPED,
    FIRST,
    LAST,
)
"""All of them, in the order of the reference."""
