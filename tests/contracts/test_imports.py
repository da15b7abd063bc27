"""The direction of imports (see CONTRIBUTING), counted over imports inside functions and type-checking blocks too."""

import ast
import functools
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[2]
# From the ground up: each floor uses only those under it.
FLOORS = ("table_format", "pushdown", "catalog", "table_writer", "spark_writer", "hudi_catalog")
# Modules by name; with a star, all of a package.
EXCEPTIONS = {
    ("pushdown*", "table_format.errors"),  # the error tree has one root (docs/adr)
    ("catalog.trino", "hudi_catalog.trino"),  # the name under which `connect` was first published
    ("spark_writer", "hudi_catalog.spark_table"),  # `HudiTable`, by its first name
}
# The only modules that may import these at all.
ENGINE_LIBRARIES = {
    "pyspark": ("spark_writer",),
    "py4j": ("spark_writer", "hudi_catalog.local_metastore"),
    "sqlglot": ("pushdown", "hudi_catalog.gateway", "table_writer.in_place"),
    "duckdb": ("table_writer.in_place", "hudi_catalog.joins"),
    "typer": ("hudi_catalog",),
    "thriftpy2": ("hudi_catalog.server", "hudi_catalog.trino", "hudi_catalog.metastore", "hudi_catalog.hive"),
    "thrift": (),
    "thrift_sasl": (),
    "puresasl": ("hudi_catalog.metastore",),
    "aiohttp": ("hudi_catalog.server", "hudi_catalog.gateway"),
    "prometheus_client": ("hudi_catalog.server",),
    "trino": ("hudi_catalog.trino",),
}


def modules() -> Iterator[tuple[str, Path]]:
    for package in FLOORS:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name.removesuffix(".__init__"), path


def imports(name: str, path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [base])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


NAMES = dict(modules())


@functools.cache
def graph() -> dict[str, set[str]]:
    """What each module imports; parsed when a test first asks, for every process collects this file."""
    return {name: set(imports(name, path)) for name, path in NAMES.items()}


def edges() -> Iterator[tuple[str, str]]:
    """(module, what it imports), in order."""
    return ((name, target) for name, targets in graph().items() for target in sorted(targets))


def may_import(name: str, target: str) -> bool:
    for above, exception in EXCEPTIONS:
        if fnmatchcase(name, above) and f"{target}.".startswith(f"{exception}."):
            return True
    home, other = name.split(".", maxsplit=1)[0], target.split(".", maxsplit=1)[0]
    if {home, other} == {"table_format", "pushdown"}:
        return False
    return other not in FLOORS or FLOORS.index(other) <= FLOORS.index(home)


def test_a_module_imports_only_downward() -> None:
    assert [f"{name} imports {target}" for name, target in edges() if not may_import(name, target)] == []


def test_engine_libraries_stay_at_the_edges() -> None:
    homes = {(name, target): ENGINE_LIBRARIES.get(target.split(".")[0]) for name, target in edges()}
    strays = [edge for edge, allowed in homes.items() if allowed is not None and not edge[0].startswith(allowed)]
    assert [f"{name} imports {target}" for name, target in strays] == []


def test_no_import_cycle() -> None:
    used = {name: {t for t in targets if t in NAMES and t != name} for name, targets in graph().items()}
    # A package's re-exports are not what a module of it depends on.
    used = {name: {t for t in targets if not name.startswith(f"{t}.")} for name, targets in used.items()}
    done: set[str] = set()
    for start in used:
        stack: list[tuple[str, Iterator[str]]] = [(start, iter(used[start]))]
        path = [start]
        while stack:
            _, targets = stack[-1]
            step = next((t for t in targets if t not in done), None)
            if step is None:
                done.add(stack.pop()[0])
                path.pop()
                continue
            assert step not in path, f"cycle: {' → '.join([*path[path.index(step) :], step])}"
            stack.append((step, iter(used[step])))
            path.append(step)


def is_for_type_checkers(node: ast.stmt) -> bool:
    """Whether a statement is a block of imports that only type checkers see."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Name) or node.test.id != "TYPE_CHECKING":
        return False
    return not node.orelse and all(isinstance(each, ast.ImportFrom) for each in node.body)


def test_package_files_hold_no_logic() -> None:
    kinds = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign, ast.AnnAssign)
    for name, path in NAMES.items():
        if path.name == "__init__.py":
            body = [node for node in ast.parse(path.read_text()).body if not is_for_type_checkers(node)]
            assert all(isinstance(node, kinds) for node in body), name


def test_a_file_stays_readable() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in NAMES.items()}
    assert {name: length for name, length in lengths.items() if length > 500} == {}
