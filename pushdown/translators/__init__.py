"""Filters of query engines as `HudiExpression`, and `HudiExpression` as Arrow's filters.

Parts of an engine's filter that cannot be expressed become `Unknown`, which weakens a plan and never makes it wrong.
"""

from pushdown.translators.arrow_expressions import to_arrow_expression
from pushdown.translators.hive_tree import from_hive_json, from_hive_tree
from pushdown.translators.search_argument import from_search_argument
from pushdown.translators.tuple_domain import from_tuple_domain

__all__ = ["from_hive_json", "from_hive_tree", "from_search_argument", "from_tuple_domain", "to_arrow_expression"]
