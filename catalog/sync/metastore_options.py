"""Options of connections to a Hive Metastore, typed and checked once; values are named as PyHive names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.option_values import flag, known_options, seconds
from table_format.errors import OptionError

AUTH = "hoodie.catalog.metastore.auth"
KERBEROS_SERVICE = "hoodie.catalog.metastore.kerberos.service.name"
KERBEROS_HOST = "hoodie.catalog.metastore.kerberos.host"
USERNAME = "hoodie.catalog.metastore.username"
PASSWORD_FILE = "hoodie.catalog.metastore.password.file"  # noqa: S105  # a key
TLS = "hoodie.catalog.metastore.tls"
TLS_CA = "hoodie.catalog.metastore.tls.ca"
TLS_CERTIFICATE = "hoodie.catalog.metastore.tls.certificate"
TLS_KEY = "hoodie.catalog.metastore.tls.key"
TIMEOUT = "hoodie.catalog.metastore.timeout.seconds"
KEYS = (
    AUTH,
    KERBEROS_SERVICE,
    KERBEROS_HOST,
    USERNAME,
    PASSWORD_FILE,
    TLS,
    TLS_CA,
    TLS_CERTIFICATE,
    TLS_KEY,
    TIMEOUT,
)

NOSASL, KERBEROS = "NOSASL", "KERBEROS"
PLAIN = ("NONE", "LDAP", "CUSTOM", "CONFIG", "PAM")
"""What names and passwords are sent for; the server's `metastore.authentication` says how it looks at them."""


@dataclass(frozen=True)
class MetastoreOptions:
    """How a Hive Metastore is connected to.

    Attributes:
        auth: `NOSASL` for connections without authentication, `KERBEROS`, or one of `NONE`, `LDAP`, `CUSTOM`, `CONFIG`
            and `PAM`, which all send a name and a password; `hoodie.catalog.metastore.auth`.
        kerberos_service: first part of the server's principal; `hoodie.catalog.metastore.kerberos.service.name`.
        kerberos_host: second part of it; None for the host that is connected to;
            `hoodie.catalog.metastore.kerberos.host`.
        username: None for that of the process; `hoodie.catalog.metastore.username`.
        password: from a file; not shown; `hoodie.catalog.metastore.password.file`.
        tls: whether connections are encrypted; `hoodie.catalog.metastore.tls`.
        tls_ca: PEM file that signs the server's certificate; None for the system's; `hoodie.catalog.metastore.tls.ca`.
        tls_certificate: PEM file of the client's; None for none; `hoodie.catalog.metastore.tls.certificate`.
        tls_key: PEM file of its key, if it is not in the same file; `hoodie.catalog.metastore.tls.key`.
        timeout: seconds to wait for a connection, and for each answer; `hoodie.catalog.metastore.timeout.seconds`.
    """

    auth: str = NOSASL
    kerberos_service: str = "hive"
    kerberos_host: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    timeout: float = 30.0

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> MetastoreOptions:
        """Options by their keys.

        Raises:
            OptionError: an unknown key, a value that does not fit it, or options that do not go together.
        """
        values = known_options(options, KEYS, "a Hive Metastore")
        auth = values.get(AUTH, NOSASL).upper()
        if auth not in (NOSASL, KERBEROS, *PLAIN):
            raise OptionError(f"{AUTH}: {values[AUTH]!r} is none of {', '.join((NOSASL, KERBEROS, *PLAIN))}")
        _check_together(values, auth)
        return cls(
            auth=auth,
            kerberos_service=values.get(KERBEROS_SERVICE) or cls.kerberos_service,
            kerberos_host=values.get(KERBEROS_HOST) or None,
            username=values.get(USERNAME) or None,
            password=_password(values.get(PASSWORD_FILE)),
            tls=flag(values, TLS),
            tls_ca=values.get(TLS_CA) or None,
            tls_certificate=values.get(TLS_CERTIFICATE) or None,
            tls_key=values.get(TLS_KEY) or None,
            timeout=seconds(values, TIMEOUT, cls.timeout, 0.001),
        )


def _check_together(values: Mapping[str, str], auth: str) -> None:
    """Refuse what would be left unused: a password that nobody asks for is one that somebody believes in."""
    wants_password = auth in PLAIN and auth != "NONE"
    if wants_password and not values.get(PASSWORD_FILE):
        raise OptionError(f"{AUTH}={auth} needs {PASSWORD_FILE}")
    if not wants_password and PASSWORD_FILE in values:
        raise OptionError(f"{PASSWORD_FILE}: {AUTH}={auth} sends no password; leave it out, or give LDAP or CUSTOM")
    if auth not in PLAIN and USERNAME in values:
        raise OptionError(f"{USERNAME}: {AUTH}={auth} sends no name; leave it out")
    for key in (KERBEROS_SERVICE, KERBEROS_HOST):
        if key in values and auth != KERBEROS:
            raise OptionError(f"{key} is for {AUTH}=KERBEROS, not {auth}")
    for key in (TLS_CA, TLS_CERTIFICATE, TLS_KEY):
        if key in values and not flag(values, TLS):
            raise OptionError(f"{key} needs {TLS}=true")
    if TLS_KEY in values and TLS_CERTIFICATE not in values:
        raise OptionError(f"{TLS_KEY} needs {TLS_CERTIFICATE}")


def _password(path: str | None) -> str | None:
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read().strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{PASSWORD_FILE}: {path}: {getattr(error, 'strerror', None) or error}") from error
    if not text:
        raise OptionError(f"{PASSWORD_FILE}: {path} is empty")
    return text
