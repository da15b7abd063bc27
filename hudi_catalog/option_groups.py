"""Options as `key=value` texts and files, and their distribution over the components that know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from catalog.table import KEYS as TABLE_KEYS
from table_format.config.option_keys import ALIKE
from table_format.errors import ArgumentError, OptionError, did_you_mean


def key_value(text: str) -> tuple[str, str]:
    """Split `key=value` into its two sides.

    Raises:
        OptionError: there is no equals sign, or nothing before it.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise OptionError(f"--option {text}: write key=value")
    return key.strip(), value.strip()


def read_option_file(path: str) -> dict[str, str]:
    """Read options from a file of `key=value` lines; empty lines and those starting with `#` are skipped.

    Raises:
        OptionError: the file cannot be read, or a line has no equals sign.
    """
    options: dict[str, str] = {}
    try:
        with open(path, encoding="utf-8") as stream:
            lines = stream.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--config {path}: {getattr(error, 'strerror', None) or error}") from error
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise OptionError(f"--config {path}: line {number} is not key=value")
        options[key.strip()] = value.strip()
    return options


def divided(options: Mapping[str, str], groups: Mapping[str, Iterable[str]]) -> dict[str, dict[str, str]]:
    """Distribute options over groups by the keys that each group knows.

    Args:
        options: values by key.
        groups: known keys by group name. A key of several groups goes to all of them.

    Raises:
        OptionError: no group has the key; the message names those that look like it.
    """
    keys = {name: set(known) for name, known in groups.items()}
    every = sorted(set().union(*keys.values()))
    for key in sorted(options):
        if key not in every:
            hint = did_you_mean(key, every, ALIKE) or f"; there are {', '.join(every)}"
            raise OptionError(f"{key}: no such option here{hint}")
    return {name: {key: value for key, value in options.items() if key in known} for name, known in keys.items()}


def divided_options(options: Mapping[str, Any] | None) -> tuple[dict[str, str], dict[str, Any]]:
    """Split options into those for reading and those for writing.

    Raises:
        ArgumentError: the options are no dict.
    """
    if options is not None and not isinstance(options, Mapping):
        raise ArgumentError(f"options are a dict from keys to values, not {options!r}")
    reading = {key: str(value) for key, value in (options or {}).items() if key in TABLE_KEYS}
    return reading, {key: value for key, value in (options or {}).items() if key not in TABLE_KEYS}
