import gzip

import pytest

from table_format.config.properties import format_properties, parse_properties
from table_format.errors import CorruptFileError, HudiError, OptionError
from tests.support.paths import GOLDEN

_GOLDEN = GOLDEN / "java_properties.tsv.gz"


def _java_cases():
    with gzip.open(_GOLDEN, "rt") as stream:
        for line in stream:
            source, _, result = line.rstrip("\n").partition("\t")
            yield bytes.fromhex(source), result


def _text(digits):
    return bytes.fromhex(digits).decode("utf-16-be")


def test_texts_are_read_and_written_as_java_does():
    cases = list(_java_cases())
    assert len(cases) > 500
    for source, result in cases:
        if result == "ERR":
            with pytest.raises(CorruptFileError):
                parse_properties(source, "p")
            continue
        pairs, _, stored = result.partition(";")
        values = dict(map(_text, pair.split("=")) for pair in pairs.split(",") if pair)
        assert parse_properties(source, "p") == values, source
        lines = [line for line in bytes.fromhex(stored).splitlines() if not line.startswith(b"#")]
        ours = [line for line in format_properties(values).splitlines() if line]
        assert sorted(ours) == sorted(lines), source


def test_other_characters_are_escaped_as_java_reads_latin_1():
    assert format_properties({"n": "é日😀~\x7f"}) == b"n=\\u00E9\\u65E5\\uD83D\\uDE00~\\u007F\n"


def test_utf_8_is_read_as_such():
    assert parse_properties("n=é日".encode(), "p") == {"n": "é日"}


def test_the_comment_stands_first_and_breaks_no_line():
    assert format_properties({"a": "1"}, "two\nlines") == b"#two\n#lines\na=1\n"


@pytest.mark.parametrize(
    ("data", "offset"),
    [(b"a=1\nb=\\u12x4\n", 4), (b"a=1\n#c\n  b=\\ud800\n", 7), (b"ok=\xff", 3)],
)
def test_damage_names_the_place(data, offset):
    with pytest.raises(CorruptFileError) as caught:
        parse_properties(data, "some/file")
    assert caught.value.path == "some/file"
    assert caught.value.offset == offset


def test_half_a_surrogate_pair_is_not_written():
    with pytest.raises(OptionError):
        format_properties({"a": "\ud800"})


def test_any_prefix_of_a_file_is_read_or_refused():
    whole = format_properties({"a:b": "x\\y\n", "é": "日", "c": " z"}, "note")
    for end in range(len(whole)):
        try:
            parse_properties(whole[:end], "p")
        except HudiError:
            continue
