"""The partition stage on tables whose paths are times."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from catalog.slices.path_values import path_values
from catalog.snapshots.scan_options import ScanOptions
from catalog.stages.partition import prune_by_partition
from catalog.stages.stage import StageInput
from pushdown import Candidates, bind
from pushdown.sql import parse_sql
from table_format.config.table_config import TableConfig

DAYS = ["2024/01/01", "2024/01/02", "2024/02/01", "__HIVE_DEFAULT_PARTITION__"]
SETTINGS = {
    "hoodie.table.keygenerator.type": "TIMESTAMP",
    "hoodie.table.partition.fields": "t",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.timezone": "UTC",
}
TEXTS = {
    **SETTINGS,
    "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
    "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd HH:mm",
}
MICROS = {**SETTINGS, "hoodie.keygen.timebased.timestamp.type": "EPOCHMICROSECONDS"}


def kept(settings: dict[str, str], kind: pa.DataType, condition: str) -> list[int] | None:
    """Which partitions stay; None when the stage has nothing to say."""
    config = TableConfig(settings)
    schema = pa.schema([pa.field("t", kind), pa.field("v", pa.int64())])
    snapshot: Any = SimpleNamespace(
        config=config,
        partitions=DAYS,
        partition_index=np.arange(len(DAYS)),
        path_values=lambda: path_values(config, schema, DAYS),
    )
    stage_input = StageInput(snapshot, bind(parse_sql(condition), schema), np.arange(len(DAYS)), ScanOptions())
    verdict = prune_by_partition(stage_input)
    return np.flatnonzero(verdict.keep).tolist() if isinstance(verdict, Candidates) else None


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("t = '2024-01-02 10:00'", [1, 3]),
        ("t IN ('2024-01-02 10:00', '2024-02-01 00:00')", [1, 2, 3]),
        ("t = '2024-01-02 10:00' AND v > 5", [1, 3]),
        ("t = '2024-01-02 10:00' OR t = '2024-01-01 00:00'", [0, 1, 3]),
        ("t = '2025-01-01 00:00'", [3]),
        ("t = '2024-01-02 10:00' OR v > 5", None),
        ("t <> '2024-01-02 10:00'", None),
        ("NOT (t = '2024-01-02 10:00')", None),
        ("t > '2024-01-02 10:00'", None),
        ("t = '2024-1-2 10:00'", None),  # releases read it too
        ("t IN ('2024-01-02 10:00', 'x')", None),
        ("t IS NULL", None),
        ("v = 5", None),
    ],
)
def test_times_as_texts(condition: str, left: list[int] | None) -> None:
    assert kept(TEXTS, pa.string(), condition) == left


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("t = TIMESTAMP '2024-01-02 10:00:00'", [1, 3]),
        ("t >= TIMESTAMP '2024-01-02 00:00:00'", [1, 2, 3]),
        ("t < TIMESTAMP '2024-01-02 00:00:00'", [0, 1, 3]),  # a part of a millisecond is lost to paths
        ("t < TIMESTAMP '2024-01-01 23:00:00' OR v = 1", [0, 1, 2, 3]),
        ("t < TIMESTAMP '2024-01-01 23:00:00' OR (t > TIMESTAMP '2024-01-20 00:00:00' AND v = 1)", [0, 2, 3]),
        ("NOT (t < TIMESTAMP '2024-01-20 00:00:00')", [2, 3]),
        ("t IS NULL", [0, 1, 2, 3]),
        ("v = 1", None),
    ],
)
def test_times_as_moments(condition: str, left: list[int] | None) -> None:
    assert kept(MICROS, pa.timestamp("us", "UTC"), condition) == left
