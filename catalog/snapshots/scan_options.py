"""Options of a scan, typed and checked once; the keys are Apache Hudi's own where it has one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from table_format.config.option_values import choice, flag, known_options, names, whole_number
from table_format.errors import OptionError
from table_format.keys.partition_buckets import EXPRESSIONS, BucketRules, claimed_rules

BUCKET_COUNT = "hoodie.bucket.index.num.buckets"
BUCKET_HASH_FIELDS = "hoodie.bucket.index.hash.field"
FOOTER_LIMIT = "hoodie.catalog.scan.footer.limit"
THREADS = "hoodie.catalog.scan.threads"
SPLIT_SIZE = "hoodie.catalog.scan.split.size"
BLOCK_SIZE = "hoodie.parquet.block.size"
UNIQUE_KEYS = "hoodie.catalog.scan.unique.keys"
SAMPLE = "hoodie.catalog.scan.sample"
DRIVER_BYTES = "hoodie.catalog.scan.driver.bytes"
HOLES = "hoodie.read.timeline.holes.resolution.policy"
# Names that the proposals of the bucket index (RFC-29) used, before it was released under others.
_ALIASES = {
    "hoodie.hash.index.bucket.num": BUCKET_COUNT,
    "hoodie.datasource.write.indexkey.field": BUCKET_HASH_FIELDS,
}

SERVICE_KEYS = (FOOTER_LIMIT, THREADS, UNIQUE_KEYS)
"""Keys that a service may set for all its tables."""

BUCKET_KEYS = (BUCKET_COUNT, BUCKET_HASH_FIELDS, EXPRESSIONS)
"""Keys that say how a table's rows are divided, for writes and for scans."""

_KEYS = (
    *BUCKET_KEYS,
    FOOTER_LIMIT,
    THREADS,
    SPLIT_SIZE,
    BLOCK_SIZE,
    UNIQUE_KEYS,
    HOLES,
    SAMPLE,
    DRIVER_BYTES,
)
_SAMPLE = re.compile(r"([0-9]{1,9})\s*/\s*([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True)
class Sample:
    """A part of a bucketed table: the rows whose key hashes below `buckets`, modulo `of`.

    Where `of` divides the number of buckets these are whole buckets. Which rows they are does not depend on that
    number, so the sample stays the same when buckets are split or merged by multiples, and samples of two tables that
    hash the same values hold the same keys.

    Attributes:
        buckets: how many of every `of` buckets, 1 to `of`.
        of: divides the number of buckets.
    """

    buckets: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Sample:
        """A sample by its text.

        >>> Sample.parse("3/64")
        Sample(buckets=3, of=64)

        Raises:
            OptionError: it is not two whole numbers `k/n` with k from 1 to n.
        """
        match = _SAMPLE.fullmatch(text.strip())
        buckets, of = (int(number) for number in match.groups()) if match else (0, 0)
        if not 1 <= buckets <= of:
            raise OptionError(f"{SAMPLE}={text!r}: write k/n, such as 3/64 for 3 of every 64 buckets, k from 1 to n")
        return cls(buckets, of)

    def __str__(self) -> str:
        return f"{self.buckets}/{self.of}"


@dataclass(frozen=True)
class ScanOptions:
    """Options of a scan.

    Attributes:
        bucket_count: buckets of each partition, for a table whose `hoodie.properties` don't say;
            `hoodie.bucket.index.num.buckets`.
        bucket_rules: bucket counts by partition, for a table whose `hoodie.properties` don't say, and `bucket_count`
            for other partitions; `hoodie.bucket.index.partition.expressions`.
        bucket_hash_fields: record key columns that are hashed; `hoodie.bucket.index.hash.field`.
        footer_limit: greatest number of Parquet footers to read for what no index has, 0 for none;
            `hoodie.catalog.scan.footer.limit`.
        threads: how many files and footers are read at once; `hoodie.catalog.scan.threads`.
        split_size: larger base files are divided into splits of about this many bytes by row groups, and their footers
            are read for that; None for whole files; `hoodie.catalog.scan.split.size`.
        block_size: bytes at which the writers of the table close a row group, for a table whose `hoodie.properties`
            don't say; `hoodie.parquet.block.size`.
        unique_keys: no record key of the table has two rows, although rows were inserted without a look-up of existing
            keys; `hoodie.catalog.scan.unique.keys`.
        end_at_holes: an incremental range of table version 6 ends before the oldest pending write that a newer write
            overtook, instead of being refused; `hoodie.read.timeline.holes.resolution.policy` = BLOCK.
        sample: the buckets whose rows are wanted; None for all; `hoodie.catalog.scan.sample`.
        driver_bytes: Spark's driver reads up to four files of together at most this many bytes by itself, if it is
            asked for their rows, 0 for none; `hoodie.catalog.scan.driver.bytes`.
    """

    bucket_count: int | None = None
    bucket_hash_fields: tuple[str, ...] | None = None
    bucket_rules: BucketRules | None = None
    footer_limit: int = 1000
    threads: int = 8
    split_size: int | None = None
    block_size: int | None = None
    unique_keys: bool = False
    end_at_holes: bool = False
    sample: Sample | None = None
    driver_bytes: int = 8 * 1024 * 1024

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> ScanOptions:
        """Options by their keys.

        Raises:
            OptionError: an unknown key, or a value that does not fit it.
        """
        renamed = {_ALIASES.get(key, key): value for key, value in (options or {}).items()}
        values = known_options(renamed, _KEYS, "a scan")
        count = whole_number(values, BUCKET_COUNT, cls.bucket_count, 1)
        return cls(
            bucket_count=count,
            bucket_rules=claimed_rules(values, count),
            bucket_hash_fields=names(values, BUCKET_HASH_FIELDS) or None,
            footer_limit=whole_number(values, FOOTER_LIMIT, cls.footer_limit, 0),
            threads=whole_number(values, THREADS, cls.threads, 1),
            split_size=whole_number(values, SPLIT_SIZE, cls.split_size, 1),
            block_size=whole_number(values, BLOCK_SIZE, cls.block_size, 1),
            unique_keys=flag(values, UNIQUE_KEYS),
            end_at_holes=choice(values, HOLES, "FAIL", ("FAIL", "BLOCK")) == "BLOCK",
            sample=Sample.parse(values[SAMPLE]) if SAMPLE in values else None,
            driver_bytes=whole_number(values, DRIVER_BYTES, cls.driver_bytes, 0),
        )
