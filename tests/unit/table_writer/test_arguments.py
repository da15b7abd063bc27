"""Arguments that are not a Spark session or DataFrame are refused with a remedy, also without PySpark."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hudi_catalog import Table, col, create_table, open_table
from spark_writer import HudiTable, write_hudi
from spark_writer.spark_types import schema_columns
from table_format.errors import (
    ArgumentError,
    HudiError,
    MissingPackageError,
    OptionError,
    TableExistsError,
    TableNotFoundError,
    require,
)
from table_writer.plan.options import WriteOptions
from table_writer.writer import TableWriter

TABLE = pa.table({"id": ["a"]})
NO_SESSION: Any = SimpleNamespace(createDataFrame=None, conf=None)


class DataFrame:
    """As that of Polars is called."""

    __module__ = "polars.dataframe.frame"


ROWS = [
    (TABLE.to_pandas(), r"this is a pandas\.DataFrame: give spark\.createDataFrame\(rows\)"),
    (TABLE, r"this is a pyarrow\.Table: give spark\.createDataFrame\(rows"),
    (TABLE.to_batches()[0], r"this is a pyarrow\.RecordBatch: give spark\.createDataFrame\(rows\.to_pandas\(\)\)"),
    (DataFrame(), r"this is a polars\.DataFrame: give spark\.createDataFrame\(rows\.to_"),
    ([{"id": "a"}], r"this is a list: give spark\.createDataFrame\(rows, schema\)"),
    ("/data/rows.parquet", r"this is a str: give spark\.read\.parquet"),
    (pd.Series([1]), r"this is a pandas\.Series: give a DataFrame, such as"),
    (np.zeros(1), r"this is a numpy\.ndarray: give a DataFrame"),
    (None, "this is a NoneType"),
]


@pytest.mark.parametrize(("rows", "remedy"), ROWS, ids=lambda value: type(value).__name__)
def test_rows_of_other_libraries_are_refused_with_the_way_to_spark(rows: Any, remedy: str) -> None:
    with pytest.raises(TypeError, match=f"write_hudi takes a Spark DataFrame, and {remedy}"):
        write_hudi(rows, "/nowhere", {})


def test_a_table_of_a_session_takes_what_a_table_takes(tmp_path: Path) -> None:
    path = tmp_path / "orders"
    table = HudiTable.create(NO_SESSION, path, record_key="id", buckets=1)
    assert issubclass(HudiTable, Table)
    for wrong in ("/data/rows.parquet", 5, None):
        rows: Any = wrong
        with pytest.raises(ArgumentError, match="the rows are of the type"):
            table.upsert(rows)
    frame = type("DataFrame", (), {"__module__": "pyspark.pandas.frame"})()
    with pytest.raises(ArgumentError, match=r"give rows\.to_spark"):
        table.upsert(frame)
    table.upsert(pa.table({"id": ["a", "b", "c"], "v": [1, 2, 3]}))
    table.insert(pd.DataFrame({"id": ["d"], "v": [4]}))
    assert table.delete(col("v") > 3).rows_deleted == 1
    assert table.delete([{"id": "c"}]).rows_deleted == 1
    assert HudiTable.open(path, session=NO_SESSION).scan("v >= 2", ["id"]).to_arrow().to_pylist() == [{"id": "b"}]
    with pytest.raises(ArgumentError, match="no active Spark session"):
        HudiTable.open(path)


def test_a_schema_of_another_library_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"pyarrow\.Schema"):
        schema_columns(TABLE.schema)


def test_the_session_comes_first() -> None:
    session: Any = "/warehouse/t"
    with pytest.raises(ArgumentError, match="takes a Spark session first, and this is a str"):
        HudiTable.for_path(session, "spark")
    with pytest.raises(ArgumentError, match="takes a Spark session first"):
        HudiTable.create(session, "/warehouse/t", record_key="id", buckets=1)


def test_a_place_is_a_text_or_a_path(tmp_path: Path) -> None:
    table = HudiTable.create(
        NO_SESSION, tmp_path / "orders", record_key="id", buckets=1, options={"hoodie.metadata.enable": False}
    )
    assert (table.name, table.client.storage.uri) == ("orders", str(tmp_path / "orders"))
    assert HudiTable.for_path(NO_SESSION, tmp_path / "orders").name == "orders"
    for wrong in (None, 5, NO_SESSION):
        place: Any = wrong
        with pytest.raises(ArgumentError, match="the place of a table is a path or a URI, not a"):
            HudiTable.for_path(NO_SESSION, place)


def test_places_that_are_no_folder(tmp_path: Path) -> None:
    create_table(tmp_path / "with space", "id bigint", record_key="id")
    assert open_table(f"file://localhost{tmp_path}/with space").name == "with space"
    with pytest.raises(TableNotFoundError, match="% in file: URIs stands for itself, so give the path"):
        open_table((tmp_path / "with space").as_uri())
    for place, message in (
        ("", "is empty"),
        (" ", "is empty"),
        ("file:t", "file:t: a file: URI names an absolute path"),
    ):
        with pytest.raises(ArgumentError, match=message):
            open_table(place)
    (tmp_path / "rows.csv").write_text("id\n1\n")
    with pytest.raises(TableNotFoundError, match=r"rows.csv is a file, and not the folder of a Hudi table"):
        open_table(tmp_path / "rows.csv")
    with pytest.raises(TableExistsError, match=r"rows.csv is a file; a new table needs an empty folder"):
        create_table(tmp_path / "rows.csv", "id bigint", record_key="id")


@pytest.mark.parametrize("argument", ["record_key", "partition_by", "ordering"])
def test_a_column_is_named_once(tmp_path: Path, argument: str) -> None:
    arguments: dict[str, Any] = {"record_key": "id", argument: ["id", "part", "id"]}
    with pytest.raises(OptionError, match=r"=id,part,id: id stands twice"):
        create_table(tmp_path / "t", "id bigint, part string", **arguments)


def test_storage_options_are_a_dict(tmp_path: Path) -> None:
    """A session given before the path makes the path stand where storage options do."""
    wrong: Any = "orders"
    with pytest.raises(ArgumentError, match="the place of a table is a path or a URI, not a"):
        HudiTable.open(NO_SESSION, wrong, session=NO_SESSION)
    for call in (
        lambda: open_table(tmp_path, storage_options=wrong),
        lambda: TableWriter.open(tmp_path, storage_options=wrong),
    ):
        with pytest.raises(ArgumentError, match="storage options are a dict"):
            call()


def test_options_are_a_dict_of_texts() -> None:
    for wrong in ({1: "x"}, [("a", "b")], "hoodie.table.name=t"):
        options: Any = wrong
        with pytest.raises(ArgumentError, match="options are a dict"):
            WriteOptions.of_user(options)


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["import spark_writer", "from spark_writer import HudiTable", "import hudi_catalog.spark_table"]
)
def test_without_pyspark_the_import_says_what_to_install(line: str) -> None:
    # a finder that comes before all others, as if PySpark were not installed
    code = f"""
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(name)
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "pyspark" else real(name, package)
sys.meta_path.insert(0, Without())
try:
    {line}
except ImportError as error:
    print(type(error).__name__, error.name, error)
"""
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout == (
        "MissingPackageError pyspark spark_writer needs pyspark: pip install 'hudi-catalog[spark]'\n"
    )


def test_an_extra_is_named_for_each_missing_package() -> None:
    require("this", "spark", "pyarrow", "json")
    with pytest.raises(MissingPackageError, match=r"^x needs no_such_package: pip install 'hudi-catalog\[trino\]'$"):
        require("x", "trino", "json", "no_such_package")
    assert issubclass(MissingPackageError, HudiError)
