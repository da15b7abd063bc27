"""What only services need is installed only with them."""

from __future__ import annotations

import importlib.util

from table_format.errors import OptionError

SERVICES = ("aiohttp", "prometheus_client", "thriftpy2")


def require_services(what: str) -> None:
    """Check that the libraries of services are installed.

    Args:
        what: wants them, such as a command.

    Raises:
        OptionError: one of them is not.
    """
    missing = [name for name in SERVICES if importlib.util.find_spec(name) is None]
    if missing:
        raise OptionError(f"{what} needs pip install 'hudi-catalog[services]' ({', '.join(missing)} missing)")
