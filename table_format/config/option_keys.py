"""Which option keys there are: writers warn of those that nobody reads, and refuse misspelt ones of our own prefix.

A job that moves over from Apache's jar keeps its options, so that keys of Apache's that do not concern us are passed
over in silence: `apache_option_keys.txt` lists them (`tools/apache_option_keys.py` makes it out of Apache's releases).
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Mapping
from importlib import resources
from typing import Final

from table_format.config.unserved_options import UNSERVED, lock_of_others
from table_format.errors import OptionError, OptionWarning, did_you_mean, nearest

OUR_PREFIX: Final = "hoodie.catalog."
OUR_WRITER_KEYS: Final = (
    "hoodie.catalog.record.index.driver.rows",
    "hoodie.catalog.record.index.dynamic.lookup",
    "hoodie.catalog.record.index.growth",
    "hoodie.catalog.record.index.hash",
    "hoodie.catalog.record.index.lookup",
    "hoodie.catalog.record.index.packed.keys",
    "hoodie.catalog.write.partial.columns",
    "hoodie.catalog.write.progress",
    "hoodie.catalog.write.retries",
    "hoodie.catalog.write.silent.minutes",
    "hoodie.catalog.write.split.bytes",
    "hoodie.catalog.write.surgery",
    "hoodie.catalog.write.surgery.max.loose.percent",
    "hoodie.catalog.write.surgery.max.small.groups",
    "hoodie.catalog.write.surgery.max.touched.percent",
    "hoodie.catalog.write.surgery.min.file.size",
    "hoodie.catalog.write.tasks",
)
"""Keys of ours that writers read."""
# What follows a commit reads these, and checks them itself.
_OURS_OF_THE_SYNC: Final = ("hoodie.catalog.sync.", "hoodie.catalog.metastore.", "hoodie.catalog.hive.service")
# Apache's, though its Spark bundle does not declare them: names of RFC-29, of older documentation, of its streamer and
# its modules for clouds, and keys that go on with a name of the user's.
_APACHES_OTHERS: Final = frozenset(
    {
        "hoodie.hash.index.bucket.num",
        "hoodie.datasource.write.indexkey.field",
        "hoodie.keygen.timebased.type",
        "hoodie.deltastreamer.keygen.timebased.type",
    }
)
_APACHES_PREFIXES: Final = (
    "hoodie.streamer.",
    "hoodie.deltastreamer.",
    "hoodie.aws.",
    "hoodie.gcp.",
    "hoodie.datahub.",
    "hoodie.write.lock.dynamodb.",
    "hoodie.datasource.meta.sync.glue.",
    "hoodie.record.merge.property.",
    "hoodie.metadata.index.expression.",
)
# declared by the bundle one by one, so that a misspelt one shows
_NOT_OPEN: Final = "hoodie.deltastreamer.keygen."
# Long names that begin alike are alike by that alone.
ALIKE: Final = 0.8
_PREFIX: Final = "hoodie."
_PREFIX_ALIKE: Final = 0.7
# Of Spark, Hadoop and its formats; `parquet.block.size` is one of theirs.
_OTHER_PREFIXES: Final = ("parquet", "spark", "fs", "dfs", "hive", "avro", "orc", "mapreduce", "hadoop")
_PACKAGES: Final = frozenset({"table_format", "pushdown", "spark_writer", "catalog", "contextlib"})


@functools.cache
def apache_keys() -> frozenset[str]:
    """The keys of the options that Apache Hudi's releases declare."""
    lines = resources.files("table_format.config").joinpath("apache_option_keys.txt").read_text("utf-8").splitlines()
    return _APACHES_OTHERS.union(line for line in lines if not line.startswith("#"))


def is_apaches(key: str) -> bool:
    """Whether Apache Hudi has an option of that name."""
    open_ended = key.startswith(_APACHES_PREFIXES) and not key.startswith(_NOT_OPEN)
    return open_ended or key in apache_keys()


def check_writer_options(given: Mapping[str, str], others: Mapping[str, str] | None = None) -> None:
    """Look at the options that a call of a writer gives, before anything is done.

    Warns, by `OptionWarning`, of keys that neither we nor Apache Hudi know, and of Apache's whose work nobody does
    here. Keys that do not look like Hudi's are passed over.

    Args:
        given: to this call.
        others: that hold for it as well, and were looked at when they were given.

    Raises:
        OptionError: an unknown key of our own prefix, or an option whose neglect would harm data.
    """
    for key, value in given.items():
        if key.lower().startswith(OUR_PREFIX):
            _check_ours(key)
        elif key.startswith(_PREFIX) and not is_apaches(key):
            _warn(f"{key}: neither Apache Hudi nor hudi-catalog has this option; it does nothing{_hint(key)}")
        elif not key.startswith(_PREFIX):
            _check_foreign(key)
        rule = next((rule for rule in UNSERVED if rule.concerns(key, value)), None)
        if rule is not None and rule.refused:
            raise OptionError(f"{key}={value!r}: {rule.reason}; {rule.remedy}")
        if rule is not None:
            _warn(f"{key}={value!r} does nothing here: {rule.reason}; {rule.remedy}")
    lock_of_others({**(others or {}), **given})


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's that called into these packages, once a line as Python's warnings go."""
    frame, depth = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=depth)


def _warn(message: str) -> None:
    warn_user(message, OptionWarning)


def _check_ours(key: str) -> None:
    if key not in OUR_WRITER_KEYS and not key.startswith(_OURS_OF_THE_SYNC):
        # without the prefix, which alone makes them much alike
        names = {known.removeprefix(OUR_PREFIX): known for known in OUR_WRITER_KEYS}
        near = [names[name] for name in nearest(key[len(OUR_PREFIX) :], names, ALIKE)]
        hint = f" (did you mean {' or '.join(near)}?)" if near else f"; there are {', '.join(OUR_WRITER_KEYS)}"
        raise OptionError(f"{key}: a writer has no such option{hint}")


def _check_foreign(key: str) -> None:
    """Warn of a key that Hudi would read if its beginning were spelt right."""
    first, dot, rest = key.strip().partition(".")
    if not dot or first in _OTHER_PREFIXES:
        return
    for right in (_PREFIX + rest, _PREFIX + key.strip()):
        if is_apaches(right) or right in OUR_WRITER_KEYS:
            _warn(f"{key}: this is no option of Hudi's, whose keys begin with {_PREFIX} (did you mean {right}?)")
            return
    if nearest(first, ["hoodie"], _PREFIX_ALIKE):
        _warn(f"{key}: this is no option of Hudi's, whose keys begin with {_PREFIX}{_hint(_PREFIX + rest)}")


def _hint(key: str) -> str:
    return did_you_mean(key, [*OUR_WRITER_KEYS, *apache_keys()], ALIKE)
