"""What is put into a base file of the record index beside its entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from table_format.config.option_values import choice, flag
from table_format.hfile.writer import write_hfile
from table_format.metadata_table.record_schema import SCHEMA_JSON
from table_format.record_index.choice import BLOOM_KEY

CODEC_KEY: Final = "hoodie.hfile.compression.algorithm"
PACKED_KEY: Final = "hoodie.catalog.record.index.packed.keys"


@dataclass(frozen=True, slots=True)
class IndexFileOptions:
    """How files of the index are written.

    Attributes:
        codec: `GZ` or `NONE`.
        bloom: base files get bloom filters of their keys.
        packed_keys: base files get a copy of their keys for look-ups of many; see `hfile.packed_keys`.
    """

    codec: str = "GZ"
    bloom: bool = False
    packed_keys: bool = True

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Read Apache's options, and ours.

        Raises:
            OptionError: a value that cannot be used; the message names its key.
        """
        return cls(
            codec=choice(options, CODEC_KEY, "GZ", ("GZ", "NONE")),
            bloom=flag(options, BLOOM_KEY),
            packed_keys=flag(options, PACKED_KEY, default=True),
        )

    def base_file(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> bytes:
        """A base file.

        Args:
            keys: ascending by their bytes, each once, at least one.
            values: Avro bytes, one for each key.
        """
        return write_hfile(
            keys,
            values,
            schema_json=SCHEMA_JSON,
            codec=self.codec,
            bloom=self.bloom,
            packed_keys=self.packed_keys,
        )
