"""Calls that Trino made are understood, replies are read by thriftpy2, and whatever is malformed is one error."""

import struct
import tracemalloc
from io import BytesIO
from typing import Any

import pytest
from thriftpy2.protocol import TBinaryProtocol
from thriftpy2.thrift import TApplicationException
from thriftpy2.transport import TMemoryBuffer

from hudi_catalog.server import thrift_calls as messages
from hudi_catalog.server.thrift_calls import MessageError, load_service, read_call
from table_format.errors import ServiceError
from tests.support.work import function_calls
from tests.unit.hudi_catalog.server.conftest import IDL, TO_PRESTO

NAME = struct.pack(">II", 0x80010001, 14) + b"trinoGetSplits" + struct.pack(">i", 7)
ROWS = struct.pack(">II", 0x80010001, 12) + b"trinoGetRows" + struct.pack(">i", 8)
TABLES = struct.pack(">II", 0x80010001, 15) + b"trinoListTables" + struct.pack(">i", 9)


def of_thriftpy2(service: Any, frame: bytes) -> tuple[str, int, Any]:
    protocol = TBinaryProtocol(TMemoryBuffer(frame))
    name, _, sequence = protocol.read_message_begin()
    arguments = getattr(service.TrinoThriftService, f"{name}_args")()
    protocol.read_struct(arguments)
    return name, sequence, arguments


def test_calls_of_trino_are_read_as_thriftpy2_reads_them(service, recorded) -> None:
    assert len(recorded) >= 20
    for frame in recorded:
        call = read_call(service, frame)
        assert (call.name, call.sequence, call.arguments) == of_thriftpy2(service, frame)
    assert {read_call(service, frame).name for frame in recorded} == set(service.TrinoThriftService.thrift_services)


def test_a_domain_of_trino_has_its_values(service, recorded) -> None:
    calls = [read_call(service, frame) for frame in recorded]
    domains = [call.arguments.outputConstraint.domains for call in calls if call.name == "trinoGetSplits"]
    assert domains[0] == {}
    domain = next(each for each in domains if set(each) == {"a", "i", "d", "s", "dt", "ts", "b"})
    ranges = domain["a"].valueSet.rangeValueSet.ranges
    assert [one.low.value.bigintData.longs for one in ranges] == [[1], [2], [9223372036854775807]]
    text = domain["s"].valueSet.rangeValueSet.ranges[0].low.value.varcharData
    assert (text.bytes, text.sizes) == ("ä€".encode(), [5])
    assert domain["b"].valueSet.rangeValueSet.ranges[0].low.value.booleanData.booleans == [True]
    assert domain["ts"].valueSet.rangeValueSet.ranges[0].low.bound == service.TrinoThriftBound.ABOVE
    assert domain["i"].nullAllowed is False


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_any_call_of_trino_cut_short_is_an_error(service, recorded, cut: int) -> None:
    for frame in recorded:
        if cut < len(frame):
            with pytest.raises(MessageError):
                read_call(service, frame[:cut])


def test_more_bytes_after_the_end_are_an_error(service, recorded) -> None:
    for frame in recorded:
        with pytest.raises(MessageError, match="1 more bytes after the end"):
            read_call(service, frame + b"\0")


def test_presto_has_the_same_methods_and_structs_under_its_name(written) -> None:
    presto = load_service(IDL, rename=TO_PRESTO)
    assert presto.PrestoThriftService.thrift_services[0] == "prestoListSchemaNames"
    name = presto.PrestoThriftSchemaTableName("s", "t")
    frame = written("prestoGetTableMetadata", 3, of=presto, schemaTableName=name)
    call = read_call(presto, frame)
    assert (call.name, call.sequence, call.arguments.schemaTableName) == ("prestoGetTableMetadata", 3, name)
    with pytest.raises(MessageError, match="no method trinoListSchemaNames"):
        read_call(presto, written("trinoListSchemaNames"))


def test_two_loads_have_structs_of_their_own(service) -> None:
    assert load_service(IDL).TrinoThriftId is not service.TrinoThriftId


def test_replies_are_read_by_thriftpy2(service, written) -> None:
    call = read_call(service, written("trinoListSchemaNames", 77))
    protocol = TBinaryProtocol(TMemoryBuffer(messages.encode_reply(service, call, ["a", "ä"])))
    assert protocol.read_message_begin() == ("trinoListSchemaNames", 2, 77)
    result = service.TrinoThriftService.trinoListSchemaNames_result()
    protocol.read_struct(result)
    assert (result.success, result.ex1) == (["a", "ä"], None)


