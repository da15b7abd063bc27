"""Hive's functions of a column against a literal."""

from __future__ import annotations

from typing import Any

from pushdown.expression import HudiExpression, Op


def compared_function(op: Op, node: Any, literal: Any, time_zone: str) -> HudiExpression | None:
    """``function(column) op literal``; None when it cannot be expressed."""
    del op, node, literal, time_zone
    return None
