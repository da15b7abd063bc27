"""Merge rules of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from table_format.config.table_config import COMMIT_TIME, EVENT_TIME, TableConfig
from table_format.errors import OptionError, UnsupportedTableError
from table_format.keys.key_generator import KeyGenerator, from_table_config

_DELETE_FIELD: Final = "hoodie.payload.delete.field"
_DELETE_MARKER: Final = "hoodie.payload.delete.marker"
_UNAVAILABLE: Final = "unavailable.value"
_IGNORE_DEFAULTS: Final = "IGNORE_DEFAULTS"
_FILL_UNAVAILABLE: Final = "FILL_UNAVAILABLE"
_FIELD_FORM_VERSION: Final = 9
_LAST_VERSION_OF_PAYLOADS: Final = 6


@dataclass(frozen=True, slots=True)
class MergeRules:
    """Rules that decide between versions of a record (Hudi format, merging).

    Attributes:
        ordering_fields: columns that order versions; the first decides first.
        logs_by_ordering: among log records the greater ordering value wins, of equal ones the later; else always the
            later one.
        base_by_ordering: a log record replaces a base file's unless the latter's ordering value is greater.
        deletes_forget: a delete block's record wins regardless of the base file's ordering value, and any later
            record replaces it, as in releases before 1.0.
        delete_field: a column that marks deleted records.
        delete_marker: its value in deleted records.
        nulls_keep: a null keeps the value of the older version.
        unavailable: a string or binary value that does the same.
        keys: key generator for tables without meta columns.
    """

    ordering_fields: tuple[str, ...] = ()
    logs_by_ordering: bool = False
    base_by_ordering: bool = False
    deletes_forget: bool = False
    delete_field: str | None = None
    delete_marker: str | None = None
    nulls_keep: bool = False
    unavailable: str | None = None
    keys: KeyGenerator | None = None

    @property
    def by_ordering(self) -> bool:
        """Whether ordering values are used."""
        return self.logs_by_ordering or self.base_by_ordering

    @classmethod
    def of(cls, config: TableConfig) -> MergeRules:
        """Merge rules of a table.

        Releases before 1.0 compare log records of one key by ordering value for every payload class; 1.x
        only if the table has that merge mode.

        Raises:
            UnsupportedTableError: a merge mode, payload class or partial update mode that runs user code, or
                is unknown.
        """
        mode = config.merge_mode
        if mode not in (COMMIT_TIME, EVENT_TIME):
            what = config.payload_class or config.raw.get("hoodie.record.merge.strategy.id") or mode
            raise UnsupportedTableError(
                f"{config.name}: log records are merged by {what}, which is not known here; read it with Hudi, or "
                "compact it and ask for query_type='read_optimized'"
            )
        payloads = config.version <= _LAST_VERSION_OF_PAYLOADS and not config.written_by_1x
        ordered = bool(config.ordering_fields)
        rules = cls(
            ordering_fields=config.ordering_fields,
            logs_by_ordering=ordered and (payloads or mode == EVENT_TIME),
            base_by_ordering=ordered and mode == EVENT_TIME,
            deletes_forget=payloads,
            delete_field=_property(config, _DELETE_FIELD),
            delete_marker=_property(config, _DELETE_MARKER),
            keys=None if config.populate_meta_fields else _keys(config),
        )
        if (rules.delete_field is None) != (rules.delete_marker is None):
            raise OptionError(f"{config.name}: {_DELETE_FIELD} and {_DELETE_MARKER} go together; set both or none")
        return _with_partial_updates(rules, config)


def _property(config: TableConfig, name: str) -> str | None:
    return config.merge_properties.get(name) or config.raw.get(name) or None


def _keys(config: TableConfig) -> KeyGenerator:
    form = "field:value" if config.version >= _FIELD_FORM_VERSION else None
    return from_table_config(config, single_field_form="field:value" if form else None)


def _with_partial_updates(rules: MergeRules, config: TableConfig) -> MergeRules:
    mode = (config.partial_update_mode or "").upper()
    if not mode:
        return rules
    if mode == _IGNORE_DEFAULTS:
        return replace(rules, nulls_keep=True)
    marker = [value for key, value in config.merge_properties.items() if key.endswith(_UNAVAILABLE)]
    if mode == _FILL_UNAVAILABLE and len(marker) == 1:
        return replace(rules, unavailable=marker[0])
    raise UnsupportedTableError(
        f"{config.name}: hoodie.table.partial.update.mode={mode} is not known here, or lacks its property"
    )
