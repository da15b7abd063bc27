"""Flip the comparisons and logical operators of modules one at a time, and show which flips no test notices.

    python tools/mutation_check.py pushdown/evaluate.py,pushdown/members.py tests/unit/pushdown/test_evaluate.py

works on a copy of the repository. Each flip costs one run of the tests.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
COPIED = ("catalog", "pushdown", "spark_writer", "table_format", "tests")
TIMEOUT_SECONDS = 600
_PAIRS: list[tuple[type[ast.AST], type[ast.AST]]] = [
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
    (ast.BitAnd, ast.BitOr),
    (ast.Add, ast.Sub),
    (ast.And, ast.Or),
]
FLIPPED = {**dict(_PAIRS), **{b: a for a, b in _PAIRS}}
_NAMES = [("less", "less_equal"), ("greater", "greater_equal"), ("floor", "ceil")]
FLIPPED_NAMES = {**dict(_NAMES), **{b: a for a, b in _NAMES}}


def sites(tree: ast.AST) -> Iterator[tuple[Any, str, int]]:
    """The places to flip: a node, the attribute that is flipped, and its index where there are several."""
    outside = {id(part) for node in ast.walk(tree) for part in _not_run(node)}
    for node in ast.walk(tree):
        if id(node) in outside:
            continue
        if isinstance(node, ast.Compare):
            yield from ((node, "ops", i) for i, op in enumerate(node.ops) if type(op) in FLIPPED)
        elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in FLIPPED:
            yield node, "op", 0
        elif isinstance(node, ast.Name) and node.id in FLIPPED_NAMES:
            yield node, "id", 0
        elif isinstance(node, ast.Attribute) and node.attr in FLIPPED_NAMES:
            yield node, "attr", 0
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield node, "value", 0
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
            yield node, "operand", 0


def _not_run(node: ast.AST) -> Iterator[ast.AST]:
    """Annotations and decorators: flipping them changes no result."""
    for name in ("annotation", "returns", "decorator_list"):
        found = getattr(node, name, None)
        for part in found if isinstance(found, list) else [found] if found is not None else []:
            yield from ast.walk(part)


def flipped(source: str, number: int) -> tuple[str, str]:
    """The source with one place flipped, and what was done where."""
    tree = ast.parse(source)
    node, attribute, index = list(sites(tree))[number]
    before = ast.unparse(node)
    if attribute == "ops":
        node.ops[index] = FLIPPED[type(node.ops[index])]()
    elif attribute == "op":
        node.op = FLIPPED[type(node.op)]()
    elif attribute == "operand":
        # Twice is not at all.
        node.operand = ast.UnaryOp(node.op, node.operand)
    elif attribute == "value":
        node.value = not node.value
    else:
        setattr(node, attribute, FLIPPED_NAMES[getattr(node, attribute)])
    return ast.unparse(ast.fix_missing_locations(tree)), f"{node.lineno}: {before}  ->  {ast.unparse(node)}"


def passes(copy: Path, tests: list[str]) -> bool:
    """Whether all tests pass in the copy."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    """Print each flip that no test notices, and how many there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", help="files to flip, by comma")
    parser.add_argument("tests", help="test files, by comma")
    options = parser.parse_args()
    tests = options.tests.split(",")
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "engines"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        if not passes(copy, tests):
            sys.exit("the tests fail before anything is flipped")
        for module in options.modules.split(","):
            source = (copy / module).read_text()
            count = len(list(sites(ast.parse(source))))
            for number in range(count):
                text, what = flipped(source, number)
                (copy / module).write_text(text)
                if passes(copy, tests):
                    survivors += 1
                    print(f"{module}:{what}", flush=True)
            (copy / module).write_text(source)
            print(f"{module}: {count} flips, {survivors} unnoticed so far", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
