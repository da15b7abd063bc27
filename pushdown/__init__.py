"""Filters as one `HudiExpression` tree, and their evaluation over statistics and rows.

`parse_sql` or `col` make a filter, `bind` fits it to a schema, `evaluate` gives the truth values that each file's rows
may have by statistics, `matches` selects rows exactly. Nothing here opens a file.
"""

from pushdown.binding.bind import bind
from pushdown.builder import Column, col
from pushdown.columns import ResolvedColumn, resolve_column
from pushdown.errors import (
    ExpressionError,
    FilterSyntaxError,
    InexactFilterError,
    LiteralTypeError,
    RowCastError,
    UnknownColumnError,
)
from pushdown.evaluation.evaluate import Outcomes, evaluate
from pushdown.evaluation.key_bindings import key_bindings
from pushdown.evaluation.rows import matches
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.expression import And, Constant, HudiExpression, Not, Op, Or, Predicate, RowTest, Unknown, all_of, any_of
from pushdown.simplify import simplify
from pushdown.sql import DIALECTS, parse_sql
from pushdown.verdict import Candidates, CannotPrune, Verdict
from pushdown.walk import columns_of, reasons_of, restrict

__all__ = [
    "DIALECTS",
    "And",
    "Candidates",
    "CannotPrune",
    "Column",
    "ColumnStatistics",
    "Constant",
    "ExpressionError",
    "FilterSyntaxError",
    "HudiExpression",
    "InexactFilterError",
    "LiteralTypeError",
    "Not",
    "Op",
    "Or",
    "Outcomes",
    "Predicate",
    "ResolvedColumn",
    "RowCastError",
    "RowTest",
    "Unknown",
    "UnknownColumnError",
    "Verdict",
    "all_of",
    "any_of",
    "bind",
    "col",
    "columns_of",
    "evaluate",
    "key_bindings",
    "matches",
    "parse_sql",
    "reasons_of",
    "resolve_column",
    "restrict",
    "simplify",
]
