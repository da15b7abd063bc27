"""Errors of the filter language; their root is the product's own (`table_format.errors`, a leaf module)."""

from table_format.errors import HudiError


class ExpressionError(HudiError, ValueError):
    """A filter that cannot be understood."""


class FilterSyntaxError(ExpressionError):
    """Filter text that does not parse; the message shows the place."""


class UnknownColumnError(ExpressionError):
    """A filter on a column that the table does not have."""


class LiteralTypeError(ExpressionError):
    """A literal that cannot be compared with its column."""


class InexactFilterError(ExpressionError, NotImplementedError):
    """Exact rows need a filter that is understood in all parts; planning does not."""


class RowCastError(ExpressionError):
    """A row that decides the filter holds a value that cannot be cast to the type of the comparison."""
