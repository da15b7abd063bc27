"""Whether Trino's access rules treat a pinned snapshot the same as its table.

The gateway reads `shop__snapshots.orders__…` in place of `shop.orders`, and Trino's file-based access control finds
rights, row filters and column masks by schema and table name: the first matching rule applies. A rule for `shop` alone
would not cover the snapshot, and a later catch-all rule would. So where the rules are known, a table is replaced only
if the same rules match both names, in the same order.
"""

from __future__ import annotations

import json
import os
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

from table_format.errors import OptionError

NONE: Final = "none"
"""Option value instead of file names: Trino has no table-level rules."""

_PLACE: Final = ("catalog", "schema", "table")
_WHOM: Final = frozenset({"user", "role", "group"})
_WHAT: Final = frozenset({"privileges", "columns", "filter", "filter_environment"})
_ANY: Final = frozenset({None, ".*"})
_Version = tuple[int, int, int]


class AccessRules:
    """Trino's file-based access rules (`security.config-file`), reloaded when a file changes; thread-safe.

    Args:
        files: paths of the rules files; empty if Trino has no table-level rules.

    Raises:
        OptionError: a file cannot be read or parsed.
    """

    def __init__(self, files: Sequence[str] = ()) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[_Version, list[_Rule]]] = {}
        self._files = tuple(files)
        for path in self._files:
            self._rules(path)

    def same(self, table: tuple[str, str, str], other: tuple[str, str, str]) -> bool:
        """Whether the same rights, row filters and column masks apply to two tables for every user.

        Args:
            table: catalog, schema and name, in lower case.
            other: the table it is compared with, likewise.

        Raises:
            OptionError: a file has changed and can no longer be read.
        """
        for path in self._files:
            rules = self._rules(path)
            if _matching(rules, table) != _matching(rules, other):
                return False
        return True

    def _rules(self, path: str) -> list[_Rule]:
        try:
            status = os.stat(path)
        except OSError as error:
            raise OptionError(f"Trino's access rules {path}: {error.strerror}") from error
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        with self._lock:
            known = self._known.get(path)
            if known is None or known[0] != version:
                known = self._known[path] = version, _read(path)
            return known[1]


class _Rule:
    """One entry of `tables` in a rules file.

    Attributes:
        meaning: the rule without its table patterns.
        for_everybody: whether it applies to all users, so that later rules never apply.
    """

    def __init__(self, rule: Mapping[str, Any]) -> None:
        self._patterns = [None if rule.get(key) is None else _pattern(rule[key]) for key in _PLACE]
        self.meaning = {key: value for key, value in rule.items() if key not in _PLACE}
        whom = {key: value for key, value in self.meaning.items() if key not in _WHAT}
        self.for_everybody = set(whom) <= _WHOM and all(value in _ANY for value in whom.values())

    def matches(self, table: tuple[str, str, str]) -> bool:
        pairs = zip(self._patterns, table, strict=True)
        return all(pattern is None or pattern.fullmatch(name) is not None for pattern, name in pairs)


def _matching(rules: Sequence[_Rule], table: tuple[str, str, str]) -> list[Mapping[str, Any]]:
    meanings: list[Mapping[str, Any]] = []
    for rule in rules:
        if rule.matches(table):
            meanings.append(rule.meaning)
            if rule.for_everybody:
                break
    return meanings


def _read(path: str) -> list[_Rule]:
    try:
        with open(path, encoding="utf-8") as stream:
            content = json.load(stream)
        # without `tables`, Trino allows everything
        listed = content.get("tables") or []
        return [_Rule(rule) for rule in listed]
    except OSError as error:
        raise OptionError(f"Trino's access rules {path}: {error.strerror}") from error
    except (ValueError, AttributeError, TypeError, re.error, FutureWarning) as error:
        raise OptionError(f"Trino's access rules {path} are not understood: {error}") from error


def _pattern(text: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        # Java character-class syntax that Python reads differently, such as [a-z&&[^x]]
        warnings.simplefilter("error", FutureWarning)
        return re.compile(text, re.ASCII)
