"""Packages whose names are imported on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def lazy_names(module: str, names: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose names are defined in others.

    Args:
        module: its name.
        names: the public names, by the module that defines them.
    """
    places = {name: place for place, held in names.items() for name in held}

    def get(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            value: Any = version("hudi-catalog")
        elif name in places:
            value = getattr(importlib.import_module(places[name]), name)
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(sys.modules[module], name, value)
        return value

    return get, lambda: sorted(sys.modules[module].__all__)
