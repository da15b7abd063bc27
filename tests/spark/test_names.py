"""Tables that SQL names, in the session's catalog and as views of a warehouse."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hudi_catalog import Catalog, register
from table_format.errors import UnsupportedTableError
from tests.support.spark_names import NAME_CHECKS

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", NAME_CHECKS)
def test_names(spark: SparkSession, name: str) -> None:
    NAME_CHECKS[name](spark, "")


def test_sessions_that_cannot_ask_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTableError, match="Connect"):
        register(object())  # type: ignore[arg-type]
    with pytest.raises(UnsupportedTableError, match="Connect"):
        Catalog(str(tmp_path)).register(object())  # type: ignore[arg-type]
