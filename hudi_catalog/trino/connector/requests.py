"""Requests of Trino's connector: JSON objects whose members are checked before they are used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from catalog.slices.file_slice import FileSlice
from catalog.table import QUERY_TYPES, SNAPSHOT
from hudi_catalog.trino.base.names import TableName
from hudi_catalog.trino.base.scans import is_inside
from table_format.errors import ServiceError, SplitError


class Body:
    """The body of a request.

    Args:
        text: JSON of an object.

    Raises:
        ServiceError: it is not that.
    """

    def __init__(self, text: str) -> None:
        try:
            members = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ServiceError(f"the connector's request is not JSON: {error}") from error
        if not isinstance(members, dict):
            raise ServiceError("the connector's request is not an object")
        self._members: dict[str, Any] = members

    def text(self, name: str) -> str:
        """A text.

        Raises:
            ServiceError: it is missing or no text; likewise below.
        """
        value = self._members.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        return value

    def text_or_none(self, name: str) -> str | None:
        """A text that may be missing."""
        return None if self._members.get(name) is None else self.text(name)

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number, not negative."""
        value = self._members.get(name, default)
        if type(value) is not int or value < 0:
            raise self._wrong(name, "a whole number")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of texts."""
        values = self._members.get(name)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self._wrong(name, "a list of texts")
        return values

    def items(self, name: str) -> Sequence[Any]:
        """A list of anything; empty when missing."""
        values = self._members.get(name) or []
        if not isinstance(values, list):
            raise self._wrong(name, "a list")
        return values

    def object(self, name: str) -> Mapping[str, Any]:
        """An object; empty when missing."""
        value = self._members.get(name) or {}
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return value

    @property
    def table(self) -> TableName:
        """The table's name in Trino: members `schema` and `table`."""
        return TableName(self.text("schema").lower(), self.text("table").lower())

    @property
    def query_type(self) -> str:
        """Member `query_type`: `snapshot` or `read_optimized`."""
        value = self.text_or_none("query_type") or SNAPSHOT
        if value not in QUERY_TYPES:
            raise self._wrong("query_type", " or ".join(QUERY_TYPES))
        return value

    def key(self, *leave_out: str) -> str:
        """The request as text, the same for equal requests but for some members."""
        return json.dumps({name: value for name, value in self._members.items() if name not in leave_out})

    def _wrong(self, name: str, what: str) -> ServiceError:
        return ServiceError(f"the connector's request: {name} is {what}, not {self._members.get(name)!r:.100}")


def split_members(one: FileSlice, *, served: bool) -> list[Any]:
    """A split as the connector keeps it and sends it back: in this order the members of a slice's part."""
    logs = [list(log) for log in one.logs] or None
    groups = None if one.row_groups is None else list(one.row_groups)
    return [
        one.base,
        one.start,
        one.length,
        one.base_size,
        one.record_count,
        served,
        one.partition,
        one.file_id,
        one.instant,
        logs,
        groups,
    ]


def slice_of(members: Sequence[Any], row_groups: Sequence[Any] | None) -> FileSlice:
    """The slice of a split that came back.

    Args:
        members: as `split_members` gives them.
        row_groups: ordinals to read, None for all; they replace those of the split.

    Raises:
        ServiceError: the members are others.
        SplitError: a path leads outside the table.
    """
    try:
        base, start, length, size, rows, _, partition, file_id, instant, logs, groups = members
        logs = tuple((str(path), None if size is None else int(size)) for path, size in logs or ())
        chosen = groups if row_groups is None else row_groups
        ordinals = None if chosen is None else tuple(int(ordinal) for ordinal in chosen)
        piece = FileSlice(
            str(partition),
            str(file_id),
            None if base is None else str(base),
            str(instant),
            logs,
            ordinals,
            None if rows is None else int(rows),
            int(size),
            int(start),
            int(length),
        )
    except (TypeError, ValueError) as error:
        raise ServiceError(f"the connector's request: a split of other members than the service's: {error}") from error
    for path in (piece.base, *(path for path, _ in piece.logs)):
        if path is not None and not is_inside(path):
            raise SplitError(f"{path!r} is not inside the table")
    return piece
