"""Filters as one `HudiExpression` tree, and their evaluation over statistics and rows."""
