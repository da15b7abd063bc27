"""The error tree, as its module draws it."""

import re

from table_format import errors
from table_format.errors import CorruptFileError, HudiError, MissingFileError


def test_the_drawn_tree_is_the_tree() -> None:
    drawn: dict[str, str] = {}
    ancestors: list[str] = []
    for indent, name in re.findall(r"^ {4}([│├└─ ]*)(\w+Error)\b", errors.__doc__ or "", re.MULTILINE):
        depth = len(indent) // 4
        ancestors[depth:] = [name]
        drawn[name] = ancestors[depth - 1] if depth else "Exception"
    classes = {n: c for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, HudiError)}
    assert drawn.pop("ExpressionError") == "HudiError", "the only one of another module"
    assert drawn == {name: one.__bases__[0].__name__ for name, one in classes.items()}


def test_errors_get_the_name_of_what_they_are_about_once() -> None:
    error = CorruptFileError("a.parquet", 3, "cut off")
    named = error.about("shop.orders")
    assert (type(named), named.offset) == (CorruptFileError, 3)
    assert str(named) == "shop.orders: a.parquet: at byte 3: cut off"
    assert str(error) == "a.parquet: at byte 3: cut off"  # threads may share it
    assert named.about("shop.orders") is named
    behind = MissingFileError("/lake/orders/a.parquet: no such file")
    assert behind.about("orders") is behind
    assert str(behind.about("order")).startswith("order: ")
