"""Files whose opening blocks, as on a mount whose server is down."""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def hung(path: Path) -> Iterator[None]:
    """For the time of a `with` block an `open` of the file waits, in this process and others; `stat` does not.

    It is a lease on the file (fcntl(2)), which the kernel breaks after 45 seconds at the earliest.
    """
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # by which the kernel asks for the lease
    handle = os.open(path, os.O_RDWR)
    try:
        try:
            fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as error:
            pytest.skip(f"no leases on this file system: {error}")
        yield
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    finally:
        os.close(handle)
        signal.signal(signal.SIGIO, before)
