"""Options of the sync that a writer runs after its commits, beside those of the sync itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from table_format.config.option_keys import ALIKE
from table_format.config.option_values import flag, known_options
from table_format.errors import OptionError, did_you_mean

URIS = "hoodie.datasource.hive_sync.metastore.uris"
IGNORE = "hoodie.datasource.hive_sync.ignore_exceptions"
KEYS = (URIS, IGNORE)

_PREFIX: Final = "hoodie.datasource.hive_sync."
_OUR_PREFIX: Final = "hoodie.catalog.sync."
# what we do anyway; other values are refused
_FIXED: Final = {
    "mode": "hms",
    "create_managed_table": "false",
    "use_pre_apache_input_format": "false",
    "assume_date_partitioning": "false",
    "bucket_sync": "false",
    "use_spark_catalog": "false",
    "base_file_format": "parquet",
}
_PASSED_OVER: Final = frozenset(
    # of Apache's other modes, which jobs leave in
    {"username", "password", "jdbcurl", "use_jdbc", "batching.enabled", "batching.threads"}
    # how Apache's sync goes about it, nothing of what it leads to
    | {"enable", "batch_num", "filter_pushdown_enabled", "filter_pushdown_max_size", "bucket_sync_spec"}
    | {"recreate_table_on_error"}
)


@dataclass(frozen=True)
class WriterSyncOptions:
    """Options of the sync after a commit.

    Attributes:
        uris: the metastore; None for what the session's Hadoop configuration says;
            `hoodie.datasource.hive_sync.metastore.uris`.
        ignore: warn of a failed sync instead of raising; `hoodie.datasource.hive_sync.ignore_exceptions`.
    """

    uris: str | None = None
    ignore: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> WriterSyncOptions:
        """Options by their keys.

        Raises:
            OptionError: an unknown key, or a value that does not fit it.
        """
        values = known_options(options, KEYS, "the sync after a commit")
        return cls(uris=values.get(URIS) or None, ignore=flag(values, IGNORE))


def check_known(options: Mapping[str, str], known: frozenset[str]) -> None:
    """Refuse options of the sync that nobody reads, unless they do not matter here.

    Apache's sync has some that other modes of it read, and some for what ours does always.

    Args:
        options: of a job.
        known: keys that somebody reads.

    Raises:
        OptionError: there is one; the message names it.
    """
    if f"{_PREFIX}mode" not in options:
        # Apache's mode is JDBC then, and the metastore is not where its other options say
        for name in ("jdbcurl", "use_jdbc"):
            if options.get(_PREFIX + name, "false").lower() != "false":
                raise OptionError(
                    f"{_PREFIX}{name}: the sync speaks to the metastore itself; give {_PREFIX}mode=hms and {URIS}"
                )
    for key, value in options.items():
        name = key.removeprefix(_PREFIX)
        if key in known or not key.startswith((_PREFIX, _OUR_PREFIX)) or name in _PASSED_OVER:
            continue
        wanted = _FIXED.get(name)
        if wanted is None:
            hint = did_you_mean(key, known, ALIKE) or f"; there are {', '.join(sorted(known))}"
            raise OptionError(f"{key}: no such option of the sync{hint}")
        if value.strip().lower() != wanted:
            raise OptionError(f"{key}: {value!r} is not supported; leave it out or give {wanted}")
