"""How look-ups read HFiles: block by block where a key may be, or the whole file at once (RFC-8, "scan vs seek")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from table_format.errors import OptionError

DYNAMIC_KEY: Final = "hoodie.catalog.record.index.dynamic.lookup"
LOOKUP_KEY: Final = "hoodie.catalog.record.index.lookup"
SCAN: Final = "scan"
SEEK: Final = "seek"

_FLAGS = {"true": True, "false": False}
# Share of a file's keys from which on reading all of it was measured to be as fast as reading what is needed.
_SCAN_FROM = 0.05


@dataclass(frozen=True, slots=True)
class Choice:
    """Which way is taken.

    Attributes:
        fixed: `scan` or `seek`; None to choose for each file by the share of its keys that are looked for.
    """

    fixed: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Choice:
        """The choice that options make.

        Raises:
            OptionError: an option has no such value.
        """
        dynamic = options.get(DYNAMIC_KEY, "true").strip().lower()
        if dynamic not in _FLAGS:
            raise OptionError(f"{DYNAMIC_KEY}={dynamic}: give true or false")
        fixed = options.get(LOOKUP_KEY, SEEK).strip().lower()
        if fixed not in (SCAN, SEEK):
            raise OptionError(f"{LOOKUP_KEY}={fixed}: give {SCAN} or {SEEK}")
        return cls(None if _FLAGS[dynamic] else fixed)

    def scans(self, keys: int, entries: int) -> bool:
        """Whether a file is read as a whole.

        Args:
            keys: how many are looked for.
            entries: of the file.
        """
        if self.fixed is not None:
            return self.fixed == SCAN
        return keys >= entries * _SCAN_FROM


BY_SHARE: Final = Choice()
