"""A check that the packages of this product are not shadowed by others."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from typing import Final

_PACKAGES: Final = ("table_format", "pushdown", "catalog", "table_writer", "spark_writer")


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
