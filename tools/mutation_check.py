r"""Flip the comparisons and logical operators of modules one at a time, and show which flips no test notices.

    python tools/mutation_check.py pushdown/evaluate.py,pushdown/members.py tests/unit/pushdown/test_evaluate.py \\
        --then tests/property/test_filters.py

works on a copy of the repository. Each flip costs one run of the tests, in a fork of a process that has already loaded
the libraries; the tests after --then run only for the flips that the first ones do not notice. Hypothesis runs with
100 fixed examples.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

ROOT = Path(__file__).parents[1]
COPIED = ("catalog", "pushdown", "spark_writer", "table_format", "tests")
LOADED_BEFORE = ("duckdb", "hypothesis.strategies", "numpy", "pyarrow.compute", "pyarrow.parquet", "pytest", "sqlglot")
EXAMPLES = 100
MEMORY_BYTES = 8 << 30
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
_NAMES = [
    ("less", "less_equal"),
    ("greater", "greater_equal"),
    ("equal", "not_equal"),
    ("floor", "ceil"),
    ("min", "max"),
    ("minimum", "maximum"),
    ("left", "right"),
]
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
        elif isinstance(node, ast.Constant) and (isinstance(node.value, bool) or node.value in FLIPPED_NAMES):
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
        node.value = not node.value if isinstance(node.value, bool) else FLIPPED_NAMES[node.value]
    else:
        setattr(node, attribute, FLIPPED_NAMES[getattr(node, attribute)])
    return ast.unparse(ast.fix_missing_locations(tree)), f"{node.lineno}: {before}  ->  {ast.unparse(node)}"


def passes(copy: Path, tests: list[str], seconds: int) -> bool:
    """Whether all tests pass in the copy, in so many seconds of processor time."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os._exit(_run(copy, tests))
    return os.waitpid(child, 0)[1] == 0


def _run(copy: Path, tests: list[str]) -> int:
    try:
        os.chdir(copy)
        # Hypothesis is loaded already, which pytest warns of.
        quiet = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
        return int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *quiet, *tests]))
    except BaseException:  # noqa: BLE001 - whatever a flip leads to, it was noticed
        return 1


def _loaded(copy: Path) -> None:
    """Load what the tests need and no flip changes; they import the project from the copy."""
    sys.path.insert(0, str(copy))
    for name in LOADED_BEFORE:
        importlib.import_module(name)
    few = settings(
        deadline=None,
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    settings.register_profile("mutation", few)
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"


def survivors_of(copy: Path, module: str, stages: list[tuple[list[str], int]], only: str) -> tuple[int, list[str]]:
    """How many places of a module were flipped, and which flips no test noticed."""
    path = copy / module
    source = path.read_text()
    for cached in path.parent.glob(f"__pycache__/{path.stem}.*"):
        cached.unlink()
    count, unnoticed = 0, []
    for number in range(len(list(sites(ast.parse(source))))):
        text, what = flipped(source, number)
        if only not in what:
            continue
        count += 1
        path.write_text(text)
        if all(passes(copy, tests, seconds) for tests, seconds in stages):
            unnoticed.append(what)
            print(f"{module}:{what}", flush=True)
    path.write_text(source)
    return count, unnoticed


def main() -> int:
    """Print each flip that no test notices, and how many there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", help="files to flip, by comma")
    parser.add_argument("tests", help="test files, by comma")
    parser.add_argument("--then", default="", help="test files, by comma, for the flips that the first do not notice")
    parser.add_argument("--only", default="", help="flip only places whose line (LINE: expression) holds this text")
    options = parser.parse_args()
    found = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "engines"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        _loaded(copy)
        stages = []
        for tests in (options.tests.split(","), options.then.split(",") if options.then else []):
            if tests:
                start = time.monotonic()
                if not passes(copy, tests, 600):
                    sys.exit(f"{', '.join(tests)}: fails before anything is flipped")
                stages.append((tests, 30 + 3 * round(time.monotonic() - start)))
        # Compiled flips of one second are taken for one another.
        sys.dont_write_bytecode = True
        for module in options.modules.split(","):
            count, unnoticed = survivors_of(copy, module, stages, options.only)
            found += len(unnoticed)
            print(f"{module}: {count} flips, {len(unnoticed)} unnoticed", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
