"""Errors of the filter language; their root is the product's own (`table_format.errors`, a leaf module)."""

from table_format.errors import HudiError


class ExpressionError(HudiError, ValueError):
    """A filter that cannot be understood."""


class FilterSyntaxError(ExpressionError):
    """Filter text that does not parse; the message shows the place."""


class UnknownColumnError(ExpressionError):
    """A filter on a column that the table does not have."""


class LiteralTypeError(ExpressionError):
    """A literal that cannot be compared with the column it stands against."""


class InexactFilterError(ExpressionError, NotImplementedError):
    """Exact rows were asked of a filter that has a part which is not understood; planning with it is possible."""


class RowCastError(ExpressionError):
    """A row that the filter hangs on holds a value that cannot be cast to the type that it is compared in."""