def test_a_failure_is_the_exception_that_the_method_declares(service, written) -> None:
    call = read_call(service, written("trinoListSchemaNames", -5))
    failure = service.TrinoThriftServiceException("no luck", True)
    protocol = TBinaryProtocol(TMemoryBuffer(messages.encode_failure(service, call, failure)))
    assert protocol.read_message_begin() == ("trinoListSchemaNames", 2, -5)
    result = service.TrinoThriftService.trinoListSchemaNames_result()
    protocol.read_struct(result)
    assert (result.success, result.ex1.message, result.ex1.retryable) == (None, "no luck", True)
    with pytest.raises(ServiceError, match="declares no MessageError"):
        messages.encode_failure(service, call, MessageError("x", 1))


def test_a_raw_reply_is_one_that_thriftpy2_would_write(service, written) -> None:
    call = read_call(service, written("trinoGetRows", 12, **rows_arguments(service)))
    page = service.TrinoThriftPageResult([], 5, service.TrinoThriftId(b"\x00\xff"))
    buffer = TMemoryBuffer()
    TBinaryProtocol(buffer).write_struct(page)
    raw = messages.raw_reply_head(call.name, call.sequence) + buffer.getvalue() + messages.RAW_REPLY_TAIL
    assert raw == messages.encode_reply(service, call, page)


def rows_arguments(service: Any) -> dict[str, Any]:
    token = service.TrinoThriftNullableToken()
    return {"splitId": service.TrinoThriftId(b"s"), "columns": [], "maxBytes": 1, "nextToken": token}


def application_error(frame: bytes) -> tuple[str, int, int, str]:
    protocol = TBinaryProtocol(TMemoryBuffer(frame))
    name, kind, sequence = protocol.read_message_begin()
    assert kind == 3
    error = TApplicationException()
    protocol.read_struct(error)
    return name, sequence, error.type, error.message


def test_errors_before_the_method_are_application_errors(service, written) -> None:
    with pytest.raises(MessageError) as caught:
        read_call(service, written("trinoListSchemaNames", 4)[:-1])
    reply = messages.encode_message_error(caught.value)
    assert reply is not None
    name, sequence, kind, text = application_error(reply)
    assert (name, sequence, kind) == ("trinoListSchemaNames", 4, messages.PROTOCOL_ERROR)
    assert "ends within a value" in text
    assert messages.encode_message_error(MessageError("who knows", 7)) is None


def test_a_long_error_is_cut(service) -> None:
    reply = messages.encode_application_error("m", 1, messages.INTERNAL_ERROR, "x" * 1_000_000)
    assert len(application_error(reply)[3]) == 10_000


def test_the_beginning_of_a_call_is_enough_to_refuse_it(recorded) -> None:
    reply = messages.encode_refusal(recorded[1][:40], "too long")
    assert reply is not None
    assert application_error(reply)[0::2] == ("trinoGetSplits", messages.INTERNAL_ERROR)
    assert messages.encode_refusal(b"GET / HTTP/1.1\r\n", "what?") is None


@pytest.mark.parametrize(
    ("frame", "kind", "message"),
    [
        (b"", messages.PROTOCOL_ERROR, "0 bytes is not a message"),
        (b"GET / HTTP/1.1\r\n\r\n", messages.PROTOCOL_ERROR, "begins with 47455420: no strict binary protocol"),
        (
            bytes.fromhex("0fff00000000") + bytes(20),
            messages.PROTOCOL_ERROR,
            "a Thrift header; set the client's transport",
        ),
        (
            bytes.fromhex("8221010c") + bytes(20),
            messages.PROTOCOL_ERROR,
            "the compact protocol; set the client's proto",
        ),
        (b"\x00\x00\x00\x01x\x01" + bytes(20), messages.PROTOCOL_ERROR, "no strict binary protocol"),
        (struct.pack(">II", 0x80010001, 0xFFFFFFFF) + bytes(9), messages.PROTOCOL_ERROR, "name of 4294967295 bytes"),
        (struct.pack(">II", 0x80010001, 2) + b"\xff\xfe" + bytes(5), messages.PROTOCOL_ERROR, "not UTF-8"),
        (struct.pack(">II", 0x80010002, 1) + b"x" + bytes(5), messages.INVALID_MESSAGE_TYPE, "type 2"),
        (struct.pack(">II", 0x80010004, 1) + b"x" + bytes(5), messages.INVALID_MESSAGE_TYPE, "only calls"),
        (struct.pack(">II", 0x80010001, 5) + b"other" + bytes(5), messages.UNKNOWN_METHOD, "no method other"),
        (struct.pack(">II", 0x80010001, 8) + b"__init__" + bytes(5), messages.UNKNOWN_METHOD, "no method __init__"),
    ],
)
def test_frames_that_are_no_calls(service, frame: bytes, kind: int, message: str) -> None:
    with pytest.raises(MessageError, match=message) as caught:
        read_call(service, frame)
    assert caught.value.kind == kind


