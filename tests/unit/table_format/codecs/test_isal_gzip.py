"""HFile blocks are read and written without leaving the upper halves of the vector registers in use."""

import ctypes
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from isal import isal_zlib

from table_format.codecs import isal_gzip
from table_format.hfile.block import DATA, read_block, read_stored_block, write_block

#: Bit of XINUSE for the upper halves of the AVX registers.
_UPPER_HALVES = 1 << 2
_CPU = Path("/proc/cpuinfo")
_CONTENT = os.urandom(100_000) + bytes(100_000)


@pytest.fixture
def in_use() -> Iterator[Callable[[], bool]]:
    """Ask the processor: `mov ecx, 1; xgetbv; ret` gives the parts of the registers that are in use.

    Where a processor has no such instruction, nothing is ever in use.
    """
    if not _CPU.exists() or " xgetbv1 " not in _CPU.read_text():
        yield lambda: False
        return
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb9\x01\x00\x00\x00\x0f\x01\xd0\xc3")
    start = ctypes.c_char.from_buffer(page)
    ask = ctypes.CFUNCTYPE(ctypes.c_uint32)(ctypes.addressof(start))
    yield lambda: bool(ask() & _UPPER_HALVES)
    del start
    page.close()


def test_blocks_leave_nothing_in_use(in_use: Callable[[], bool]) -> None:
    with isal_gzip.registers_released():
        np.sort(np.arange(1000.0))
    at_rest = in_use()  # processors that do not keep count always say the same
    for stored in (False, True):
        block = write_block(DATA, _CONTENT, -1, "GZ", stored=stored)
        assert in_use() == at_rest
        for read in (read_block, read_stored_block):
            assert bytes(read(memoryview(block), 0, "x", 1, (DATA,))) == _CONTENT
            assert in_use() == at_rest


def test_an_error_leaves_nothing_in_use(in_use: Callable[[], bool]) -> None:
    with isal_gzip.registers_released():
        np.sort(np.arange(1000.0))
    at_rest = in_use()

    def fail() -> None:
        with isal_gzip.registers_released():
            isal_zlib.crc32(_CONTENT)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert in_use() == at_rest
