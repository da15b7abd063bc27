from pathlib import Path

import pytest
from typer.testing import CliRunner

from hudi_catalog.cli.main import app
from hudi_catalog.hive import handler
from table_format.errors import ServiceError


def test_the_jar_that_was_built_is_named(tmp_path: Path) -> None:
    (tmp_path / handler.NAME).write_bytes(b"PK")
    assert handler.handler_jar(tmp_path) == str(tmp_path / "hudi-hive-handler.jar")


def test_a_missing_jar_is_an_error_that_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r"make hive-jar.*Maven"):
        handler.handler_jar(tmp_path)


def test_the_command_prints_the_path_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "__file__", str(tmp_path / "jar.py"))
    assert isinstance(CliRunner().invoke(app, ["hive-jar"]).exception, ServiceError)
    (tmp_path / handler.NAME).write_bytes(b"PK")
    assert CliRunner().invoke(app, ["hive-jar"]).output == f"{tmp_path / handler.NAME}\n"
