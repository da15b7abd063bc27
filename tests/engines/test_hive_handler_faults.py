"""Hive's storage handler with a service that answers wrongly, late or not at all, or that it cannot trust."""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hudi_catalog.server.security import TlsFiles, server_context
from tests.engines.hive_engine import ON_TEZ, HiveError
from tests.engines.hive_fake_service import (
    Call,
    FakeService,
    fake_service,
    message,
    parquet_splits,
    refusal,
    splits_of,
)
from tests.engines.hive_handler_tables import (
    KEY,
    SOON,
    WITHOUT_TASKS,
    Tables,
    answering,
)
from tests.support.certificates import Authority

pytestmark = pytest.mark.engine


# wrong answers


def inside(call: Call, name: str) -> str:
    return f"{call.request.location}/{name}"


WRONG: dict[str, tuple[Callable[[Call], Any], str]] = {
    "another table's file": (lambda call: splits_of([("file:/etc/passwd", 0, 10)]), "not inside the table's location"),
    "a folder beside": (lambda call: splits_of([(f"{call.request.location}2/a", 0, 9)]), "not inside the table's"),
    "a step upwards": (lambda call: splits_of([(inside(call, "../x.parquet"), 0, 9)]), "not the name of a file"),
    "another store": (lambda call: splits_of([("hdfs://h" + call.request.location[5:] + "/f", 0, 9)]), "not inside"),
    "the folder itself": (lambda call: splits_of([(call.request.location, 0, 9)]), "not inside"),
    "a negative start": (lambda call: splits_of([(inside(call, "f0.parquet"), -1, 9)]), "bytes -1"),
    "no bytes": (lambda call: splits_of([(inside(call, "f0.parquet"), 0, 0)]), "bytes 0 and 0"),
    "too many bytes": (lambda call: splits_of([(inside(call, "f0.parquet"), 5, 2**63 - 1)]), "bytes 5"),
    "bytes twice": (
        lambda call: splits_of([(inside(call, "f0.parquet"), 0, 9), (inside(call, "f0.parquet"), 8, 9)]),
        "two splits with the same bytes",
    ),
    "a newer version": (lambda call: splits_of([], version=4), "of version 4.*hive-jar"),
    "another snapshot": (lambda call: splits_of([], pin="pin 2"), "another snapshot"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_answer_fails_the_query_and_says_why(tables: Tables, kind: str) -> None:
    answer, reason = WRONG[kind]
    with fake_service(answering(tables, answer)) as service:
        name = tables.make(service.port)
        with pytest.raises(HiveError, match=f"Hudi table {name}: the service gave a wrong answer: .*{reason}"):
            tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)


def test_tasks_say_it_too(tables: Tables) -> None:
    with fake_service(answering(tables, lambda call: splits_of([("file:/etc/passwd", 0, 10)]))) as service:
        name = tables.make(service.port)
        with pytest.raises(HiveError, match=f"Hudi table {name}: the service gave a wrong answer"):
            tables.engine.query(f"SELECT count(*) FROM {name}", settings=ON_TEZ)
    with fake_service(parquet_splits(str(tables.folder))) as service:
        name = tables.make(service.port)
        assert tables.engine.query(f"SELECT count(*) FROM {name}", settings=ON_TEZ) == [(300,)]


GARBAGE = {
    "nothing": b"",
    "a web page": b"HTTP/1.1 400 Bad Request\r\n\r\n" * 20,
    "zeros": bytes(100),
    "an answer to another call": message("pin"),
    "an answer without splits": message("splits"),
    "an answer to another request": message("splits", sequence=7),
    "half an answer": message("splits")[:9],
    "ones": b"\xff" * 64,
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_an_answer_that_cannot_be_read_fails_the_query(tables: Tables, kind: str) -> None:
    with fake_service(answering(tables, lambda _: GARBAGE[kind])) as service:
        name = tables.make(service.port)
        with pytest.raises(HiveError, match=rf"Hudi table {name}: the service does not answer \(127.0.0.1:\d+: an an"):
            tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)
        assert len(service.of("splits")) == 1


# no answers


def test_a_refusal_is_the_query_s_message(tables: Tables) -> None:
    with fake_service(lambda _: refusal("no table here: run hudi-catalog sync")) as service:
        name = tables.make(service.port)
        with pytest.raises(HiveError, match=rf"Hudi table {name}: no table here: run hudi-catalog sync$"):
            tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)
        assert len(service.calls) == 1


