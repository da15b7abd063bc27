"""The contract by which our own code in engines asks the services: `hudi_catalog.thrift`, which says what is signed.

Hive's storage handler and Trino's connector both speak it. A call holds a struct with a version and, where the service
asks for its secret, a credential.
"""

from __future__ import annotations

import functools
import posixpath
from types import ModuleType
from typing import Final

from hudi_catalog.server.admission import keep_encoded
from hudi_catalog.server.thrift_calls import load_service

IDL: Final = "hudi_catalog.thrift"
#: The newest version of the contract.
VERSION: Final = 3
#: What the shared secret signs for.
PURPOSE: Final = f"hudi-catalog {VERSION}"
#: The methods that Hive's storage handler calls.
HIVE_METHODS: Final = frozenset(("pin", "splits", "statistics"))
#: The methods that Trino's connector calls begin with it, and none of the Thrift connectors'.
TRINO_METHODS: Final = "hudi"


@functools.cache
def own_service() -> ModuleType:
    """The contract's structs and its service; a request that was read has its raw bytes in `encoded`."""
    service = load_service(posixpath.join(posixpath.dirname(__file__), IDL))
    for kind in (service.ScanRequest, service.ConnectorRequest):
        keep_encoded(kind)
    return service
