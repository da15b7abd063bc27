"""Values of options by their keys: texts become numbers and flags, and what does not fit is refused by its key.

Blanks around a value do not count. A key may have synonyms, older names of the same option: see `given`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from table_format.config.option_keys import ALIKE, is_apaches
from table_format.errors import OptionError, did_you_mean

Default = TypeVar("Default", int, "int | None")
Choice = TypeVar("Choice", str, None)

_DIGITS: Final = 18
"""More than any option needs; Python converts no text of thousands."""


def known_options(options: Mapping[str, str] | None, keys: Iterable[str], owner: str) -> dict[str, str]:
    """The options as texts without blanks around them.

    Args:
        options: by key; None for none.
        keys: that there are.
        owner: what has the options, for the message: ``a scan``.

    Raises:
        OptionError: a key is none of `keys`.
    """
    known = tuple(keys)
    values = {key: str(value).strip() for key, value in (options or {}).items()}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise OptionError(f"{unknown[0]}: {_no_such(unknown[0], known, owner)}; there are {', '.join(known)}")
    return values


def given(values: Mapping[str, str], key: str, *synonyms: str) -> str:
    """The name by which an option is set: the first of them that is; its own where it is not set at all."""
    return next((name for name in (key, *synonyms) if name in values), key)


def whole_number(values: Mapping[str, str], key: str, default: Default, least: int) -> Default:
    """The value of an option, or its default.

    Raises:
        OptionError: it is no whole number, or less than `least`.
    """
    if key not in values:
        return default
    text = _text(values, key)
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS) or int(text) < least:
        raise _refused(values, key, f"a whole number of at least {least}")
    return int(text)


def number(values: Mapping[str, str], key: str, default: float, least: float, what: str = "a number") -> float:
    """The value of an option that need not be whole, or its default.

    Args:
        values: of all options.
        key: of this one.
        default: where it is not set.
        least: what it must be.
        what: its kind, for the message.

    Raises:
        OptionError: it is no finite number, or less than `least`.
    """
    if key not in values:
        return default
    value = _float(_text(values, key))
    if not least <= value < math.inf:
        raise _refused(values, key, f"{what} of at least {least:g}")
    return value


def seconds(values: Mapping[str, str], key: str, default: float, least: float = 0.0) -> float:
    """The value of an option that is a time, or its default; see `number`."""
    return number(values, key, default, least, "a number of seconds")


def fraction(values: Mapping[str, str], key: str, default: float) -> float:
    """The value of an option that is a part of a whole, or its default.

    Raises:
        OptionError: it is no number from 0 to 1.
    """
    if key not in values:
        return default
    value = _float(_text(values, key))
    if not 0 <= value <= 1:
        raise _refused(values, key, "a number from 0 to 1")
    return value


def flag(values: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    """Whether an option is set to true, or its default.

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
    """The names that an option lists with commas between; none without it."""
    return tuple(name.strip() for name in values.get(key, "").split(",") if name.strip())


def choice(values: Mapping[str, str], key: str, default: Choice, allowed: Iterable[str]) -> str | Choice:
    """The value of an option that names one of several things, in whatever case, or its default.

    Raises:
        OptionError: it is none of them.
    """
    if key not in values:
        return default
    known = {name.lower(): name for name in allowed}
    text = _text(values, key).lower()
    if text not in known:
        raise _refused(values, key, " or ".join(known.values()))
    return known[text]


def key_value_lines(values: Mapping[str, str], key: str) -> dict[str, str]:
    """What an option says in lines of `key=value`; nothing without it.

    Raises:
        OptionError: a line has no equals sign, or nothing before it.
    """
    pairs = {}
    for line in filter(None, map(str.strip, values.get(key, "").splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise OptionError(f"{key}: {line!r} is not name=value; there is one a line")
        pairs[name.strip()] = value.strip()
    return pairs


def _no_such(key: str, known: Iterable[str], owner: str) -> str:
    hint = did_you_mean(key, known, ALIKE)
    if is_apaches(key) and not hint:
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
