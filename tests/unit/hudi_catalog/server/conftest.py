"""The service's messages, and calls as Trino makes them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hudi_catalog.server.thrift_calls import load_service
from tests.support.framed_client import Gate
from tests.support.served_folders import build_trips

ROOT = Path(__file__).parents[4]
IDL = str(ROOT / "hudi_catalog/trino/trino_thrift_service.thrift")
TO_PRESTO = {"trino": "presto", "Trino": "Presto"}


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table `trips`, to be copied."""
    folder = tmp_path_factory.mktemp("built")
    build_trips(folder)
    return folder / "trips"


@pytest.fixture(scope="session")
def service() -> ModuleType:
    return load_service(IDL)


@pytest.fixture(scope="session")
def recorded() -> list[bytes]:
    """Calls that Trino 476 made, for queries with all kinds of conditions and for index joins."""
    text = (Path(__file__).parent / "trino_calls.json").read_text()
    return [bytes.fromhex(frame) for frame in json.loads(text)]


@pytest.fixture(scope="session")
def written(service: ModuleType) -> Callable[..., bytes]:
    """Calls as thriftpy2 writes them."""
    from thriftpy2.protocol import TBinaryProtocol
    from thriftpy2.transport import TMemoryBuffer

    def write(name: str, sequence: int = 1, kind: int = 1, of: Any = None, **arguments: Any) -> bytes:
        module = of or service
        owner = module.__thrift_meta__["services"][0]
        buffer = TMemoryBuffer()
        protocol = TBinaryProtocol(buffer)
        protocol.write_message_begin(name, kind, sequence)
        protocol.write_struct(getattr(owner, f"{name}_args")(**arguments))
        return bytes(buffer.getvalue())

    return write
