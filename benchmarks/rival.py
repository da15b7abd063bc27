"""Apache Hudi, as the benchmarks run it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.support.apache_hudi_client import ApacheHudi

RIVAL = "1.2.0"
PATIENCE = 3600  # seconds of one command: a busy machine makes a benchmark long, not wrong


@contextlib.contextmanager
def apache_session(folder: Path) -> Iterator[ApacheHudi]:
    """The release in a Spark session of its own; its files go into the folder."""
    with contextlib.closing(ApacheHudi(RIVAL, folder, patience=PATIENCE)) as session:
        yield session
