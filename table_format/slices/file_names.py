"""Names of base files and log files, parsed one by one or by columns."""

from __future__ import annotations

import re
import string
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import Bytes, binary_array, combined, from_numpy, one_chunk, spans_of, to_numpy
from table_format.threads import in_threads

_BASE: Final = (
    r"^(?P<file_id>[a-zA-Z0-9-]+)_(?P<write_token>[a-zA-Z0-9-]+)_(?P<instant>[0-9]+)\.(?P<extension>[a-zA-Z0-9]+)\z"
)
_BASE_PATTERN: Final = re.compile(_BASE.removesuffix(r"\z"))
_BASE_SHAPE: Final = re.sub(r"\?P<\w+>", "", _BASE)
_BASE_PARTS: Final = ("file_id", "write_token", "instant", "extension")
_UNDERSCORE, _DOT, _DASH, _SLASH = b"_.-/"
_MARKS: Final = np.frombuffer(b"__.", np.uint8)
_LOG_PATTERN: Final = re.compile(
    r"\.(?P<file_id>[^._]+)_(?P<instant>[^.]*)\.(?:log|archive)\.(?P<version>[0-9]{1,18})"
    r"(?:_(?P<write_token>[0-9]+-[0-9]+-[0-9]+)(?P<cdc>\.cdc)?)?"
)
_LOG_SHAPE: Final = r"^\.[^._]+_[^.]*\.(log|archive)\.[0-9]{1,18}(_[0-9]+-[0-9]+-[0-9]+(\.cdc)?)?\z"
_BUCKET_DIGITS: Final = 8
_AT_ONCE: Final = 1 << 15  # names whose bytes fit into a core's cache


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """`<file id>_<write token>_<instant>.<extension>`.

    Attributes:
        file_id: the file group.
        write_token: `<task partition>-<stage>-<attempt>`; differs between retries of a task.
        instant: the write that made this file.
        extension: `parquet`, or `hfile` in the metadata table.
    """

    file_id: str
    write_token: str
    instant: str
    extension: str = "parquet"

    def __str__(self) -> str:
        return f"{self.file_id}_{self.write_token}_{self.instant}.{self.extension}"

    @classmethod
    def parse(cls, name: str) -> BaseFileName | None:
        """The parts of a base file's name, or None for any other name."""
        match = _BASE_PATTERN.fullmatch(name)
        return cls(**match.groupdict()) if match else None


@dataclass(frozen=True, slots=True)
class LogFileName:
    """`.<file id>_<instant>.log.<version>_<write token>`.

    Attributes:
        instant: up to table version 7 the base instant of the log's file slice, later the deltacommit that wrote it.
        version: rises from 1 among the logs of one file group and instant.
        write_token: may be missing in old names.
        is_cdc: change data, which snapshot reads skip.
    """

    file_id: str
    instant: str
    version: int
    write_token: str | None
    is_cdc: bool = False

    def __str__(self) -> str:
        token = f"_{self.write_token}" if self.write_token else ""
        return f".{self.file_id}_{self.instant}.log.{self.version}{token}{'.cdc' if self.is_cdc else ''}"

    @classmethod
    def parse(cls, name: str) -> LogFileName | None:
        """The parts of a log file's name, or None for any other name."""
        match = _LOG_PATTERN.fullmatch(name)
        if match is None:
            return None
        parts = match.groupdict()
        return cls(parts["file_id"], parts["instant"], int(parts["version"]), parts["write_token"], bool(parts["cdc"]))


def new_file_id(counter: int = 0) -> str:
    """New file group id for a table without buckets: `<uuid>-<counter>`."""
    return f"{uuid.uuid4()}-{counter}"


def new_bucket_file_id(bucket: int) -> str:
    """New file group id whose first eight digits are the bucket (RFC-29, hash index).

    >>> new_bucket_file_id(3)[:9]
    '00000003-'
    """
    return f"{bucket:0{_BUCKET_DIGITS}d}{str(uuid.uuid4())[_BUCKET_DIGITS:]}-0"


def bucket_of_file_id(file_id: str) -> int | None:
    """Bucket of a file id, or None if it has none (a plain UUID may look like one by chance)."""
    head, dash, _ = file_id.partition("-")
    return int(head) if dash and len(head) == _BUCKET_DIGITS and head.isdecimal() and head.isascii() else None


def parse_base_file_names(names: pa.Array[Any] | pa.ChunkedArray[Any], parts: Sequence[str] = _BASE_PARTS) -> pa.Table:
    """Parse base file names, as columns.

    Args:
        names: strings, of any files.
        parts: which columns.

    Returns:
        One row per name: file_id, write_token, instant, extension; all null if it is not a base file's name.
    """
    whole: Any = one_chunk(names)
    columns = _only_base_files(whole, parts)
    if columns is not None:
        return columns
    # One match and the positions of separators are several times as fast as extracting groups.
    matched = to_numpy(pc.fill_null(pc.match_substring_regex(whole, _BASE_SHAPE), False)).astype(np.bool_)
    known = whole if matched.all() else whole.filter(from_numpy(matched))
    if not len(known):
        return pa.table({part: pa.nulls(len(whole), pa.string()) for part in parts})
    data, starts, lengths = spans_of(known)
    first, last = int(starts[0]), int(starts[-1] + lengths[-1])
    underscores, dots = (np.flatnonzero(data[first:last] == ord(mark)) + first for mark in "_.")
    begins = [starts, underscores[0::2] + 1, underscores[1::2] + 1, dots + 1]
    ends = [underscores[0::2], underscores[1::2], dots, starts + lengths]
    texts = {}
    for name, begin, end in zip(_BASE_PARTS, begins, ends, strict=True):
        if name in parts:
            at, size = np.zeros((2, len(matched)), np.int64)
            at[matched], size[matched] = begin, end - begin
            part: Any = binary_array(data, at, size, None if matched.all() else matched)
            texts[name] = part.cast(pa.string())
    return pa.table(texts)


