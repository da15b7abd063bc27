"""Split ids and tokens: what a service gives to Trino to hold, and gets back from whoever connects.

A split id says all that is needed to read the split, so that any instance of the service with the same secret can serve
it, before or after a restart. It is signed: whoever forges one learns only that. Long constraints and very long lists
of keys are the exception: they are kept here, by digest, and not repeated in each id.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from catalog.slices.file_slice import FileSlice
from hudi_catalog.server.security import SIGNATURE_BYTES, Secret
from hudi_catalog.trino.options import SPLIT_LIFETIME
from table_format.errors import SplitError

_VERSION = 1
_HEAD = struct.Struct(">BcQ")
_LENGTH = struct.Struct(">I")
_CLOCK_SKEW_SECONDS = 300.0


class Purpose(Enum):
    """What sealed bytes are for: a token is not taken for a split id."""

    SPLIT = b"s"
    SPLITS_TOKEN = b"t"
    PAGE_TOKEN = b"p"


_CALLED = {Purpose.SPLIT: "split id", Purpose.SPLITS_TOKEN: "token of splits", Purpose.PAGE_TOKEN: "page token"}


@dataclass(frozen=True, slots=True)
class TrinoSplit:
    """What one worker reads of one snapshot: a few small files, one file, or a part of a large one.

    Attributes:
        table: its name, such as `db.table`.
        pin: of the snapshot, as `WarehouseTables.pin` says it.
        slices: to be read in this order.
        constraint: Thrift bytes of the TupleDomain that rows should meet; empty for none.
        key_columns: names, in Trino, of the columns whose values are in `keys`; empty when no keys were asked for.
        keys: an Arrow IPC stream with one column for each of `key_columns`, of values as they are served: only rows
            with one of these key tuples are rows of the split.
        scan: id of the scan that the split is of.
    """

    table: str
    pin: str
    slices: tuple[FileSlice, ...] = ()
    constraint: bytes = b""
    key_columns: tuple[str, ...] = ()
    keys: bytes = b""
    scan: str = ""


class HeldBytes:
    """Byte strings by their digest, the least recently used ones dropped; threads may share it.

    Args:
        limit: bytes kept at most, a single longer one excepted.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._held: OrderedDict[bytes, bytes] = OrderedDict()
        self._digests: dict[bytes, bytes] = {}  # Python hashes bytes once an object: no digest for each split
        self._lock = threading.Lock()

    def put(self, content: bytes) -> bytes:
        """Keep some bytes; returns their digest."""
        with self._lock:
            known = self._digests.get(content)
            if known is not None:
                self._held.move_to_end(known)
                return known
            digest = self._digests[content] = hashlib.sha256(content).digest()
            self._held[digest] = content
            self._size += len(content)
            while self._size > self._limit and len(self._held) > 1:
                _, oldest = self._held.popitem(last=False)
                del self._digests[oldest]
                self._size -= len(oldest)
            return digest

    def get(self, digest: bytes) -> bytes | None:
        """The bytes of a digest; None when they are not kept any more."""
        with self._lock:
            if digest in self._held:
                self._held.move_to_end(digest)
            return self._held.get(digest)


