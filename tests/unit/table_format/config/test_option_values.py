"""Values of options are read by their keys, and refused by them."""

import pytest

from table_format.config.option_values import (
    alias,
    choice,
    flag,
    fraction,
    known_options,
    names,
    number,
    seconds,
    whole_number,
)
from table_format.errors import OptionError


def test_options_that_are_not_given_have_their_defaults() -> None:
    assert known_options(None, ["a"], "a scan") == {}
    assert whole_number({}, "a", 7, 10) == 7
    assert whole_number({}, "a", None, 10) is None
    assert seconds({}, "a", 0.5, 1.0) == 0.5
    assert fraction({}, "a", 0.25) == 0.25
    assert flag({}, "a") is False
    assert names({}, "a") == ()


def test_blanks_around_values_do_not_count() -> None:
    values = known_options({"a": " 12 ", "b": "\tTrue\n", "c": " x , ,y "}, "abc", "a scan")
    assert whole_number(values, "a", 0, 12) == 12
    assert seconds(values, "a", 0.0) == 12.0
    assert flag(values, "b") is True
    assert names(values, "c") == ("x", "y")


def test_an_unknown_key_is_named_beside_the_known_ones() -> None:
    with pytest.raises(OptionError, match=r"^z: no such option of a scan; there are a, b$"):
        known_options({"a": "1", "z": "2"}, ("a", "b"), "a scan")


@pytest.mark.parametrize("text", ["9", "-10", "1e2", "10.0", "", "many", "+12", "1_000", "\uff11\uff12"])
def test_what_is_no_whole_number_or_too_small_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"^key='.*': give a whole number of at least 10$"):
        whole_number({"key": text}, "key", 50, 10)


def test_a_whole_number_of_too_many_digits_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^key='9+': give a whole number of at least 10, and of at most 18 digits$"):
        whole_number({"key": "9" * 5000}, "key", 50, 10)


@pytest.mark.parametrize("text", ["-1", "0.9", "inf", "nan", "", "1s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"^key='.*': give a number of seconds of at least 1$"):
        seconds({"key": text}, "key", 5.0, 1.0)


@pytest.mark.parametrize("text", ["-0.1", "1.1", "nan", "80%"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"^key='.*': give a number from 0 to 1$"):
        fraction({"key": text}, "key", 0.5)
    assert fraction({"key": "0"}, "key", 0.5) == 0
    assert fraction({"key": "1"}, "key", 0.5) == 1


def test_what_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(OptionError, match=r"^key='yes': give true or false$"):
        flag({"key": "yes"}, "key")


def test_one_of_several_things_is_named_in_whatever_case() -> None:
    assert choice({"key": " gz"}, "key", "NONE", ("GZ", "NONE")) == "GZ"
    assert choice({}, "key", None, ("GZ",)) is None
    with pytest.raises(OptionError, match=r"^key='LZO': give GZ or NONE$"):
        choice({"key": "LZO"}, "key", "GZ", ("GZ", "NONE"))


def test_a_number_that_need_not_be_whole() -> None:
    assert number({"key": "1.5"}, "key", 1.3, 1) == 1.5
    assert number({}, "key", 1.3, 1) == 1.3
    with pytest.raises(OptionError, match=r"^key='0.9': give a number of at least 1$"):
        number({"key": "0.9"}, "key", 1.3, 1)


def test_the_first_name_that_is_set_counts() -> None:
    assert alias({"old": "1", "older": "2"}, "new", "old", "older") == "old"
    assert alias({"new": "1", "old": "2"}, "new", "old") == "new"
    assert alias({}, "new", "old") == "new"
