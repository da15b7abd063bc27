"""Names that Trino's Thrift connector takes: a small Latin letter, then such letters, digits and underscores.

The connector fails on any other name of a schema, table or column, and with one bad name the lists of all tables and
columns fail. So every name is spelled in these letters: `_hoodie_commit_time` is `hoodie_commit_time`, `Größe (cm)` is
`grosse__cm_`, `2nd` is `c_2nd`.
"""

from __future__ import annotations

import re
import unicodedata

_OTHERS = re.compile(r"[^a-z0-9_]")


def valid_name(name: str, prefix: str) -> str:
    """The spelling of a name; different names may have the same one.

    Args:
        name: as the table or the warehouse has it.
        prefix: a small letter, for names that begin with none.
    """
    if _is_valid(name):
        return name
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    spelled = _OTHERS.sub("_", letters).lstrip("_")
    return spelled if _is_valid(spelled) else f"{prefix}_{spelled}"


def _is_valid(name: str) -> bool:
    return bool(name) and "a" <= name[0] <= "z" and not _OTHERS.search(name)
