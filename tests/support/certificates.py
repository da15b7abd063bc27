"""Certificates for tests, made by the openssl program."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Signed:
    """A certificate and its key."""

    certificate: str
    key: str


class Authority:
    """Signs certificates of servers and clients for a day.

    Args:
        folder: where files go.
        name: of the authority.
    """

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate, self._key = f"{folder}/{name}.pem", f"{folder}/{name}.key"
        self._name = name
        self._signed = 0
        _openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={name}",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",
            "-keyout", self._key, "-out", self.certificate,
        )  # fmt: skip

    def sign(self, name: str = "localhost", *, password: str | None = None, days: int = 1) -> Signed:
        """A certificate for a name of a host, and for 127.0.0.1, which expires at once for 0 days.

        The key is encrypted if there is a password.
        """
        self._signed += 1
        stem = f"{self._folder}/{self._name}-{self._signed}-{name}"
        secret = ["-nodes"] if password is None else ["-passout", f"pass:{password}"]
        _openssl(
            "req", "-newkey", "rsa:2048", *secret, "-subj", f"/CN={name}",
            "-keyout", f"{stem}.key", "-out", f"{stem}.csr",
        )  # fmt: skip
        Path(f"{stem}.ext").write_text(f"subjectAltName=DNS:{name},IP:127.0.0.1\n")
        _openssl(
            "x509", "-req", "-days", str(days), "-in", f"{stem}.csr", "-CA", self.certificate, "-CAkey", self._key,
            "-CAcreateserial", "-extfile", f"{stem}.ext", "-out", f"{stem}.pem",
        )  # fmt: skip
        return Signed(f"{stem}.pem", f"{stem}.key")


def self_signed(folder: Path) -> Path:
    """`cert.pem` and `key.pem` of this machine's names in a folder; clients trust the certificate itself."""
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    _openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test", "-addext", names,
        "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem",
    )  # fmt: skip
    return folder


def server_side(folder: Path) -> ssl.SSLContext:
    """Of a server with the folder's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def client_side(folder: Path) -> ssl.SSLContext:
    """Of a client that trusts the folder's certificate."""
    return ssl.create_default_context(cafile=folder / "cert.pem")


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
