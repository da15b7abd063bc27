"""What a client's session says about the names and values in its statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SessionNames:
    """The part of a Trino session that decides what a statement means.

    Attributes:
        catalog: in which tables without a catalog are looked up; None when the client set none.
        schema: in which tables without a schema are looked up; None when the client set none.
        time_zone: of `current_timestamp`, of zoned casts; None for the server's own.
        properties: session properties by lower-case name, such as `hive.domain_compaction_threshold`.
        path: SQL path for functions; None when the client set none.
        user: who asks; None where only the authentication tells.
    """

    catalog: str | None = None
    schema: str | None = None
    time_zone: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    path: str | None = None
    user: str | None = None
