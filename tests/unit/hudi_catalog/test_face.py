"""The names of `hudi_catalog`, and what importing them loads."""

import subprocess
import sys
from pathlib import Path

import pytest

import hudi_catalog
from hudi_catalog.packages import check_packages

ROOT = Path(__file__).parents[3]


def python(code: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_public_name_is_there() -> None:
    assert dir(hudi_catalog) == sorted(hudi_catalog.__all__)
    for name in hudi_catalog.__all__:
        assert getattr(hudi_catalog, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Tabel'"):
        _ = hudi_catalog.Tabel


@pytest.mark.slow
def test_engines_are_imported_when_they_are_used(tmp_path: Path) -> None:
    engines = "{'pyspark', 'py4j', 'trino', 'aiohttp', 'thriftpy2', 'typer', 'duckdb', 'polars'}"
    code = (
        "import sys, hudi_catalog\n"
        "hudi_catalog.Table, hudi_catalog.connect, hudi_catalog.HudiError, hudi_catalog.__version__\n"
        "table = hudi_catalog.create_table('t', 'id bigint', record_key='id', buckets=1)\n"
        f"table.upsert([{{'id': 1}}])\nprint({engines} & set(sys.modules))"
    )
    assert python(code, tmp_path) == "set()\n"


@pytest.mark.parametrize("place", ["catalog.py", "catalog/__init__.py", "catalog/notes.txt"])
def test_another_package_called_catalog(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport hudi_catalog"
    if place == "catalog/notes.txt":  # a folder without a package hides nothing on the path
        code = f"import sys; sys.path.insert(1, {str(ROOT)!r}); {code}"
        assert python(code, tmp_path) == ""
        return
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "ImportError: hudi_catalog needs its own package 'catalog', but Python imports" in done.stderr
    assert str(tmp_path / "catalog") in done.stderr
    assert "rename that file or folder" in done.stderr


def test_packages_beside_it_are_ours() -> None:
    check_packages(str(ROOT))
    with pytest.raises(ImportError, match="needs its own package 'catalog'"):
        check_packages("/elsewhere", ["catalog"])
