"""The merge rule of a write: what the table records, else what the job's options make Apache's writer do.

Copy-on-write tables of Apache 0.15 record no rule: the payload class of each job decides, and without one the later
write wins. 1.x orders the same table by event time. So one job has to give the rule; the table then records it.
"""

from __future__ import annotations

from typing import Final

from table_format.config.option_keys import warn_user
from table_format.config.table_config import (
    COMMIT_TIME,
    CUSTOM,
    EVENT_TIME,
    TableConfig,
    merge_mode_of_payload,
    merge_mode_of_strategy,
)
from table_format.errors import OptionError, OptionWarning, UnsupportedTableError
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Operation
from table_writer.plan.options import WriteOptions

_PACKAGE: Final = "org.apache.hudi.common.model."
PAYLOADS: Final = {
    COMMIT_TIME: f"{_PACKAGE}OverwriteWithLatestAvroPayload",
    EVENT_TIME: f"{_PACKAGE}DefaultHoodieRecordPayload",
}
_KNOWN: Final = ("OverwriteWithLatestAvroPayload", "DefaultHoodieRecordPayload", "EventTimeAvroPayload")
# Spark's merger compares the ordering field whatever the payload class; Avro's leaves it to that class.
_SPARK_MERGERS: Final = ("HoodieSparkRecordMerger", "DefaultSparkRecordMerger")
_MERGERS: Final = (*_SPARK_MERGERS, "HoodieAvroRecordMerger")
_MERGING: Final = (Operation.UPSERT, Operation.INSERT)
#: Where Apache 0.15 looks for the ordering value if no field is named.
_OLD_ORDERING: Final = "ts"


def given_merge_mode(options: WriteOptions) -> str | None:
    """The merge rule that a job gives, by record merger, payload class or mode; None if it gives none.

    Raises:
        OptionError: a class that is not supported, or one that contradicts the mode.
    """
    mode = options.text(registry.MERGE_MODE)
    key, text, rule = _rule_of_classes(options)
    if mode is not None and rule is not None and mode != rule:
        raise OptionError(f"{registry.MERGE_MODE.key}={mode!r} contradicts {key}={text!r}")
    return rule or mode


def new_table_rule(options: WriteOptions, ordering: tuple[str, ...]) -> str:
    """The payload class of a new table.

    Raises:
        OptionError: as for `given_merge_mode`, or there is nothing to order by.
    """
    mode = given_merge_mode(options)
    strategy = options.text(registry.MERGE_STRATEGY)
    if mode is None and strategy is not None:
        mode = merge_mode_of_strategy(strategy)
        if mode not in PAYLOADS:
            raise OptionError(f"{registry.MERGE_STRATEGY.key}={strategy!r} is not supported; give a payload class")
        if not ordering:
            mode = None  # 0.15's default is the strategy of event time, also where there is nothing to order by
    mode = mode or (EVENT_TIME if ordering else COMMIT_TIME)
    if mode == EVENT_TIME and not ordering:
        raise OptionError(f"{EVENT_TIME} needs {registry.ORDERING.key}: the fields that order a record's versions")
    return _class_to_store(options, mode)