class SplitCodec:
    """Signs and checks split ids and tokens (HMAC-SHA256 over a version, a purpose and the time).

    Args:
        secret: shared by the instances of a service; a random one when None, which ends running scans with the service.
        lifetime_seconds: how long an id or token is good for.
        inline_bytes: longer constraints are kept here instead of in each id.
        inline_key_bytes: the same for keys.
        held_bytes: bytes of either that are kept.
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
        self._constraints = HeldBytes(held_bytes)
        self._keys = HeldBytes(held_bytes)
        self._clock = clock

    def seal(self, purpose: Purpose, payload: bytes) -> bytes:
        """Bytes that only this service can have made."""
        head = _HEAD.pack(_VERSION, purpose.value, int(self._clock() * 1000))
        return b"".join((head, payload, self._secret.sign(head + payload)))

    def open(self, purpose: Purpose, sealed: bytes) -> bytes:
        """The payload of sealed bytes.

        Raises:
            SplitError: they are forged, damaged, too old, or for another purpose.
        """
        what = _CALLED[purpose]
        if len(sealed) < _HEAD.size + SIGNATURE_BYTES:
            raise SplitError(f"a {what} of {len(sealed)} bytes: this service gave out none like it")
        signed, mac = sealed[:-SIGNATURE_BYTES], sealed[-SIGNATURE_BYTES:]
        if not self._secret.verify(signed, mac):
            raise SplitError(
                f"a {what} that this service did not sign: it is forged, or of a service with another secret, or from "
                "before a restart of a service without one. Run the query again; a shared secret lets scans outlive "
                "restarts"
            )
        version, found, issued = _HEAD.unpack_from(signed)
        if version != _VERSION or found != purpose.value:
            raise SplitError(f"a {what} is made of bytes of version {version} for purpose {found!r}")
        age = self._clock() - issued / 1000
        if not -_CLOCK_SKEW_SECONDS <= age <= self._lifetime:
            raise SplitError(
                f"a {what} that was given out {age:,.0f} s ago; they are good for {self._lifetime:,.0f} s "
                f"({SPLIT_LIFETIME}). Run the query again"
            )
        return signed[_HEAD.size :]

    def pack(self, split: TrinoSplit) -> bytes:
        """The id of a split."""
        slices = [
            (one.partition, one.file_id, one.base, one.instant, one.logs, one.row_groups, one.record_count)
            for one in split.slices
        ]
        told = [split.table, split.pin, slices, split.key_columns, split.scan]
        texts = json.dumps(told, separators=(",", ":")).encode()
        parts = [_part(texts)]
        long_constraint = len(split.constraint) > self._inline
        parts.append(_part(self._constraints.put(split.constraint) if long_constraint else split.constraint))
        long_keys = len(split.keys) > self._inline_keys
        parts.append(_part(self._keys.put(split.keys) if long_keys else split.keys))
        flags = bytes([long_constraint | long_keys << 1])
        return self.seal(Purpose.SPLIT, flags + b"".join(parts))

    def unpack(self, split_id: bytes) -> TrinoSplit:
        """The split of an id.

        A long constraint that is no longer kept is left out: Trino filters the rows itself.

        Raises:
            SplitError: the id is forged, damaged or too old, or its keys are no longer kept.
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
            found = self._keys.get(keys)
            if found is None:
                raise SplitError("the keys of this index look-up are no longer kept: run the query again")
            keys = found
        return replace(split, constraint=constraint, keys=keys)


def is_inside(path: str) -> bool:
    """Whether a path relative to a table means a file below it, and is spelled so that nothing else can be meant."""
    return posixpath.normpath(path) == path and not path.startswith(("/", "..")) and "\0" not in path


def _part(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


def _parts(payload: bytes) -> tuple[bytes, bytes, bytes]:
    found, at = [], 1
    for _ in range(3):
        (length,) = _LENGTH.unpack_from(payload, at)
        at += _LENGTH.size
        found.append(payload[at : at + length])
        if len(found[-1]) != length:
            raise ValueError("it ends too early")
        at += length
    if at != len(payload):
        raise ValueError("it goes on after its end")
    return found[0], found[1], found[2]


def _split(texts: bytes) -> TrinoSplit:
    table, pin, slices, key_columns, scan = json.loads(texts)
    return TrinoSplit(table, pin, tuple(map(_slice, slices)), key_columns=tuple(key_columns), scan=scan)


def _slice(told: list[Any]) -> FileSlice:
    partition, file_id, base, instant, logs, row_groups, record_count = told
    log_files = tuple((path, size) for path, size in logs)
    for path in (base, *(log for log, _ in log_files)):
        if path is not None and not is_inside(path):
            raise ValueError(f"{path!r} is not inside the table")
    groups = None if row_groups is None else tuple(row_groups)
    return FileSlice(partition, file_id, base, instant, log_files, groups, record_count)
