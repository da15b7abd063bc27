"""Packages that only some parts of this product need, and the extras of `hudi-catalog` that bring them."""

from __future__ import annotations

import importlib.util

from table_format.errors import MissingPackageError


def require(what: str, extra: str, *packages: str, how: str | None = None) -> None:
    """Check that packages are installed.

    Args:
        what: needs them, such as a command.
        extra: of `hudi-catalog` that brings them along.
        packages: by the names under which they are imported.
        how: what to do, where it is something else than installing the extra.

    Raises:
        MissingPackageError: one of them is not.
    """
    missing = [name for name in packages if not is_installed(name)]
    if missing:
        command = how or f"pip install 'hudi-catalog[{extra}]'"
        raise MissingPackageError(f"{what} needs {', '.join(missing)}: {command}", name=missing[0])


def is_installed(package: str) -> bool:
    """Whether a package can be imported; it is not."""
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # somebody keeps it out, by None in its place
        return False
