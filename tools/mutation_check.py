r"""Flip the comparisons and logical operators of modules one at a time, and show which flips no test notices.

    python tools/mutation_check.py pushdown/evaluation/evaluate.py,pushdown/ordering.py \\
        tests/unit/pushdown/evaluation/test_evaluate.py tests/property/test_filters.py

The tests are collected once. Each flip is made in the functions of a fork of that process, which runs the tests until
one fails, those first that noticed the flips before. Flips outside functions are made in a copy of the repository,
with a run of pytest for each. Hypothesis draws the same examples each time, as many as --examples says.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, Phase, settings

ROOT = Path(__file__).parents[1]
COPIED = ("catalog", "pushdown", "spark_writer", "table_format", "tests")
SECONDS = 120
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
VARIABLES = ("left", "right", "equal")  # as texts they choose a function or its side
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
        elif isinstance(node, ast.Name) and node.id in FLIPPED_NAMES and node.id not in VARIABLES:
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
        children = getattr(node, name, None)
        for part in children if isinstance(children, list) else [children] if children is not None else []:
            yield from ast.walk(part)


def flipped(source: str, number: int) -> tuple[str, str, bool]:
    """The source with one place flipped, what was done where, and whether it is in a function."""
    tree = ast.parse(source)
    node, attribute, index = list(sites(tree))[number]
    before, where = ast.unparse(node), _function_of(tree, node)
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
    what = f"{node.lineno}: {where or 'module'}: {before}  ->  {ast.unparse(node)}"
    return ast.unparse(ast.fix_missing_locations(tree)), what, bool(where)


def _function_of(tree: ast.AST, wanted: ast.AST) -> str:
    """The innermost function around a node."""
    name = ""
    for node in ast.walk(tree):  # from the outside inward
        if isinstance(node, ast.FunctionDef) and any(part is wanted for part in ast.walk(node)):
            name = node.name
    return name


def patch(module: ModuleType, source: str) -> None:
    """Give the functions and methods of a loaded module the code of another source."""
    fresh = ModuleType(module.__name__)
    fresh.__file__ = module.__file__
    exec(compile(source, str(module.__file__), "exec"), fresh.__dict__)
    _swap(vars(module), vars(fresh), module.__name__)


def _swap(old: Any, new: Any, module: str) -> None:
    for name, value in dict(new).items():
        own, made = _plain(old.get(name)), _plain(value)
        if isinstance(made, type) and made.__module__ == module and isinstance(own, type):
            _swap(vars(own), vars(made), module)
        elif isinstance(made, FunctionType) and isinstance(own, FunctionType) and made.__module__ == module:
            own.__code__, own.__defaults__, own.__kwdefaults__ = made.__code__, made.__defaults__, made.__kwdefaults__


def _plain(value: Any) -> Any:
    """The function of a method, a property or a cached function."""
    for name in ("__func__", "fget", "__wrapped__"):
        value = getattr(value, name, value) if not isinstance(value, type) else value
    return value


class Flipper:
    """A pytest plugin that flips places of modules instead of running the collected tests once."""

    def __init__(self, modules: list[str], tests: list[str], only: str) -> None:
        self.modules = modules
        self.tests = tests
        self.only = only
        self.unnoticed = 0

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests for each flip."""
        items = list(session.items)
        if self._noticed(items, None, "") is not None:
            print("the tests fail before anything is flipped", flush=True)
            self.unnoticed = 1
            return True
        for path in self.modules:
            module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
            source = (ROOT / path).read_text()
            count = unnoticed = 0
            for number in range(len(list(sites(ast.parse(source))))):
                text, what, in_function = flipped(source, number)
                if self.only not in what:
                    continue
                count += 1
                if in_function:
                    noticed = self._noticed(items, module, text)
                    if noticed is not None and noticed < len(items):
                        items.insert(0, items.pop(noticed))
                    alive = noticed is None
                else:
                    alive = passes_in_copy(path, text, self.tests)
                if alive:
                    unnoticed += 1
                    print(f"{path}:{what}", flush=True)
            self.unnoticed += unnoticed
            print(f"{path}: {count} flips, {unnoticed} unnoticed", flush=True)
        return True

    def _noticed(self, items: list[pytest.Item], module: ModuleType | None, text: str) -> int | None:
        """Which test failed first; as many as there are tests when the process came to an end otherwise."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            failed = len(items)
            try:
                if module is not None:
                    patch(module, text)
                failed = _first_failure(items)
            finally:
                os.write(writing, str(failed).encode())
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        failed = int(answer or len(items))
        return None if failed < 0 else failed


def _first_failure(items: list[pytest.Item]) -> int:
    for i, item in enumerate(items):
        following = items[i + 1] if i + 1 < len(items) else None
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
            return i
    return -1


def passes_in_copy(module: str, text: str, tests: list[str]) -> bool:
    """Whether all tests pass in a copy of the repository with another source of a module."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "engines"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        (copy / module).write_text(text)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("HYPOTHESIS_PROFILE", None)
        return subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False).returncode == 0


def main() -> int:
    """Print each flip that no test notices, and how many there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", help="files to flip, by comma")
    parser.add_argument("tests", nargs="+", help="test files, the quick ones first")
    parser.add_argument("--examples", type=int, default=100, help="how many examples Hypothesis draws for a test")
    parser.add_argument("--deselect", default="", help="tests to leave out, by comma, as pytest -k has it")
    parser.add_argument("--only", default="", help="flip only places whose line (LINE: FUNCTION: …) holds this text")
    options = parser.parse_args()
    few = settings(
        deadline=None,
        max_examples=options.examples,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    settings.register_profile("mutation", few)
    os.environ["HYPOTHESIS_PROFILE"] = "mutation"
    tests = list(options.tests)
    if options.deselect:
        tests += ["-k", " and ".join(f"not {name}" for name in options.deselect.split(","))]
    flipper = Flipper(options.modules.split(","), tests, options.only)
    os.chdir(ROOT)
    # Hypothesis is loaded already, which pytest warns of. What a module prints must not wait for the end.
    quiet = ("-q", "-s", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
    pytest.main([*quiet, *tests], plugins=[flipper])
    return 1 if flipper.unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
