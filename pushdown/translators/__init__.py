"""Filters of query engines into `HudiExpression`, and `HudiExpression` into Arrow's filters.

What an engine says and cannot be expressed becomes `Unknown`, which weakens a plan and never makes it wrong.
"""

from pushdown.translators.arrow_expressions import to_arrow_expression
from pushdown.translators.hive_tree import from_hive_json, from_hive_tree
from pushdown.translators.search_argument import from_search_argument
from pushdown.translators.tuple_domain import from_tuple_domain

__all__ = ["from_hive_json", "from_hive_tree", "from_search_argument", "from_tuple_domain", "to_arrow_expression"]
