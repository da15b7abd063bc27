"""Options of several parts in one list."""

from pathlib import Path

import pytest

from hudi_catalog.option_groups import divided, key_value, read_option_file
from table_format.errors import OptionError


def test_each_key_goes_to_the_part_that_knows_it() -> None:
    parts = divided({"a.x": "1", "b.y": "2", "c": "3"}, {"a": ("a.x", "c"), "b": ("b.y", "c"), "none": ()})
    assert parts == {"a": {"a.x": "1", "c": "3"}, "b": {"b.y": "2", "c": "3"}, "none": {}}


def test_an_unknown_key_is_refused_with_those_that_look_like_it() -> None:
    groups = {"a": ("hoodie.catalog.scan.threads", "hoodie.catalog.trino.split.size")}
    with pytest.raises(OptionError, match=r"scan\.thread: .*\(did you mean hoodie\.catalog\.scan\.threads"):
        divided({"hoodie.catalog.scan.thread": "4"}, groups)
    with pytest.raises(OptionError, match=r"x: no such option here; there are hoodie"):
        divided({"x": "4"}, groups)


def test_a_pair_needs_both_sides() -> None:
    assert key_value(" a = b=c ") == ("a", "b=c")
    for text in ("a", "=b", ""):
        with pytest.raises(OptionError, match="key=value"):
            key_value(text)


def test_a_file_of_options(tmp_path: Path) -> None:
    path = tmp_path / "options"
    path.write_text("# limits\n\n a.b = 1 \nc=x=y\na.b=2\n")
    assert read_option_file(str(path)) == {"a.b": "2", "c": "x=y"}
    path.write_text("a=1\nb\n")
    with pytest.raises(OptionError, match="line 2 is not key=value"):
        read_option_file(str(path))
    with pytest.raises(OptionError, match=r"--config .*absent: No such file"):
        read_option_file(str(tmp_path / "absent"))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(OptionError, match="--config"):
        read_option_file(str(path))
