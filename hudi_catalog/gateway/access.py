"""Who may use the gateway: clients that name the shared secret, when there is one."""

from __future__ import annotations

import re

from aiohttp import web
from multidict import CIMultiDict

from hudi_catalog.gateway.relay import refusal
from hudi_catalog.gateway.statement_headers import take_credential
from hudi_catalog.server.security import Secret

CREDENTIAL = "hudi-catalog-secret"
# Requests without the credential, as Trino's clients send extra credentials with the statement only. The path of a
# query's next rows, and of spooled rows, holds a key that nobody but its client was told; the others give away nothing.
# No dot, percent sign or semicolon may stand in them: a path that means another one to Trino is not let through here.
_OPEN = re.compile(
    r"/v1/statement/(?:queued|executing)/\w+/\w{16,}/\d+"
    r"|/v1/statement/executing/partialCancel/\w+/\d+/\w{16,}/\d+"
    r"|/v1/spooled/[a-z]+/[\w=~-]{16,}(?:/[\w=~-]+)?"
    r"|/v1/info(?:/state)?"
    r"|/oauth2/[\w/-]*",
    re.ASCII,
)


class Access:
    """Asks for the secret.

    Args:
        secret: None to let everybody in.
    """

    def __init__(self, secret: Secret | None) -> None:
        self._secret = secret

    def refused(self, path: str, headers: CIMultiDict[str]) -> web.Response | None:
        """The answer to a client that may not; None for one that may.

        The credential is taken out of the headers: neither Trino nor its connectors get to see it.
        """
        given = take_credential(headers, CREDENTIAL)
        if self._secret is None or _OPEN.fullmatch(path):
            return None
        if given and all(self._secret.equals(value) for value in given):
            return None
        what = "is not the one of this gateway" if given else "is missing"
        hint = "--extra-credential hudi-catalog-secret=… (Trino CLI), extraCredentials=hudi-catalog-secret:… (JDBC)"
        return refusal(
            401,
            f"the extra credential {CREDENTIAL} {what}; {hint}",
            {"WWW-Authenticate": f'{CREDENTIAL} realm="the extra credential {CREDENTIAL} {what}"'},
        )