def test_what_may_pass_is_tried_again(tables: Tables) -> None:
    whole, calls = parquet_splits(str(tables.folder)), count()

    def answer(call: Call) -> Any:
        return {0: refusal("busy", retryable=True), 1: None}.get(next(calls)) if len(service.calls) < 3 else whole(call)

    with fake_service(answer) as service:
        name = tables.make(service.port)
        assert len(tables.engine.query(f"SELECT id FROM {name}", settings=WITHOUT_TASKS)) == 300
    assert [call.method for call in service.calls] == ["pin", "pin", "pin", "splits"]


def test_a_dead_service_fails_the_query_with_one_message(tables: Tables) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    name = tables.make(port, properties=SOON)
    message = (
        rf"Hudi table {name}: the service does not answer \(127.0.0.1:{port}: Connection refused.*\): see that `hudi"
    )
    with pytest.raises(HiveError, match=message):
        tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)
    assert len(tables.engine.query(f"DESCRIBE {name}")) == 3
    tables.engine.run(f"DROP TABLE {name}")


def test_another_address_answers_for_a_dead_one(tables: Tables, right: FakeService) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    name = tables.make(f"127.0.0.1:{port}, 127.0.0.1:{right.port}")
    assert len(tables.engine.query(f"SELECT id FROM {name}", settings=WITHOUT_TASKS)) == 300


def test_a_slow_service_is_not_waited_for(tables: Tables) -> None:
    gave_up = threading.Event()

    def answer(call: Call) -> Any:
        gave_up.wait(60)

    with fake_service(answer) as service:
        name = tables.make(service.port, properties={f"{KEY}timeout.seconds": "1"})
        with pytest.raises(HiveError, match="no answer within 1 s"):
            tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)
        gave_up.set()
        assert len(service.calls) == 1


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("service", "nowhere", "it is host:port"),
        ("service", "", "is not set"),
        ("service", "h:99999", "it is host:port"),
        ("timeout.seconds", "soon", "a number of seconds"),
        ("timeout.seconds", "-1", "a number of seconds"),
    ],
)
def test_a_wrong_setting_is_named(tables: Tables, setting: str, value: str, message: str) -> None:
    name = tables.make(9, properties={f"{KEY}{setting}": value})
    with pytest.raises(HiveError, match=f"Hudi table {name}: {KEY}{setting}.*{message}"):
        tables.engine.query(f"SELECT * FROM {name}", settings=WITHOUT_TASKS)


# encryption and the secret


