"""Leaves the processor's vector registers as other libraries want to find them.

ISA-L's routines for AVX-512 (the package `isal`) return with the upper halves of these registers in use. On Intel's
processors each SSE instruction then waits for the one before it, until something clears the halves, and threads are
born in the state of the thread that starts them. Much of Arrow and NumPy is built for SSE: encoding 250,000 record keys
took 64 ms after a checksum by ISA-L, and 22 ms before it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import numpy as np

#: NumPy adds numbers by AVX, and clears the halves as compilers do. Fewer numbers than 16 are added by SSE.
_NUMBERS: Final = np.zeros(64)


@contextlib.contextmanager
def released() -> Iterator[None]:
    """Clear the upper halves of this thread's vector registers at the end, in half a microsecond."""
    try:
        yield
    finally:
        np.add(_NUMBERS, _NUMBERS, out=_NUMBERS)
