"""Options of connections to a Hive Metastore; values are named as in PyHive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hudi_catalog.server.security import read_private
from table_format.config.option_values import flag, known_options, seconds
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
METASTORE_KEYS = (
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

_PREFIX = "hoodie.catalog.metastore."
NOSASL, KERBEROS = "NOSASL", "KERBEROS"
PLAIN = ("NONE", "LDAP", "CUSTOM", "CONFIG")
"""Methods that send a name and a password; the server's `metastore.authentication` says how it checks them."""
_AUTHS = (NOSASL, KERBEROS, *PLAIN)


@dataclass(frozen=True)
class MetastoreOptions:
    """How to connect to a Hive Metastore.

    Attributes:
        auth: `NOSASL` for connections without authentication, `KERBEROS`, or one of `NONE`, `LDAP`, `CUSTOM` and
            `CONFIG`, which all send a name and a password; `hoodie.catalog.metastore.auth`.
        kerberos_service: first part of the server's principal; None for `hive`;
            `hoodie.catalog.metastore.kerberos.service.name`.
        kerberos_host: second part of it; None for the server's host;
            `hoodie.catalog.metastore.kerberos.host`.
        username: None for that of the process; `hoodie.catalog.metastore.username`.
        password_file: a file that holds the password; `hoodie.catalog.metastore.password.file`.
        tls: whether connections are encrypted; `hoodie.catalog.metastore.tls`.
        tls_ca: PEM file that signs the server's certificate; None for the system's; `hoodie.catalog.metastore.tls.ca`.
        tls_certificate: PEM file of the client's; None for none; `hoodie.catalog.metastore.tls.certificate`.
        tls_key: PEM file of its key, if it is not in the same file; `hoodie.catalog.metastore.tls.key`.
        timeout: seconds to wait for a connection, and for each answer; `hoodie.catalog.metastore.timeout.seconds`.
    """

    auth: str = NOSASL
    kerberos_service: str | None = None
    kerberos_host: str | None = None
    username: str | None = None
    password_file: str | None = None
    tls: bool = False
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    timeout: float = 30.0

    @classmethod
    def parse(cls, options: Mapping[str, str] | None) -> MetastoreOptions:
        """Parse options by their keys.

        Raises:
            OptionError: an unknown key or an invalid value.
        """
        values = known_options(options, METASTORE_KEYS, "a Hive Metastore")
        auth = values.get(AUTH, NOSASL).upper()
        if auth not in _AUTHS:
            raise OptionError(f"{AUTH}: {values[AUTH]!r} is none of {', '.join(_AUTHS)}")
        return cls(
            auth=auth,
            kerberos_service=values.get(KERBEROS_SERVICE) or None,
            kerberos_host=values.get(KERBEROS_HOST) or None,
            username=values.get(USERNAME) or None,
            password_file=values.get(PASSWORD_FILE) or None,
            tls=flag(values, TLS),
            tls_ca=values.get(TLS_CA) or None,
            tls_certificate=values.get(TLS_CERTIFICATE) or None,
            tls_key=values.get(TLS_KEY) or None,
            timeout=seconds(values, TIMEOUT, cls.timeout, 0.001),
        )

    def check_together(self) -> None:
        """Refuse options that would have no effect: a password that is never sent gives false security.

        Raises:
            OptionError: options that exclude each other.
        """
        if self.wants_password and not self.password_file:
            raise OptionError(f"{AUTH}={self.auth} needs {PASSWORD_FILE}")
        unused = {
            PASSWORD_FILE: (not self.wants_password and self.password_file, f"{AUTH} of LDAP, CUSTOM or CONFIG"),
            USERNAME: (self.auth not in PLAIN and self.username, f"{AUTH} of {', '.join(PLAIN)}"),
            KERBEROS_SERVICE: (self.auth != KERBEROS and self.kerberos_service, f"{AUTH}=KERBEROS"),
            KERBEROS_HOST: (self.auth != KERBEROS and self.kerberos_host, f"{AUTH}=KERBEROS"),
            TLS_CA: (not self.tls and self.tls_ca, f"{TLS}=true"),
            TLS_CERTIFICATE: (not self.tls and self.tls_certificate, f"{TLS}=true"),
            TLS_KEY: (not (self.tls and self.tls_certificate) and self.tls_key, TLS_CERTIFICATE),
        }
        for key, (wrong, needed) in unused.items():
            if wrong:
                raise OptionError(
                    f"{key} goes with {needed}; there it is {self.auth}{', with TLS' if self.tls else ''}"
                )

    @property
    def wants_password(self) -> bool:
        """Whether the server checks a password."""
        return self.auth in PLAIN and self.auth != "NONE"

    def password(self) -> str | None:
        """The password; None if there is none.

        Raises:
            OptionError: the file cannot be read, is empty, or is readable by other users.
        """
        path = self.password_file
        if path is None:
            return None
        try:
            text = read_private(path, f"{PASSWORD_FILE}:").decode("utf-8").strip("\r\n")
        except UnicodeDecodeError as error:
            raise OptionError(f"{PASSWORD_FILE}: {path}: {error}") from error
        if not text:
            raise OptionError(f"{PASSWORD_FILE}: {path} is empty")
        return text


def split_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Options of the metastore, and all others."""
    own = {key: value for key, value in options.items() if key.startswith(_PREFIX)}
    return own, {key: value for key, value in options.items() if key not in own}
