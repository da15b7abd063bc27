"""What a client's session says about the names in its statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SessionNames:
    """The part of a Trino session that decides what a statement means.

    Its time zone is not among it: what depends on that is not planned with.

    Attributes:
        catalog: in which tables without a catalog are looked up; None when the client set none.
        schema: in which tables without a schema are looked up; None when the client set none.
        properties: session properties by lower-case name, such as `hive.domain_compaction_threshold`.
    """

    catalog: str | None = None
    schema: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
