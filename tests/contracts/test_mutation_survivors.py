"""The list of mutations that no test can detect quotes code that still exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"(?m)^\| `(\w+\.py)` `(\w+)` \| `([^`]+)` →", (ROOT / "docs/how-it-works/mutation-check.md").read_text()
)


def test_the_list_is_read() -> None:
    assert len(ROWS) >= 10


@pytest.mark.parametrize(("module", "function", "expression"), ROWS)
def test_listed_places_exist(module: str, function: str, expression: str) -> None:
    (path,) = (ROOT / "pushdown").rglob(module)
    tree = ast.parse(path.read_text())
    bodies = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == function]
    wanted = ast.unparse(ast.parse(expression, mode="eval"))
    assert any(
        ast.unparse(node) == wanted for body in bodies for node in ast.walk(body) if isinstance(node, ast.expr)
    ), f"{module} has no {expression} in {function}"
