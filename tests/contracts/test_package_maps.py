"""Packages with many modules say in their docstrings where what is."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "catalog/gateway",
    "catalog/hive",
    "catalog/local_metastore",
    "catalog/services",
    "catalog/sync",
    "catalog/trino",
    "spark_writer/record_index",
    "spark_writer/surgery",
    "table_format/record_index",
)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_stands_once_in_the_map_of_its_package(package: str) -> None:
    folder = ROOT / package
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    listed = re.findall(r"`(\w+)`", text.partition("Where what is")[2])
    there = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    assert sorted(listed) == sorted(there)