def test_connections_are_encrypted_and_both_sides_known(tables: Tables, tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    server, client = authority.sign(), authority.sign("hive")
    stores = {"hive": pkcs12(client.certificate, client.key), "stranger": pkcs12(*vars(stranger.sign("x")).values())}
    context = server_context(TlsFiles(server.certificate, server.key, client_ca=authority.certificate))
    password = tmp_path / "password"
    password.write_text("secret store\n")
    tls = {f"{KEY}tls": "true", f"{KEY}tls.ca": authority.certificate}
    known = {**tls, f"{KEY}tls.keystore": stores["hive"], f"{KEY}tls.keystore.password.file": str(password)}
    with fake_service(parquet_splits(str(tables.folder)), tls=context) as service:
        sql = f"SELECT id FROM {tables.make(service.port, properties=SOON)} WHERE k = 3 AND id < 10"
        assert asked_with(tables, sql, known) == [(3,)]
        calls = len(service.calls)
        refused = [
            {},
            tls,
            {**known, f"{KEY}tls.ca": stranger.certificate},
            {**known, f"{KEY}tls.keystore": stores["stranger"]},
            {**known, f"{KEY}tls.keystore.password.file": f"{tmp_path}/none"},
            {**known, f"{KEY}tls.ca": str(password)},
            {**known, f"{KEY}tls": "maybe"},
            {**known, f"{KEY}tls": "false"},
        ]
        for settings in refused:
            with pytest.raises(HiveError, match="Hudi table"):
                asked_with(tables, sql, settings)
        assert len(service.calls) == calls
    with fake_service(parquet_splits(str(tables.folder)), tls=other_name(authority)) as service:
        sql = f"SELECT id FROM {tables.make(service.port, properties=SOON)}"
        with pytest.raises(HiveError, match="Hudi table"):
            asked_with(tables, sql, tls)
        assert not service.calls


def asked_with(tables: Tables, sql: str, connection: Mapping[str, str]) -> list[tuple[Any, ...]]:
    """Rows of a query under settings of the connection, in the one session of these tests."""
    keys = ("tls", "tls.ca", "tls.keystore", "tls.keystore.password.file", "secret.file")
    with tables.engine.session({"hudicatalog.tests": "connections", **WITHOUT_TASKS}) as session:
        for key in keys:
            session.run(f"SET {KEY}{key}={connection.get(KEY + key, '')}")
        return session.query(sql)


def pkcs12(certificate: str, key: str) -> str:
    path = f"{certificate}.p12"
    names = ("-in", certificate, "-inkey", key, "-out", path, "-passout", "pass:secret store")
    subprocess.run(("openssl", "pkcs12", "-export", *names), check=True, capture_output=True)
    return path


def other_name(authority: Authority) -> ssl.SSLContext:
    """A server with a certificate of the right authority, for another host than the one that is asked."""
    names = Path(authority.certificate).parent
    config = names / "other.ext"
    config.write_text("subjectAltName=DNS:elsewhere.example\n")
    key, request, certificate = (f"{names}/other.{kind}" for kind in ("key", "csr", "pem"))
    made = ("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=elsewhere.example", "-keyout", key, "-out")
    subprocess.run((*made, request), check=True, capture_output=True)
    signed = ("-CA", authority.certificate, "-CAkey", authority.certificate.replace(".pem", ".key"), "-CAcreateserial")
    extended = ("-extfile", str(config), "-days", "1", "-in", request, "-out", certificate)
    subprocess.run(("openssl", "x509", "-req", *signed, *extended), check=True, capture_output=True)
    return server_context(TlsFiles(certificate, key))


def test_calls_are_signed_with_the_secret(tables: Tables, right: FakeService, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("a secret of Hive\n")
    file.chmod(0o600)
    name = tables.make(right.port)
    settings = {f"{KEY}secret.file": str(file)}
    asked_with(tables, f"SELECT * FROM {name} WHERE name = 'ü'", settings)
    assert [call.method for call in right.calls] == ["pin", "splits"]
    for call in right.calls:
        assert call.credential.signature == signature(b"a secret of Hive", call)
        assert abs(call.credential.time / 1000 - time.time()) < 60
        assert "secret" not in str(call.request.settings)
    asked_with(tables, f"SELECT * FROM {name}", {})
    assert "HUDI_CATALOG_SECRET" in os.environ or right.calls[-1].credential is None
    file.chmod(0o640)
    with pytest.raises(HiveError, match=f"Hudi table {name}: .*lets others than its owner use it"):
        asked_with(tables, f"SELECT * FROM {name}", settings)
    file.chmod(0o600)
    for wrong in ("short", None):
        if wrong:
            file.write_text(wrong)
        else:
            file.unlink()
        with pytest.raises(HiveError, match=f"Hudi table {name}: .*secret"):
            asked_with(tables, f"SELECT * FROM {name}", settings)


def signature(secret: bytes, call: Call) -> bytes:
    """As the contract says it is made."""
    method, credential = call.method.encode(), call.credential
    # the call: version and type, the method's name, a sequence number, the head of the first argument
    begin = 4 + 4 + len(method) + 4 + 3
    # after the request: the head of the credential, the heads and values of its three fields, and three stop bytes
    end = len(call.frame) - (3 + 3 + 8 + 3 + 4 + 32 + 3 + 4 + 16 + 2)
    signed = struct.pack(">q", credential.time) + credential.nonce + struct.pack(">i", len(method)) + method
    key = hmac.digest(secret, b"hudi-catalog 3", hashlib.sha256)
    return hmac.digest(key, signed + call.frame[begin:end], hashlib.sha256)
