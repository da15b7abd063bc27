"""Values of options by their keys: texts become numbers and flags, and what does not fit is refused by its key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from table_format.errors import OptionError

Default = TypeVar("Default", int, "int | None")
Choice = TypeVar("Choice", str, None)


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
        raise OptionError(f"{unknown[0]}: no such option of {owner}; there are {', '.join(known)}")
    return values


def whole_number(values: Mapping[str, str], key: str, default: Default, least: int) -> Default:
    """The value of an option, or its default.

    Raises:
        OptionError: it is no whole number, or less than `least`.
    """
    text = values.get(key)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise OptionError(f"{key}: {text!r} is not a whole number of at least {least}")
    return number


def seconds(values: Mapping[str, str], key: str, default: float, least: float = 0.0) -> float:
    """The value of an option that is a time, or its default.

    Raises:
        OptionError: it is no finite number, or less than `least`.
    """
    if key not in values:
        return default
    number = _number(values[key])
    if not least <= number < float("inf"):
        raise OptionError(f"{key}: {values[key]!r} is not a number of seconds of at least {least:g}")
    return number


def fraction(values: Mapping[str, str], key: str, default: float) -> float:
    """The value of an option that is a part of a whole, or its default.

    Raises:
        OptionError: it is no number from 0 to 1.
    """
    if key not in values:
        return default
    number = _number(values[key])
    if not 0 <= number <= 1:
        raise OptionError(f"{key}: {values[key]!r} is not a number from 0 to 1")
    return number


def flag(values: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    """Whether an option is set to true, or its default.

    Raises:
        OptionError: it is neither true nor false.
    """
    text = values.get(key, str(default))
    if text.lower() not in {"true", "false"}:
        raise OptionError(f"{key}: {text!r} is neither true nor false")
    return text.lower() == "true"


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
    if values[key].lower() not in known:
        raise OptionError(f"{key}: {values[key]!r} is none of {', '.join(known.values())}")
    return known[values[key].lower()]


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


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
