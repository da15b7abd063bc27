"""The options of one write, parsed from a job's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from table_format.config.option_keys import check_writer_options
from table_format.errors import ArgumentError, OptionError
from table_writer.plan import option_registry as registry
from table_writer.plan.option import Kind, Option

_MOST_DIGITS: Final = 19


@dataclass(frozen=True)
class WriteOptions:
    """Options by key, as texts; values are checked when the object is made.

    Attributes:
        texts: the values that are set, each registered option under its own key rather than an alias.
    """

    texts: Mapping[str, str]

    @classmethod
    def of_user(cls, values: Mapping[str, object] | None, others: WriteOptions | None = None) -> WriteOptions:
        """Read the options of a user's call, and check their keys; see `of`.

        Args:
            values: by key; None for none.
            others: further options of the call; `values` override them.

        Raises:
            ArgumentError: a key that is not a text.
            OptionError: a value that its option does not take, or a key that cannot be ignored.
        """
        if values is not None and (not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values)):
            raise ArgumentError(f"options are a dict from keys to values, not {values!r}")
        options = cls.of(values or {})
        check_writer_options(options.texts, None if others is None else others.texts)
        return options if others is None else others.with_values(values or {})

    @classmethod
    def of(cls, values: Mapping[str, object]) -> WriteOptions:
        """Read options as users and Spark jobs write them: Python booleans and numbers are accepted too.

        Raises:
            OptionError: a value that its option does not take, or two aliases that disagree.
        """
        texts = {key: _text(value) for key, value in values.items() if value is not None}
        for option in registry.REGISTRY:
            spellings = {key: texts[key] for key in (option.key, *option.aliases) if key in texts}
            if not spellings:
                continue
            if len(set(spellings.values())) > 1:
                both = " but ".join(f"{key}={value!r}" for key, value in spellings.items())
                raise OptionError(f"{both}: they mean the same; give one")
            text = next(iter(spellings.values()))
            for alias in option.aliases:
                texts.pop(alias, None)
            texts[option.key] = _checked(option, text, next(iter(spellings)))
        return cls(texts)

    def is_set(self, option: Option) -> bool:
        """Whether the job sets the option itself."""
        return option.key in self.texts

    def text(self, option: Option) -> str | None:
        """The option's text, or its default."""
        return self.texts.get(option.key, option.default)

    def flag(self, option: Option) -> bool:
        """Whether the option is true."""
        return self.text(option) == "true"

    def number(self, option: Option) -> int | None:
        """The option as a number, None when there is neither a value nor a default."""
        text = self.text(option)
        return None if text is None else int(text)

    def names(self, option: Option) -> tuple[str, ...]:
        """The option's list, empty when it has none."""
        return tuple(part.strip() for part in (self.text(option) or "").split(",") if part.strip())

    def insert_policy(self) -> str:
        """What insert does with keys that are in the table: `none` (as other options say), `drop` or `fail`."""
        policy = self.text(registry.DUPLICATE_POLICY) or "none"
        return "drop" if policy == "none" and self.flag(registry.DROP_DUPLICATES) else policy

    def with_values(self, changes: Mapping[str, object]) -> WriteOptions:
        """These options with some values replaced; None removes one."""
        merged: dict[str, object] = {key: text for key, text in self.texts.items() if key not in changes}
        return WriteOptions.of(merged | dict(changes))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def _checked(option: Option, text: str, key: str) -> str:
    text = text.strip()
    if option.kind is Kind.FLAG:
        if text.lower() not in ("true", "false"):
            raise OptionError(f"{key}={text!r}: give true or false")
        return text.lower()
    least = {Kind.NUMBER: 1, Kind.COUNT: 0}.get(option.kind)
    if least is not None:
        is_number = text.isascii() and text.isdigit()
        if is_number and (len(text) > _MOST_DIGITS or int(text) > option.most):
            raise OptionError(f"{key}={text!r}: the largest number is {option.most}")
        if not is_number or int(text) < least:
            raise OptionError(f"{key}={text!r}: give a {option.kind.value}")
    if option.kind is Kind.CHOICE:
        for choice in option.choices:
            if choice.lower() == text.lower():
                return choice
        raise OptionError(f"{key}={text!r} is not supported; give {' or '.join(option.choices)}. {option.meaning}")
    return text