def adopted_rule(options: WriteOptions, config: TableConfig, operation: Operation) -> dict[str, str]:
    """Properties that a job adds to a table which records no merge rule.

    Args:
        options: of the job.
        config: the table's properties.
        operation: of the write; some merge nothing, and need no rule.

    Raises:
        OptionError: neither the table nor the job says how versions of a record are merged, or by which field.
    """
    if config.recorded_merge_mode is not None:
        return {}
    mode = given_merge_mode(options)
    ordering = config.ordering_fields or options.names(registry.ORDERING)
    if mode is None:
        if ordering and operation in _MERGING:
            raise OptionError(
                f"{registry.PAYLOAD.key} is missing: the table does not record by which rule versions of a record are "
                f"merged, and Apache's releases differ where a job does not say it. Give {_KNOWN[0]}, by which the "
                f"later write wins, as in jobs of 0.15 without this option, or {_KNOWN[1]}, by which the greater "
                f"{','.join(ordering)} wins, as in 1.x; the table keeps it"
            )
        return {}
    if mode == EVENT_TIME and not ordering:
        if options.text(registry.PAYLOAD_ORDERING) != _OLD_ORDERING:
            raise OptionError(
                f"{registry.ORDERING.key} is missing: the table does not record by which field versions of a record "
                f"are ordered. Jobs of Apache 0.15 that do not give it order by {_OLD_ORDERING!r}, whatever "
                f"{registry.PAYLOAD_ORDERING.key} says; the table keeps it"
            )
        ordering = (_OLD_ORDERING,)
    added = {"hoodie.compaction.payload.class": _class_to_store(options, mode)}
    if ordering and not config.ordering_fields:
        added |= ordering_properties(ordering)
    return added


def ordering_properties(ordering: tuple[str, ...]) -> dict[str, str]:
    """How a table records its ordering fields: releases before 1.1 know one field only."""
    if not ordering:
        return {}
    return {f"hoodie.table.{'precombine.field' if len(ordering) == 1 else 'ordering.fields'}": ",".join(ordering)}


def check_merge_rule(options: WriteOptions, config: TableConfig) -> None:
    """Refuse tables whose merge rule is not supported, or contradicts itself; warn of ignored ordering options.

    Raises:
        UnsupportedTableError: the rule.
    """
    if config.merge_mode not in PAYLOADS:
        raise UnsupportedTableError(
            f"the table merges records by {config.payload_class or 'a merger of its own'}; only "
            "OverwriteWithLatestAvroPayload and DefaultHoodieRecordPayload are supported: write to it by Apache Hudi"
        )
    if config.payload_class and merge_mode_of_payload(config.payload_class) != config.merge_mode:
        raise UnsupportedTableError(
            f"hoodie.properties contradicts itself: hoodie.record.merge.mode={config.merge_mode}, but "
            f"hoodie.compaction.payload.class={config.payload_class}; remove the wrong one"
        )
    field = options.text(registry.PAYLOAD_ORDERING)
    if field is not None and config.ordering_fields and field not in config.ordering_fields:
        ordering = ",".join(config.ordering_fields)
        warn_user(
            f"{registry.PAYLOAD_ORDERING.key}={field!r} is ignored, as by Apache's writers: versions of a record "
            f"are ordered by {ordering}",
            OptionWarning,
        )


def _rule_of_classes(options: WriteOptions) -> tuple[str, str, str | None]:
    """The option that names a class which decides, its text, and the rule; None if none does."""
    merger = options.text(registry.RECORD_MERGER)
    if merger is not None:
        names = [name.rsplit(".", 1)[-1] for name in options.names(registry.RECORD_MERGER)]
        if not set(names) <= set(_MERGERS):
            raise OptionError(f"{registry.RECORD_MERGER.key}={merger!r} is not supported; give {' or '.join(_MERGERS)}")
        if set(names) & set(_SPARK_MERGERS):
            return registry.RECORD_MERGER.key, merger, EVENT_TIME
    payload = options.text(registry.PAYLOAD)
    if payload is None:
        return "", "", None
    if payload.rsplit(".", 1)[-1] not in _KNOWN:
        raise OptionError(f"{registry.PAYLOAD.key}={payload!r} is not supported; give one of {', '.join(_KNOWN)}")
    return registry.PAYLOAD.key, payload, merge_mode_of_payload(payload)


def _class_to_store(options: WriteOptions, mode: str) -> str:
    """The class by which the table records a rule: the job's own if it has that rule."""
    payload = options.text(registry.PAYLOAD)
    if payload is not None and merge_mode_of_payload(payload) == mode != CUSTOM:
        return payload if "." in payload else f"{_PACKAGE}{payload}"
    return PAYLOADS[mode]
