"""Names that Trino's Thrift connector takes: a small Latin letter, then such letters, digits and underscores.

The connector fails on any other name of a schema, table or column, and with one bad name the lists of all tables and
columns fail.
"""

from __future__ import annotations

import re
import unicodedata

_VALID = re.compile(r"[a-z][a-z0-9_]*\Z")


def is_valid(name: str) -> bool:
    """Whether the connector takes a name as it is."""
    return _VALID.match(name) is not None


def valid_name(name: str, prefix: str) -> str:
    """The spelling of a name; different names may have the same one.

    Leading underscores are left out (``_hoodie_commit_time`` is ``hoodie_commit_time``), letters lose their accents,
    other letters become the number of their character (``u6570``), and other signs underscores.

    Args:
        name: as the table or the warehouse has it.
        prefix: a small letter, for names that then begin with none.
    """
    lowered = name.lower()
    if is_valid(lowered):
        return lowered
    text = "".join(_sign(sign) for sign in unicodedata.normalize("NFKD", name).lower()).lstrip("_")
    return text if is_valid(text) else f"{prefix}_{text}"


def _sign(sign: str) -> str:
    if sign.isascii():
        return sign if sign.isalnum() else "_"
    if unicodedata.combining(sign):
        return ""
    return f"u{ord(sign):04x}" if sign.isalnum() else "_"
