"""Lazy imports of `hudi_catalog`'s names, and a check that its packages are not shadowed."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.machinery import PathFinder
from typing import Any, Final

_PACKAGES: Final = ("table_format", "pushdown", "catalog", "table_writer", "spark_writer")


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


def check_packages(folder: str, names: Iterable[str] = _PACKAGES) -> None:
    """Check that packages of this product, whose names others may use too, are not shadowed by others.

    Args:
        folder: with `hudi_catalog` and the packages beside it.
        names: of the packages.

    Raises:
        ImportError: Python imports another module or package by such a name; the message says which and what to do.
    """
    for name in names:
        place = _place(name)
        if place is not None and os.path.realpath(place) != os.path.realpath(os.path.join(folder, name)):
            raise ImportError(
                f"hudi_catalog needs its own package {name!r}, but Python imports {place}: rename that file or "
                "folder, or, if another distribution installed it, uninstall that one or install hudi-catalog in its "
                "own environment",
                name=name,
                path=place,
            )


def _place(name: str) -> str | None:
    """Folder of a package, or file of a module; None if Python does not find it in a folder of its path."""
    imported = sys.modules.get(name)
    spec = getattr(imported, "__spec__", None) or PathFinder.find_spec(name)
    if spec is None:
        return getattr(imported, "__file__", None)
    folders = list(spec.submodule_search_locations or ())
    return folders[0] if folders else spec.origin


check_packages(os.path.dirname(os.path.dirname(__file__)))
