"""Split ids and tokens: signed bytes that the service hands to Trino and gets back.

A split id has everything needed to read the split, so any instance of the service with the same secret can serve it,
before or after a restart. Only long constraints and very long lists of keys are cached by the service instead, by
digest, and not repeated in each id.
"""

from __future__ import annotations

import hashlib
import json
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from catalog.concurrency.caches import LruCache
from catalog.slices.file_slice import FileSlice
from hudi_catalog.server.security import SIGNATURE_BYTES, Secret
from hudi_catalog.trino.base.scans import is_inside
from hudi_catalog.trino.options import SPLIT_LIFETIME
from table_format.errors import SplitError

_VERSION = 1
_HEAD = struct.Struct(">BcQ")
_LENGTH = struct.Struct(">I")
_CLOCK_SKEW_SECONDS = 300.0


class Purpose(Enum):
    """Purpose of sealed bytes, so that a token is not accepted as a split id."""

    SPLIT = b"s"
    SPLITS_TOKEN = b"t"
    PAGE_TOKEN = b"p"


_PURPOSE_NAMES = {Purpose.SPLIT: "split id", Purpose.SPLITS_TOKEN: "token of splits", Purpose.PAGE_TOKEN: "page token"}


@dataclass(frozen=True, slots=True)
class TrinoSplit:
    """The unit of work of one Trino worker: a few small files, one file, or a part of a large one.

    Attributes:
        table: the table's name, such as `db.table`.
        pin: pin of the snapshot; see `WarehouseTables.pin`.
        slices: to be read in this order.
        constraint: Thrift bytes of the TupleDomain that filters the rows; empty for none.
        key_columns: names in Trino of the columns of `keys`; empty for a scan without keys.
        keys: an Arrow IPC stream with a column for each of `key_columns`, of values as served: only rows with one of
            these key tuples belong to the split.
        scan: id of the split's scan.
    """

    table: str
    pin: str
    slices: tuple[FileSlice, ...] = ()
    constraint: bytes = b""
    key_columns: tuple[str, ...] = ()
    keys: bytes = b""
    scan: str = ""


class ContentCache:
    """Byte strings by their SHA-256 digest; the least recently used are evicted. Thread-safe.

    Args:
        capacity: in bytes; a single longer string is kept.
    """

    def __init__(self, capacity: int) -> None:
        # Computing a digest for each split is avoided: Python caches the hash of a bytes object.
        self._digests: dict[bytes, bytes] = {}
        self._contents: LruCache[bytes, bytes] = LruCache(
            capacity, len, on_evict=lambda content: self._digests.pop(content, None)
        )

    def put(self, content: bytes) -> bytes:
        """Cache a byte string; returns its digest."""
        digest = self._digests.get(content)
        if digest is None or self._contents.get(digest) is None:
            digest = self._digests[content] = hashlib.sha256(content).digest()
            self._contents.setdefault(digest, content)
        return digest

    def get(self, digest: bytes) -> bytes | None:
        """The byte string of a digest; None when it is no longer cached."""
        return self._contents.get(digest)


