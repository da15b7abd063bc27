"""Calls of Trino's Thrift connector: what thriftpy2 writes is read unchanged, and damage is an error or harmless."""

import json
import struct
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.transport import TMemoryBuffer

from hudi_catalog.server.thrift_calls import Call, MessageError, encode_refusal, load_service, read_call

ROOT = Path(__file__).parents[2]
SERVICE: Any = load_service(str(ROOT / "hudi_catalog/trino/trino_thrift_service.thrift"))
RECORDED = [
    bytes.fromhex(frame) for frame in json.loads((ROOT / "tests/unit/hudi_catalog/server/trino_calls.json").read_text())
]
_NUMBERS = {3: 8, 6: 16, 8: 32, 10: 64}


def values(kind: int, spec: Any, depth: int) -> st.SearchStrategy[Any]:
    """Values of a type, as thriftpy2 writes types down."""
    if kind in _NUMBERS:
        if hasattr(spec, "_VALUES_TO_NAMES"):
            return st.sampled_from(sorted(spec._VALUES_TO_NAMES))
        edge = 2 ** (_NUMBERS[kind] - 1)
        return st.integers(-edge, edge - 1)
    if kind == 12:
        return structs(spec, depth)
    if kind in (15, 14):
        inner = spec if isinstance(spec, tuple) else (spec, None)
        return st.lists(values(*inner, depth), max_size=3)
    if kind == 13:
        key, value = (one if isinstance(one, tuple) else (one, None) for one in spec)
        return st.dictionaries(values(*key, depth), values(*value, depth), max_size=3)
    return {2: st.booleans(), 4: st.floats(allow_nan=False), 11: st.text(max_size=5), 18: st.binary(max_size=9)}[kind]


def structs(kind: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    fields = {}
    for declared, name, *more in kind.thrift_spec.values():
        spec, required = (more[0], more[1]) if len(more) > 1 else (None, more[0])
        if required or depth < 12:
            members = values(declared, spec, depth + 1)
            fields[name] = members if required else st.none() | members
    return st.builds(kind, **fields)


def written(name: str, sequence: int, arguments: Any) -> bytes:
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.write_message_begin(name, 1, sequence)
    protocol.write_struct(arguments)
    return bytes(buffer.getvalue())


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, int, Any]:
    name = draw(st.sampled_from(SERVICE.TrinoThriftService.thrift_services))
    arguments = draw(structs(getattr(SERVICE.TrinoThriftService, f"{name}_args")))
    return name, draw(st.integers(-(2**31), 2**31 - 1)), arguments


@given(calls())
def test_calls_are_read_as_they_were_written(call: tuple[str, int, Any]) -> None:
    assert read_call(SERVICE, written(*call)) == Call(*call)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A call of Trino with some bytes changed, moved, left out or put in."""
    frame = bytearray(draw(st.sampled_from(RECORDED)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(frame) - 1)))
        new = draw(
            st.binary(max_size=4)
            | st.sampled_from([struct.pack(">i", value) for value in (-1, 2**31 - 1, -(2**31), 1 << 24)])
        )
        frame[at : at + draw(st.sampled_from([0, 1, len(new), len(new), len(new), 9]))] = new
    return bytes(frame)


@given(damaged() | st.binary(max_size=200))
@example(b"")
@example(b"\x80\x01\x00\x01")
def test_damage_is_an_error_or_another_call(frame: bytes) -> None:
    try:
        call = read_call(SERVICE, frame)
    except MessageError as error:
        assert len(str(error)) < 1_000  # noqa: PT017
    else:
        # What is read has all of its parts, so that it can be written again and be read as the same.
        again = written(call.name, call.sequence, call.arguments)
        assert written(*_parts(read_call(SERVICE, again))) == again
    refusal = encode_refusal(frame[:300], "no")
    assert refusal is None or refusal.startswith(b"\x80\x01\x00\x03")


def _parts(call: Call) -> tuple[str, int, Any]:
    return call.name, call.sequence, call.arguments


@given(st.sampled_from(RECORDED), st.data())
def test_a_changed_size_never_passes_for_a_shorter_list(frame: bytes, data: st.DataObject) -> None:
    """Were a list of ranges or keys read as a shorter one, rows would be lost."""
    call = read_call(SERVICE, frame)
    at = data.draw(st.integers(0, len(frame) - 5))
    size = struct.unpack_from(">i", frame, at)[0]
    if not 1 <= size <= 100:
        return
    smaller = frame[:at] + struct.pack(">i", size - 1) + frame[at + 4 :]
    try:
        message = read_call(SERVICE, smaller)
    except MessageError:
        return
    # A number that was not a size of anything.
    assert len(written(*_parts(message))) == len(written(*_parts(call)))
