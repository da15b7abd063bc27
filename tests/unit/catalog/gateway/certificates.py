"""A certificate of this machine's names, made by openssl."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


def make_certificate(folder: Path) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    names = "subjectAltName=DNS:localhost,DNS:trino.test,IP:127.0.0.1"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"), "-addext", names]
    subprocess.run([*command, *files], check=True, capture_output=True)
    return folder


def server_side(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def client_side(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=folder / "cert.pem")
