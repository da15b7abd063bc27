"""Filters and queries as SQL text, in the dialects of Spark, Hive, Trino and Presto."""

from pushdown.sql.parser import DIALECTS, parse_sql
from pushdown.sql.queries import predicates_of_query

__all__ = ["DIALECTS", "parse_sql", "predicates_of_query"]
