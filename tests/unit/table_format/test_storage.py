import pytest

from table_format.errors import MissingFileError
from table_format.storage import Storage


def test_move(tmp_path):
    storage = Storage(str(tmp_path))
    storage.create("a/new.writing", b"content")
    storage.move("a/new.writing", "a/new")
    assert storage.read("a/new") == b"content"
    assert [entry.path for entry in storage.list("a")] == ["a/new"]
    with pytest.raises(MissingFileError):
        storage.move("a/gone", "a/new")
    assert storage.read("a/new") == b"content"
