"""The checks of planned reads by groups, for processes that each run one."""

from collections.abc import Callable, Mapping

from tests.support.spark_driver_rows import DRIVER_CHECKS
from tests.support.spark_joins import JOIN_CHECKS
from tests.support.spark_names import NAME_CHECKS
from tests.support.spark_order import ORDER_CHECKS
from tests.support.spark_reader_filters import READER_CHECKS
from tests.support.spark_reads import CHECKS

GROUPS: Mapping[str, Mapping[str, Callable[..., object]]] = {
    "reads": {**CHECKS, **READER_CHECKS, **DRIVER_CHECKS},
    "names": NAME_CHECKS,
    "joins": JOIN_CHECKS,
    "order": ORDER_CHECKS,
}
