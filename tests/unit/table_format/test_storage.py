import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest import mock

import pytest
from pyarrow import fs

from table_format.errors import AlreadyExistsError, MissingFileError, StorageError, UnusablePathError
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


def test_a_file_gets_its_name_with_its_content_where_a_name_is_visible_before():
    storage = Storage("mock:///t")  # as HDFS is: neither local nor an object store
    storage.filesystem = mock.Mock(wraps=storage.filesystem)
    storage.create("a/x", b"content")
    opened = [call.args[0] for call in storage.filesystem.open_output_stream.call_args_list]
    assert opened
    assert "t/a/x" not in opened
    assert storage.read("a/x") == b"content"
    with pytest.raises(AlreadyExistsError):
        storage.create("a/x", b"other")
    storage.filesystem.move.side_effect = OSError("refused")
    with pytest.raises(StorageError, match="refused"):
        storage.create("a/y", b"content")
    left = storage.filesystem.get_file_info(fs.FileSelector("t", recursive=True))
    assert [info.path for info in left] == ["t/a", "t/a/x"]


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


def test_what_an_object_store_refuses_is_not_worth_another_try():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Forbidding)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    reach = {"endpoint_override": f"127.0.0.1:{server.server_port}", "scheme": "http", "region": "us-east-1"}
    storage = Storage("s3://bucket/t", {**reach, "access_key": "k", "secret_key": "s"})
    try:
        with pytest.raises(UnusablePathError, match=r"^a: .*ACCESS_DENIED"):
            storage.read("a")
        with pytest.raises(UnusablePathError, match="ACCESS_DENIED"):
            storage.list("a")
    finally:
        server.shutdown()
        server.server_close()


class _Forbidding(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._refuse(b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>")

    def do_HEAD(self) -> None:
        self._refuse(b"")

    def _refuse(self, body: bytes) -> None:
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""
