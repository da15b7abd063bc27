"""What requests ask of rows, as filters bound to a snapshot's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catalog.snapshot.snapshot import Snapshot
from hudi_catalog.trino.domains import expression_of
from hudi_catalog.trino.types import ServedColumn
from pushdown.bind import bind
from pushdown.errors import ExpressionError
from pushdown.expression import Constant, HudiExpression, Unknown
from pushdown.simplify import simplify


def bound_domain(snapshot: Snapshot, columns: Sequence[ServedColumn], constraint: Any) -> HudiExpression | None:
    """The expression of a TupleDomain over a snapshot's columns; None when all rows pass."""
    return bound_filter(snapshot, expression_of(constraint, tuple(columns), snapshot.schema))


def bound_filter(snapshot: Snapshot, expression: HudiExpression) -> HudiExpression | None:
    """A filter bound to a snapshot's columns; None when all rows pass, unknown when it does not fit them."""
    try:
        bound = simplify(bind(expression, snapshot.schema, case_sensitive=True))
    except ExpressionError as error:
        return Unknown(f"the constraint does not fit the table: {error}")
    return None if bound == Constant(value=True) else bound
