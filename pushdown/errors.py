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
    """Rows cannot be selected by a filter with a part that is not understood; files can be planned with it."""


class RowCastError(ExpressionError):
    """A row's result depends on a value that cannot be cast to the type of the comparison."""
