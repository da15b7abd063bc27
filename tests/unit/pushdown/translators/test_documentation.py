"""The reference page lists what the code's tables have, and nothing else."""

import re
from pathlib import Path

from pushdown.translators.hive_comparisons import FUNCTIONS
from pushdown.translators.hive_nodes import CASTS
from pushdown.translators.hive_tree import COMPARISONS, CONNECTIVES, LEAVES
from pushdown.translators.search_argument import LEAF_TYPES, OPERATORS, TRUTH_VALUES
from pushdown.translators.tuple_domain import READERS

PAGE = Path(__file__).parents[4] / "docs/reference/translators.md"


def first_cells(section: str, header: str) -> set[str]:
    """The code names in the first column of a section's table."""
    text = PAGE.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = text.split(f"\n| {header} |")[1].split("\n\n")[0].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])}


def test_hives_functions():
    known = {*COMPARISONS, *CONNECTIVES, *LEAVES, *FUNCTIONS, *CASTS}
    assert first_cells("Hive's filter expression", "function | becomes") == known


def test_search_arguments():
    known = {"AND", "OR", "NOT", *OPERATORS, *LEAF_TYPES, *TRUTH_VALUES}
    assert first_cells("Hive's SearchArgument", "part | becomes") == known


def test_trinos_types():
    named = first_cells("Trino and Presto: TupleDomain", "type | values")
    assert {name.split("(")[0] for name in named} == {*READERS, "json", "array"}
