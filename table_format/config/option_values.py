"""Typed values of options: texts become numbers and flags; errors name the key.

Blanks around a value are ignored. An option may have older names (synonyms): see `alias`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from table_format.config.option_keys import ALIKE, is_apache_key
from table_format.errors import OptionError, did_you_mean

Default = TypeVar("Default", int, "int | None")
Choice = TypeVar("Choice", str, None)
_DIGITS: Final = 18
"""Digits of a number at most; Python refuses to convert texts of thousands."""


def known_options(options: Mapping[str, str] | None, keys: Iterable[str], owner: str) -> dict[str, str]:
    """Check option keys, and strip values.

    Args:
        options: by key; None for none.
        keys: the known keys.
        owner: owner of the options, for messages: ``a scan``.

    Raises:
        OptionError: an unknown key.
    """
    known = tuple(keys)
    values = {key: str(value).strip() for key, value in (options or {}).items()}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise OptionError(f"{unknown[0]}: {_no_such(unknown[0], known, owner)}; there are {', '.join(known)}")
    return values


def alias(values: Mapping[str, str], key: str, *synonyms: str) -> str:
    """The first of an option's names that is set; its current name if none is."""
    return next((name for name in (key, *synonyms) if name in values), key)


def whole_number(values: Mapping[str, str], key: str, default: Default, least: int) -> Default:
    """Value of an integer option, or its default.

    Raises:
        OptionError: it is not an integer, or less than `least`.
    """
    if key not in values:
        return default
    text = _text(values, key)
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS) or int(text) < least:
        most = f", and of at most {_DIGITS} digits" if len(text) > _DIGITS else ""
        raise _refused(values, key, f"a whole number of at least {least}{most}")
    return int(text)


def number(values: Mapping[str, str], key: str, default: float, least: float, what: str = "a number") -> float:
    """Value of a numeric option, or its default.

    Args:
        values: of all options.
        key: of this option.
        default: value if it is not set.
        least: minimum.
        what: kind of number, for the message.

    Raises:
        OptionError: it is not a finite number, or less than `least`.
    """
    if key not in values:
        return default
    value = _float(_text(values, key))
    if not least <= value < math.inf:
        raise _refused(values, key, f"{what} of at least {least:g}")
    return value


def seconds(values: Mapping[str, str], key: str, default: float, least: float = 0.0) -> float:
    """Value of an option in seconds, or its default; see `number`."""
    return number(values, key, default, least, "a number of seconds")


def fraction(values: Mapping[str, str], key: str, default: float) -> float:
    """Value of an option from 0 to 1, or its default.

    Raises:
        OptionError: it is not a number from 0 to 1.
    """
    if key not in values:
        return default
    value = _float(_text(values, key))
    if not 0 <= value <= 1:
        raise _refused(values, key, "a number from 0 to 1")
    return value


def flag(values: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    """Value of a boolean option, or its default.

    Raises:
        OptionError: it is neither true nor false.
    """
    if key not in values:
        return default
    text = _text(values, key).lower()
    if text not in {"true", "false"}:
        raise _refused(values, key, "true or false")
    return text == "true"


def names(values: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Comma-separated names in an option; empty if it is not set."""
    return tuple(name.strip() for name in values.get(key, "").split(",") if name.strip())


def choice(values: Mapping[str, str], key: str, default: Choice, allowed: Iterable[str]) -> str | Choice:
    """Value of an option that is one of several names, ignoring case, or its default.

    Raises:
        OptionError: it is not one of them.
    """
    if key not in values:
        return default
    known = {name.lower(): name for name in allowed}
    text = _text(values, key).lower()
    if text not in known:
        raise _refused(values, key, " or ".join(known.values()))
    return known[text]


def key_value_lines(values: Mapping[str, str], key: str) -> dict[str, str]:
    """Parse an option of lines `key=value`; empty if it is not set.

    Raises:
        OptionError: a line has no equals sign, or nothing before it.
    """
    pairs = {}
    for line in filter(None, map(str.strip, values.get(key, "").splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise OptionError(f"{key}: {line!r} is not name=value; give one per line")
        pairs[name.strip()] = value.strip()
    return pairs


def _no_such(key: str, known: Iterable[str], owner: str) -> str:
    hint = did_you_mean(key, known, ALIKE)
    if is_apache_key(key) and not hint:
        return f"an option of Apache Hudi's that {owner} does not read"
    return f"no such option of {owner}{hint}"


def _text(values: Mapping[str, str], key: str) -> str:
    return str(values[key]).strip()


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _refused(values: Mapping[str, str], key: str, wanted: str) -> OptionError:
    return OptionError(f"{key}={str(values[key])!r}: give {wanted}")