def field(kind: int, number: int) -> bytes:
    return struct.pack(">bh", kind, number)


def listed(kind: int, count: int) -> bytes:
    return struct.pack(">bi", kind, count)


SPLIT = field(12, 1) + field(11, 1) + struct.pack(">i", 1) + b"s\0"


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        # As a list of other elements, thriftpy2 would take it for an empty list.
        (ROWS + SPLIT + field(15, 2) + listed(10, 1) + bytes(9), "a list of i64 instead of string"),
        (ROWS + SPLIT + field(15, 2) + listed(99, 1) + bytes(9), "a list of type 99, which does not exist"),
        # As another type of field, thriftpy2 would pass over it.
        (ROWS + field(8, 1) + bytes(9), "trinoGetRows_args.splitId is a i32 instead of a struct"),
        (ROWS + SPLIT + SPLIT, "has splitId twice"),
        (ROWS + b"\0", "trinoGetRows_args without splitId"),
        (ROWS + field(12, 1) + b"\0\0", "TrinoThriftId without id"),
        (ROWS + SPLIT + field(15, 2) + listed(11, 1) + struct.pack(">i", 2) + b"\xc3(", "a string that is not UTF-8"),
        (ROWS + SPLIT + field(15, 2) + listed(11, 1) + struct.pack(">i", -1) + bytes(9), "-1 bytes are announced"),
        (ROWS + field(12, 1) + field(11, 1) + struct.pack(">i", 2**31 - 1), "2147483647 bytes are announced and 0"),
        (ROWS + SPLIT + field(15, 2) + listed(11, -5), "-5 elements are announced"),
        (ROWS + SPLIT + field(15, 2) + listed(11, 2**31 - 1) + bytes(64), "2147483647 elements are announced and 64"),
        (ROWS + SPLIT + field(15, 2) + listed(11, 0) + field(10, 3) + b"\0\0", "ends within a value"),
        (TABLES + field(12, 1) + field(16, 9) + bytes(9), "a field of type 16, which does not exist"),
        (TABLES + field(12, 1) + field(15, 9) + listed(1, 2**31 - 1) + bytes(9), "elements are announced"),
        (TABLES + field(12, 1) + field(15, 9) + listed(1, 3) + bytes(9), "a field of type 1, which does not exist"),
        (TABLES + field(12, 1) + field(12, 9) * 1_000, "values nested deeper than 32"),
        (TABLES + field(12, 1) + field(15, 9) + listed(15, 1) * 1_000, "values nested deeper than 32"),
        (TABLES + field(12, 1) + field(10, 9) + b"\0\0", "ends within a value"),
        (TABLES + field(12, 1) + field(12, 9) + b"\x08", "ends within a value"),
    ],
)
def test_arguments_that_are_not_as_declared(service, frame: bytes, message: str) -> None:
    with pytest.raises(MessageError, match=message) as caught:
        read_call(service, frame)
    assert caught.value.sequence in {8, 9}


def domain_of(service: Any, mapped: bytes) -> bytes:
    """A call for splits whose constraint has these bytes for its map of domains."""
    table = field(12, 1) + field(11, 1) + bytes(4) + field(11, 2) + bytes(4) + b"\0"
    return NAME + table + field(12, 2) + b"\0" + field(12, 3) + field(13, 1) + mapped


@pytest.mark.parametrize(
    ("mapped", "message"),
    [
        (struct.pack(">bbi", 11, 8, 1) + bytes(20), "a map that is not of string to struct"),
        (struct.pack(">bbi", 11, 12, 1) + struct.pack(">i", 1) + b"a\0", "TrinoThriftDomain without valueSet"),
        (
            (struct.pack(">bbi", 11, 12, 1) + struct.pack(">i", 1) + b"a" + field(12, 1) + b"\0" + field(2, 2) + b"\2"),
            "2 is neither false",
        ),
    ],
)
def test_a_domain_that_is_not_as_declared(service, mapped: bytes, message: str) -> None:
    with pytest.raises(MessageError, match=message):
        read_call(service, domain_of(service, mapped))


def test_a_column_that_a_domain_names_twice_is_an_error(service) -> None:
    entry = struct.pack(">i", 1) + b"a" + field(12, 1) + b"\0" + field(2, 2) + b"\1\0"
    with pytest.raises(MessageError, match="a map with 'a' twice"):
        read_call(service, domain_of(service, struct.pack(">bbi", 11, 12, 2) + entry + entry))


