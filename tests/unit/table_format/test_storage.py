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


def test_the_endpoint_of_s3_comes_from_awss_variables(monkeypatch):
    def endpoint(**options):
        filesystem = Storage("s3://bucket/t", {"region": "us-east-1", "anonymous": True, **options}).filesystem
        return filesystem.__reduce__()[1][0]["endpoint_override"]

    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    assert endpoint() == ""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert endpoint() == "http://127.0.0.1:1"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2")
    assert endpoint() == "http://127.0.0.1:2"
    assert endpoint(endpoint_override="127.0.0.1:3") == "127.0.0.1:3"