class SplitCodec:
    """Signs and verifies split ids and tokens, by HMAC-SHA256 over version, purpose, time and payload.

    Args:
        secret: shared by the instances of a service; random when None, so that a restart ends running scans.
        lifetime_seconds: how long an id or token is valid.
        inline_bytes: longer constraints are cached here instead of repeated in each id.
        inline_key_bytes: the same for keys.
        held_bytes: capacity of the cache of each.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        secret: Secret | None = None,
        lifetime_seconds: float = 86_400.0,
        *,
        inline_bytes: int = 4_096,
        inline_key_bytes: int = 2 << 20,
        held_bytes: int = 128 << 20,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._secret = (secret or Secret.random()).for_purpose("split ids for Trino")
        self._lifetime = lifetime_seconds
        self._inline = inline_bytes
        self._inline_keys = inline_key_bytes
        self._constraints = ContentCache(held_bytes)
        self._keys = ContentCache(held_bytes)
        self._clock = clock

    def seal(self, purpose: Purpose, payload: bytes) -> bytes:
        """A signed payload."""
        head = _HEAD.pack(_VERSION, purpose.value, int(self._clock() * 1000))
        return b"".join((head, payload, self._secret.sign(head + payload)))

    def open(self, purpose: Purpose, sealed: bytes) -> bytes:
        """The payload of sealed bytes.

        Raises:
            SplitError: they are forged, damaged, expired, or for another purpose.
        """
        name = _PURPOSE_NAMES[purpose]
        if len(sealed) < _HEAD.size + SIGNATURE_BYTES:
            raise SplitError(f"a {name} of {len(sealed)} bytes: this service issues none like it")
        signed, mac = sealed[:-SIGNATURE_BYTES], sealed[-SIGNATURE_BYTES:]
        if not self._secret.verify(signed, mac):
            raise SplitError(
                f"a {name} that this service did not sign: it is forged, or of a service with another secret, or from "
                "before a restart of a service without one. Run the query again; a shared secret lets scans outlive "
                "restarts"
            )
        version, sealed_for, issued = _HEAD.unpack_from(signed)
        if version != _VERSION or sealed_for != purpose.value:
            raise SplitError(f"a {name} is made of bytes of version {version} for purpose {sealed_for!r}")
        age = self._clock() - issued / 1000
        if not -_CLOCK_SKEW_SECONDS <= age <= self._lifetime:
            raise SplitError(
                f"a {name} that was issued {age:,.0f} s ago; they are valid for {self._lifetime:,.0f} s "
                f"({SPLIT_LIFETIME}). Run the query again"
            )
        return signed[_HEAD.size :]

    def pack(self, split: TrinoSplit) -> bytes:
        """The id of a split."""
        slices = [
            (one.partition, one.file_id, one.base, one.instant, one.logs, one.row_groups, one.record_count)
            for one in split.slices
        ]
        fields = [split.table, split.pin, slices, split.key_columns, split.scan]
        texts = json.dumps(fields, separators=(",", ":")).encode()
        parts = [_part(texts)]
        long_constraint = len(split.constraint) > self._inline
        parts.append(_part(self._constraints.put(split.constraint) if long_constraint else split.constraint))
        long_keys = len(split.keys) > self._inline_keys
        parts.append(_part(self._keys.put(split.keys) if long_keys else split.keys))
        flags = bytes([long_constraint | long_keys << 1])
        return self.seal(Purpose.SPLIT, flags + b"".join(parts))

    def unpack(self, split_id: bytes) -> TrinoSplit:
        """The split of an id.

        A long constraint that is no longer cached is dropped, since Trino filters the rows again.

        Raises:
            SplitError: the id is forged, damaged or expired, or its keys are no longer cached.
        """
        payload = self.open(Purpose.SPLIT, split_id)
        try:
            texts, constraint, keys = _parts(payload)
            split = _split(texts)
            flags = payload[0]
        except (ValueError, TypeError, IndexError, struct.error) as error:
            raise SplitError(f"a split id that is signed and unreadable ({error}): run the query again") from None
        if flags & 1:
            constraint = self._constraints.get(constraint) or b""
        if flags & 2:
            cached = self._keys.get(keys)
            if cached is None:
                raise SplitError("the keys of this index look-up are no longer kept: run the query again")
            keys = cached
        return replace(split, constraint=constraint, keys=keys)


def _part(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


def _parts(payload: bytes) -> tuple[bytes, bytes, bytes]:
    parts, at = [], 1
    for _ in range(3):
        (length,) = _LENGTH.unpack_from(payload, at)
        at += _LENGTH.size
        parts.append(payload[at : at + length])
        if len(parts[-1]) != length:
            raise ValueError("it ends too early")
        at += length
    if at != len(payload):
        raise ValueError("it has trailing bytes")
    return parts[0], parts[1], parts[2]


def _split(texts: bytes) -> TrinoSplit:
    table, pin, slices, key_columns, scan = json.loads(texts)
    return TrinoSplit(table, pin, tuple(map(_slice, slices)), key_columns=tuple(key_columns), scan=scan)


def _slice(fields: list[Any]) -> FileSlice:
    partition, file_id, base, instant, logs, row_groups, record_count = fields
    log_files = tuple((path, size) for path, size in logs)
    for path in (base, *(log for log, _ in log_files)):
        if path is not None and not is_inside(path):
            raise ValueError(f"{path!r} is not inside the table")
    groups = None if row_groups is None else tuple(row_groups)
    return FileSlice(partition, file_id, base, instant, log_files, groups, record_count)
