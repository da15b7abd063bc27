"""Why a statement is left as it is: a few fixed words, since each is counted for itself."""

from __future__ import annotations

import enum


class Reason(enum.StrEnum):
    """What became of a statement, in a word."""

    REWRITTEN = "rewritten"
    NO_TABLE = "no Hudi table"
    NOT_A_QUERY = "not a query"
    NOT_PARSED = "not parsed"
    HIDDEN_COLUMN = "hidden column"
    NOT_ATTRIBUTED = "not attributed"
    KEEPS_MOST = "keeps most files"
    TOO_LONG = "too long"
    ACCESS_RULES = "access rules"
    FAILED = "failed"


class LeftAloneError(Exception):
    """The statement is left as it is.

    Attributes:
        reason: the word that is counted.
        detail: more, for the log.
    """

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason
        self.detail = detail
