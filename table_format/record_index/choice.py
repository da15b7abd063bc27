"""How look-ups read HFiles: block by block where a key may be, or the whole file at once (RFC-8, "scan vs seek")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from table_format.config.option_values import choice, flag

DYNAMIC_KEY: Final = "hoodie.catalog.record.index.dynamic.lookup"
LOOKUP_KEY: Final = "hoodie.catalog.record.index.lookup"
SCAN: Final = "scan"
SEEK: Final = "seek"

BLOOM_KEY: Final = "hoodie.metadata.bloom.filter.enable"


@dataclass(frozen=True, slots=True)
class Choice:
    """Which way is taken.

    Attributes:
        scan: whether packed keys, or else all blocks of a file are read; None to choose for each file by the share of
            its blocks that can hold one of the keys, which grows with the share of the keys, and is less where they lie
            side by side.
        bloom: whether the bloom filters of files are asked before many blocks are read for few keys; not unless asked
            for, as in Apache Hudi.
    """

    scan: bool | None = None
    bloom: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Choice:
        """The choice that options make.

        Raises:
            OptionError: an option has no such value.
        """
        fixed = choice(options, LOOKUP_KEY, SEEK, (SCAN, SEEK))
        dynamic = flag(options, DYNAMIC_KEY, default=True)
        return cls(None if dynamic else fixed == SCAN, flag(options, BLOOM_KEY))


DYNAMIC: Final = Choice()
