"""The shared secret and its signatures."""

import hashlib
import hmac
import os
from pathlib import Path

import pytest

from hudi_catalog.server.security import ENVIRONMENT, READABLE, SIGNATURE_BYTES, Secret, load_secret
from table_format.errors import OptionError

VALUE = "0123456789abcdef-ä"


def test_a_secret_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    path.write_text(f"\n  {VALUE}\n")
    path.chmod(0o600)
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert load_secret() is None
    from_file = load_secret(str(path))
    monkeypatch.setenv(ENVIRONMENT, VALUE)
    from_environment = load_secret()
    assert from_file is not None
    assert from_environment is not None
    assert from_file.sign(b"x") == from_environment.sign(b"x")
    # the file counts more
    path.write_text("another secret, quite long")
    assert load_secret(str(path)).equals("another secret, quite long")  # type: ignore[union-attr]


@pytest.mark.parametrize("value", ["", "tiny", "0123456789abcde", "   0123456789abcde  \n"])
def test_a_short_secret_is_refused_wherever_it_comes_from(value: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(value)
    path.chmod(0o600)
    for arguments in ((str(path), {}), (None, {ENVIRONMENT: value})):
        with pytest.raises(OptionError, match=r"a secret of \d+ bytes; it must have at least 16") as caught:
            load_secret(*arguments)
        assert not value or value not in str(caught.value)


@pytest.mark.parametrize("value", [bytes(range(200, 232)), b"0123456789\nabcdef", b"0123456789\0abcdef", b"\xff" * 20])
def test_a_secret_is_a_line_of_text(value: bytes, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(value)
    path.chmod(0o600)
    for arguments in ((str(path), {}), (None, {ENVIRONMENT: os.fsdecode(value)})):
        with pytest.raises(OptionError, match="one line of printable text in UTF-8, such as `openssl rand -hex 32`"):
            load_secret(*arguments)


def test_a_file_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="missing: No such file"):
        load_secret(str(tmp_path / "missing"))
    with pytest.raises(OptionError, match="Is a directory"):
        load_secret(str(tmp_path))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o777])
def test_a_file_that_others_may_use_is_refused_unless_that_is_allowed(mode: int, tmp_path: Path) -> None:
    mounted, path = tmp_path / "..data", tmp_path / "secret"
    mounted.write_text(VALUE)
    mounted.chmod(mode)
    path.symlink_to(mounted)  # as Kubernetes mounts secrets: what it leads to counts
    for no in ({}, {READABLE: "false"}):
        with pytest.raises(OptionError, match=rf"secret file .*secret: its mode {mode:04o} lets others .*chmod 600"):
            load_secret(str(path), no)
    allowed = load_secret(str(path), {READABLE: "true"})
    assert allowed is not None
    assert allowed.equals(VALUE)
    mounted.chmod(0o400)
    assert load_secret(str(path), {}) is not None


def test_only_the_secret_equals_it() -> None:
    secret = Secret(VALUE.encode())
    assert secret.equals(VALUE)
    assert secret.equals(VALUE.encode())
    for other in ("", VALUE[:-1], VALUE + " ", VALUE.upper(), "\udcff"):
        assert not secret.equals(other)


def test_signatures_are_those_of_hmac() -> None:
    signature = Secret(b"key").sign(b"payload")
    assert signature == hmac.new(b"key", b"payload", hashlib.sha256).digest()
    assert len(signature) == SIGNATURE_BYTES


def test_any_change_breaks_a_signature() -> None:
    secret = Secret(VALUE.encode())
    signature = secret.sign(b"payload")
    assert secret.verify(b"payload", signature)
    for bit in range(8 * len(signature)):
        forged = bytearray(signature)
        forged[bit // 8] ^= 1 << bit % 8
        assert not secret.verify(b"payload", bytes(forged))
    assert not secret.verify(b"payloae", signature)
    assert not secret.verify(b"payload", signature[:-1])
    assert not secret.verify(b"payload", b"")
    assert not Secret(b"x" + VALUE.encode()).verify(b"payload", signature)


def test_signatures_of_one_purpose_are_not_valid_for_another() -> None:
    secret = Secret(VALUE.encode())
    splits, tokens = secret.for_purpose("split"), secret.for_purpose("token")
    assert splits.verify(b"x", splits.sign(b"x"))
    assert not tokens.verify(b"x", splits.sign(b"x"))
    assert not secret.verify(b"x", splits.sign(b"x"))
    # a purpose is of the secret, not of the purpose before
    assert splits.for_purpose("token").verify(b"x", tokens.sign(b"x"))


def test_random_secrets_differ_and_no_secret_is_printed() -> None:
    assert Secret.random().sign(b"x") != Secret.random().sign(b"x")
    assert VALUE not in repr(Secret(VALUE.encode()))
