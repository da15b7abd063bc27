"""Texts put in place of the names of tables; every other character of a statement stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def quoted_name(*parts: str) -> str:
    """A name as Trino reads it, whatever its characters."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def quoted_text(text: str) -> str:
    """A literal of Trino's SQL."""
    return "'" + text.replace("'", "''") + "'"


def table_of_files(name: str, paths: Sequence[str] | None, own_name: str | None) -> str:
    """What is read in place of a table.

    Args:
        name: of the table that lists a snapshot's files, quoted.
        paths: those of its files that are wanted, as `$path` spells them; None for all.
        own_name: by which the query calls the table; None where an alias stands behind it.
    """
    called = "" if own_name is None else f" AS {own_name}"
    if paths is None:
        return name + called
    condition = f'"$path" IN ({", ".join(map(quoted_text, paths))})' if paths else "false"
    return f"(SELECT * FROM {name} WHERE {condition}){called}"  # noqa: S608  # all parts are quoted


def spliced(sql: str, replacements: Iterable[tuple[int, int, str]]) -> str:
    """A text with some ranges replaced, which do not overlap.

    >>> spliced("select * from t, u", [(17, 18, "w"), (14, 15, "v AS t")])
    'select * from v AS t, w'
    """
    parts: list[str] = []
    position = 0
    for start, end, text in sorted(replacements):
        parts += [sql[position:start], text]
        position = end
    return "".join([*parts, sql[position:]])