def test_an_unknown_bound_is_an_error(service, written) -> None:
    marker = service.TrinoThriftMarker(None, 4)
    ranges = service.TrinoThriftRangeValueSet([service.TrinoThriftRange(marker, marker)])
    domain = service.TrinoThriftDomain(service.TrinoThriftValueSet(rangeValueSet=ranges), True)
    with pytest.raises(MessageError, match=r"4 is none of .*EXACTLY"):
        read_call(service, written("trinoGetSplits", **splits_arguments(service, {"a": domain})))


def splits_arguments(service: Any, domains: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "schemaTableName": service.TrinoThriftSchemaTableName("s", "t"),
        "desiredColumns": service.TrinoThriftNullableColumnSet(["a"]),
        "outputConstraint": service.TrinoThriftTupleDomain(domains),
        "maxSplitCount": 10,
        "nextToken": service.TrinoThriftNullableToken(),
    }


def test_fields_that_are_not_declared_are_passed_over(service, written) -> None:
    frame = written("trinoListTables", schemaNameOrNull=service.TrinoThriftNullableSchemaName("s"))
    unknown = b"".join(
        [
            field(2, 40) + b"\1",
            field(10, 41) + bytes(8),
            field(11, 42) + struct.pack(">i", 3) + b"abc",
            field(13, 43) + struct.pack(">bbi", 8, 4, 2) + bytes(24),
            field(13, 44) + struct.pack(">bbi", 11, 12, 1) + struct.pack(">i", 1) + b"k" + field(6, 1) + b"\0\0\0",
            field(15, 45) + listed(15, 1) + listed(3, 5) + b"12345",
            field(12, 46) + field(14, 1) + listed(11, 1) + bytes(4) + b"\0",
        ]
    )
    call = read_call(service, frame[:-1] + unknown + frame[-1:])
    assert call.arguments.schemaNameOrNull.schemaName == "s"


def test_a_small_frame_never_takes_much_memory_or_work(service) -> None:
    """A list of a million structs of one byte each would take a hundred times its bytes."""
    keys = field(12, 4) + field(15, 1) + listed(12, 600_000) + bytes(600_000)
    name = struct.pack(">II", 0x80010001, 19) + b"trinoGetIndexSplits" + struct.pack(">i", 7)
    table = field(12, 1) + field(11, 1) + bytes(4) + field(11, 2) + bytes(4) + b"\0"
    columns = field(15, 2) + listed(11, 0) + field(15, 3) + listed(11, 0)
    tracemalloc.start()
    frame = name + table + columns + keys
    with pytest.raises(MessageError, match="or 500,000 structs"):
        read_call(service, frame)
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()


@pytest.mark.slow
def test_three_thousand_ranges_are_read_soon(service, written) -> None:
    def marker(value: int) -> Any:
        block = service.TrinoThriftBlock(bigintData=service.TrinoThriftBigint(longs=[value]))
        return service.TrinoThriftMarker(block, service.TrinoThriftBound.EXACTLY)

    ranges = [service.TrinoThriftRange(marker(value), marker(value)) for value in range(3_000)]
    values = service.TrinoThriftValueSet(rangeValueSet=service.TrinoThriftRangeValueSet(ranges))
    arguments = splits_arguments(service, {"a": service.TrinoThriftDomain(values, False)})
    frame = written("trinoGetSplits", **arguments)
    call = read_call(service, frame)
    assert function_calls(read_call, service, frame) < 100 * 3_000
    assert call.arguments.outputConstraint == arguments["outputConstraint"]


def test_an_idl_file_must_be_there_and_have_one_service(tmp_path) -> None:
    with pytest.raises(ServiceError, match=r"missing\.thrift: No such file"):
        load_service(str(tmp_path / "missing.thrift"))
    (tmp_path / "none.thrift").write_text("struct A { 1: i32 a }\n")
    with pytest.raises(ServiceError, match="there must be one service, not 0"):
        load_service(str(tmp_path / "none.thrift"))


def test_structs_may_contain_themselves(tmp_path) -> None:
    tree = "struct Tree { 1: list<Tree> inner; 2: byte b; 3: i16 h; 4: list<binary> raw }"
    text = f"{tree} service S {{ void put(1: Tree tree) }}"
    (tmp_path / "tree.thrift").write_text(text)
    service = load_service(str(tmp_path / "tree.thrift"))
    tree = service.Tree([service.Tree(b=-1), service.Tree([], 2, -3, [b"\xff", b""])])
    buffer = TMemoryBuffer(BytesIO().getvalue())
    protocol = TBinaryProtocol(buffer)
    protocol.write_message_begin("put", 1, 0)
    protocol.write_struct(service.S.put_args(tree))
    call = read_call(service, bytes(buffer.getvalue()))
    assert call.arguments.tree == tree
    protocol = TBinaryProtocol(TMemoryBuffer(messages.encode_reply(service, call, None)))
    assert protocol.read_message_begin() == ("put", 2, 0)