def _only_base_files(names: Any, parts: Sequence[str]) -> pa.Table | None:
    """As `parse_base_file_names`, if all are names of base files; else None."""
    if not len(names) or names.null_count:
        return None
    pieces = [names.slice(begin, _AT_ONCE) for begin in range(0, len(names), _AT_ONCE)]
    parsed = in_threads(lambda piece: _parse_base_files(piece, parts), pieces)
    known = [piece for piece in parsed if piece is not None]
    return combined(pa.concat_tables(known)) if len(known) == len(pieces) else None


def _parse_base_files(names: Any, parts: Sequence[str]) -> pa.Table | None:
    """Parse some names, if all are those of base files; faster than by a pattern."""
    data, starts, lengths = spans_of(names)
    if not lengths.all():
        return None
    first, last = int(starts[0]), int(starts[-1] + lengths[-1])
    text = data[first:last]
    marks = np.flatnonzero((text == _UNDERSCORE) | (text == _DOT))
    if len(marks) != len(_MARKS) * len(names) or bool((text[marks].reshape(-1, len(_MARKS)) != _MARKS).any()):
        return None
    if not _are_plain(text):
        return None
    places = [marks[at :: len(_MARKS)] + first for at in range(len(_MARKS))]
    spans = list(zip([starts, *(place + 1 for place in places)], [*places, starts + lengths], strict=True))
    if any(bool((begin >= end).any()) for begin, end in spans):
        return None
    texts = {
        name: binary_array(data, begin, end - begin).view(pa.string())  # ASCII, so not checked to be UTF-8 again
        for name, (begin, end) in zip(_BASE_PARTS, spans, strict=True)
        if name in {*parts, "instant", "extension"}
    }
    if not _are_digits(_content(texts["instant"])) or bool((_content(texts["extension"]) == _DASH).any()):
        return None
    return pa.table({name: text for name, text in texts.items() if name in parts})


def _content(texts: Any) -> Bytes:
    """The bytes of all texts, at least one."""
    data, starts, lengths = spans_of(texts)
    return data[int(starts[0]) : int(starts[-1] + lengths[-1])]


def _are_digits(text: Bytes) -> bool:
    """Whether all bytes are decimal digits; below them a byte less `0` wraps around."""
    return bool((text - np.uint8(ord("0")) < len(string.digits)).all())


def _are_plain(text: Bytes) -> bool:
    """Whether all bytes are ASCII letters, digits, `-`, `.` or `_`; by ranges, faster than by a table of 256 bytes."""
    plain = (text | np.uint8(ord("a") ^ ord("A"))) - np.uint8(ord("a")) < len(string.ascii_lowercase)
    plain |= text - np.uint8(_DASH) <= ord("9") - _DASH
    plain |= text == _UNDERSCORE
    plain &= text != _SLASH
    return bool(plain.all())


def parse_log_file_names(names: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.Table:
    """Parse log file names, as columns.

    Args:
        names: strings, of any files.

    Returns:
        One row per name: file_id, instant, version (int64), write_token (empty where the name has none), is_cdc; all
        null where the name is not a log file's.
    """
    names = one_chunk(names)
    known: Any = pc.if_else(pc.match_substring_regex(names, _LOG_SHAPE), names, pa.scalar(None, pa.string()))
    # the empty text, `<file id>_<instant>`, `log`, `<version>_<write token>` and perhaps `cdc`
    parts = pc.split_pattern(known, ".")
    group = pc.split_pattern(_element(parts, 1), "_", max_splits=1)
    # a text appended, so that there is always a second part
    padded: Any = pc.binary_join_element_wise(_element(parts, 3), "", "_")
    tail = pc.split_pattern(padded, "_")
    return pa.table(
        {
            "file_id": _element(group, 0),
            "instant": _element(group, 1),
            "version": pc.cast(_element(tail, 0), pa.int64()),
            "write_token": _element(tail, 1),
            "is_cdc": pc.ends_with(known, ".cdc"),
        }
    )


def _element(lists: Any, index: int) -> Any:
    # list_element fails on an array of no lists
    return pc.list_element(lists, index) if len(lists) > lists.null_count else pa.nulls(len(lists), pa.string())


BETWEEN: Final = "\0"
"""Stands between partition and file id in `group_keys`; no path has it."""


def group_keys(partitions: Any, file_ids: Any) -> Any:
    """One text per file group that sorts by partition and file id; the separator is NUL, which no path has."""
    return pc.binary_join_element_wise(one_chunk(partitions), one_chunk(file_ids), BETWEEN)


def in_groups(rows: pa.Table, groups: Iterable[tuple[str, str]]) -> Any:
    """Whether the file group of each row (columns partition and file_id) is one of some, given by these two."""
    known: Any = pa.array([BETWEEN.join(group) for group in groups], pa.string())
    columns = (one_chunk(rows[name]).cast(pa.string()) for name in ("partition", "file_id"))
    return pc.is_in(group_keys(*columns), value_set=known)
