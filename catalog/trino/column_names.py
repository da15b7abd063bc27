"""Names of columns in Trino: its Thrift connector takes ``[a-z][a-z0-9_]*`` only, and refuses the whole table else."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_ALLOWED = re.compile(r"[a-z][a-z0-9_]*\Z")


def column_names(names: Sequence[str]) -> list[str]:
    """The name in Trino of each column of a table.

    A name that is allowed in lower case is that. Of any other, leading underscores are left out
    (``_hoodie_commit_time`` is ``hoodie_commit_time``), letters lose their accents, other letters become the number of
    their character (``u6570``) and other signs underscores. A name that is taken then gets a number at the end:
    ``name_2``. Names that were allowed as they are come first, then those that differ in case, then the others.

    Args:
        names: in the table, each once.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    # As they are, in lower case, rewritten: names that need no change are never taken by others.
    for form in (str, str.lower, _rewritten):
        for name in names:
            if name in found or not _ALLOWED.match(form(name)):
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
    text = "".join(_sign(sign) for sign in unicodedata.normalize("NFKD", name.lower())).lstrip("_")
    return text if text[:1].isalpha() else f"c_{text}"


def _sign(sign: str) -> str:
    if sign.isascii():
        return sign if sign.isalnum() else "_"
    if unicodedata.combining(sign):
        return ""
    return f"u{ord(sign):04x}" if sign.isalnum() else "_"
