"""Options of a table that is held open, typed and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.statistics.column_cache import DEFAULT_LIMIT
from table_format.config.option_values import known_options, whole_number

STATISTICS_MEMORY = "hoodie.catalog.statistics.memory"
KEYS = (STATISTICS_MEMORY,)


@dataclass(frozen=True)
class TableOptions:
    """Options of a table that is held open.

    Attributes:
        statistics_memory: bytes of column statistics that are kept for the scans to come; the columns that were used
            least recently make room. `hoodie.catalog.statistics.memory`.
    """

    statistics_memory: int = DEFAULT_LIMIT

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> TableOptions:
        """Options by their keys.

        Raises:
            OptionError: an unknown key, or a value that does not fit it.
        """
        values = known_options(options, KEYS, "a table")
        return cls(whole_number(values, STATISTICS_MEMORY, cls.statistics_memory, 0))
