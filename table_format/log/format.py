"""The blocks of a Hudi log file."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

MAGIC = b"#HUDI#"
VERSION = 1


class BlockType(IntEnum):
    """What a log block holds; the values are on disk."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """Keys of a block's header; the values are on disk. Tables of version 6 know those up to BLOCK_IDENTIFIER."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


ROLLBACK_COMMAND = "0"


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One block of a log file.

    Attributes:
        type: what it holds. CORRUPT stands for bytes that are no whole block, such as a torn append: readers skip it.
        header: values by `HeaderKey`; of a CORRUPT block what could still be read, to tell whose block it was.
        content: the bytes between header and footer.
        offset: where the block starts in the file.
        size: its bytes in the file.
        path: the file.
        content_offset: where the content starts in the file.
    """

    type: BlockType
    header: dict[int, str]
    content: memoryview
    offset: int
    size: int
    path: str
    content_offset: int
    footer: dict[int, str] = field(default_factory=dict)

    @property
    def instant(self) -> str | None:
        """The instant that wrote the block."""
        return self.header.get(HeaderKey.INSTANT_TIME)

    @property
    def target_instant(self) -> str | None:
        """The instant that a rollback block takes back; None for every other block."""
        if self.type is BlockType.COMMAND and self.header.get(HeaderKey.COMMAND_BLOCK_TYPE) == ROLLBACK_COMMAND:
            return self.header.get(HeaderKey.TARGET_INSTANT_TIME)
        return None

    @property
    def schema_json(self) -> str | None:
        """The Avro schema of the content."""
        return self.header.get(HeaderKey.SCHEMA)
