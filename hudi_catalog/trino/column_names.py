"""Names of columns in Trino: its Thrift connector takes ``[a-z][a-z0-9_]*`` only, and refuses the whole table else."""

from __future__ import annotations

from collections.abc import Sequence

from hudi_catalog.trino.names import is_valid, valid_name


def column_names(names: Sequence[str]) -> list[str]:
    """The name in Trino of each column of a table.

    It is spelled as `names.valid_name` does; one that is taken then gets a number at the end: ``name_2``. Names that
    were allowed as they are come first, then those that differ in case, then the others.

    Args:
        names: in the table, each once.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    # As they are, in lower case, rewritten: names that need no change are never taken by others.
    for form in (str, str.lower, _rewritten):
        for name in names:
            if name in found or not is_valid(form(name)):
                continue
            if form is _rewritten or form(name) not in taken:
                found[name] = _free(form(name), taken)
                taken.add(found[name])
    return [found[name] for name in names]


def _free(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _rewritten(name: str) -> str:
    return valid_name(name, "c")
