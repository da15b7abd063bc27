"""The error tree, as its module draws it."""

import re

from table_format import errors
from table_format.errors import HudiError


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
