"""Where code lives: folders that depend on each other one way only, and modules of a size that a reader can take in."""

import ast
import re
from collections import Counter, defaultdict
from itertools import pairwise
from statistics import median

import pytest

from tests.contracts.test_imports import NAMES, ROOT, graph

SHORT = 80
# Modules that list others of one kind by name: what they list is a separate idea, although nobody else imports it.
REGISTRIES = {
    "catalog.planner": "catalog.stages.",  # the stages of a plan
    "hudi_catalog": "",  # the names that users import
    "hudi_catalog.cli.main": "hudi_catalog.cli.",  # groups of commands
    "hudi_catalog.cli.serve_commands": "hudi_catalog.",  # services that a command runs
    "pushdown.computed.evaluator": "pushdown.computed.",  # functions by their names
    "pushdown.images.chains": "pushdown.images.",  # images by the names of functions
    "pushdown.translators": "pushdown.translators.",  # a translator for each engine
}
MODULES = {name: path for name, path in NAMES.items() if path.name != "__init__.py"}
LINES = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}


def folder(name: str) -> str:
    return name.rpartition(".")[0]


def importers() -> dict[str, set[str]]:
    by_target: dict[str, set[str]] = defaultdict(set)
    for name, targets in graph().items():
        if name.endswith(".__main__"):  # starts what pyproject.toml names as the command
            continue
        for target in targets & MODULES.keys() - {name}:
            by_target[target].add(name)
    return by_target


def folder_edges() -> dict[str, dict[str, set[str]]]:
    edges: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name in MODULES:
        if name.endswith(".__main__"):  # a program, which belongs to no folder's modules: nobody imports it
            continue
        for target in graph()[name] & MODULES.keys():
            if folder(name) != folder(target):
                edges[folder(name)][folder(target)].add(f"{name} imports {target}")
    return edges


def cycle(edges: dict[str, dict[str, set[str]]], start: str) -> list[str] | None:
    paths = [[start]]
    seen = {start}
    while paths:
        path = paths.pop()
        for target in edges.get(path[-1], {}):
            if target == start:
                return [*path, start]
            if target not in seen:
                seen.add(target)
                paths.append([*path, target])
    return None


@pytest.mark.parametrize("start", sorted({folder(name) for name in MODULES}))
def test_folders_depend_on_each_other_one_way(start: str) -> None:
    edges = folder_edges()
    circle = cycle(edges, start)
    assert circle is None, [min(edges[a][b]) for a, b in pairwise(circle)]


def test_nobody_imports_a_program() -> None:
    assert [name for name in MODULES if any(target.endswith(".__main__") for target in graph()[name])] == []


def test_modules_have_a_size_that_a_reader_can_take_in(capsys: pytest.CaptureFixture[str]) -> None:
    users = importers()
    sizes = Counter(folder(name) for name in MODULES)
    middle = median(LINES.values())
    short = sum(lines < SHORT for lines in LINES.values()) / len(MODULES)
    single = [name for name in MODULES if len(users[name]) == 1]
    listed = [name for name in single if name.startswith(REGISTRIES.get(*users[name], "-"))]
    share = (len(single) - len(listed)) / len(MODULES)
    with capsys.disabled():
        print(
            f"\n{len(MODULES)} modules, {sum(LINES.values()):,} lines; median {middle:.0f}; under {SHORT} lines "
            f"{short:.0%}; with one importer {share:.0%}, and {len(listed)} that a registry lists; "
            f"largest folders {sizes.most_common(3)}"
        )
    assert middle >= 170
    assert short <= 0.1
    assert share <= 0.15  # modules with one user belong to it, unless they are an idea of their own
    assert max(sizes.values()) <= 20


@pytest.mark.parametrize("name", [name for name, path in NAMES.items() if path.name == "__init__.py"])
def test_no_package_needs_a_map(name: str) -> None:
    text = ast.get_docstring(ast.parse(NAMES[name].read_text())) or ""
    assert text.count("\n") <= 12, f"{name}: a docstring that lists where things are: cut the folder another way"


WALKS = (ROOT / "CONTRIBUTING.md").read_text().split("## Where is …?\n", 1)[1].split("\n## ", 1)[0].split("\n- ")[1:]


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: walk.strip("*").partition("?")[0].replace(" ", "-"))
def test_a_walk_names_at_most_four_files_that_exist(walk: str) -> None:
    files = re.findall(r"`([\w/]+\.py)`", walk)
    assert 1 <= len(files) <= 4
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_engine_tests_stand_where_they_are_collected():
    command = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "-m 'spark or engine'" in line)
    folders = [ROOT / folder for folder in re.findall(r"tests/\w+", command)]
    marked = [
        path for path in (ROOT / "tests").rglob("*.py") if re.search(r"\bmark\.(spark|engine)\b", path.read_text())
    ]
    assert folders
    assert marked
    assert not [path for path in marked if not any(path.is_relative_to(folder) for folder in folders)]
