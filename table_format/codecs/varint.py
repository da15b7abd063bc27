"""The two integer codings inside HFiles: protobuf's varint and Hadoop's VInt, with a minimal protobuf message."""

from collections.abc import Iterator

_MAX_VARINT_BYTES = 10


class BadEncodingError(ValueError):
    """Malformed number or message; `offset` counts from the start of the buffer."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


def require(condition: bool, offset: int, reason: str) -> None:
    """Raise BadEncodingError unless the condition holds."""
    if not condition:
        raise BadEncodingError(offset, reason)


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Read an unsigned protobuf varint; value and end offset.

    Raises:
        BadEncodingError: the buffer ends inside it, or it is longer than 64 bits.
    """
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if offset + index >= len(data):
            raise BadEncodingError(offset, "a varint is cut off")
        byte = data[offset + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, offset + index + 1
    raise BadEncodingError(offset, "a varint is longer than 64 bits")


def write_varint(value: int) -> bytes:
    """An unsigned protobuf varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Fields of a protobuf message in order, as (number, value): varints as int, length-delimited as bytes.

    Raises:
        BadEncodingError: the bytes are not such a message.
    """
    offset = 0
    while offset < len(data):
        tag, after = read_varint(data, offset)
        if tag & 7 == 0:
            value, offset = read_varint(data, after)
            yield tag >> 3, value
        elif tag & 7 == 2:
            length, start = read_varint(data, after)
            if start + length > len(data):
                raise BadEncodingError(offset, "a protobuf field is cut off")
            offset = start + length
            yield tag >> 3, bytes(data[start:offset])
        else:
            raise BadEncodingError(offset, f"unknown protobuf wire type {tag & 7}")


def write_field(number: int, value: int | bytes) -> bytes:
    """One field of a protobuf message."""
    if isinstance(value, bytes):
        return write_varint(number << 3 | 2) + write_varint(len(value)) + value
    return write_varint(number << 3) + write_varint(value)


def read_hadoop_vint(data: bytes, offset: int) -> tuple[int, int]:
    """Read a non-negative Hadoop VInt; value and end offset.

    One byte encodes -112…127; otherwise the first byte is -112 minus the count of big-endian bytes that follow.

    Raises:
        BadEncodingError: the buffer ends inside it, or the number is negative.
    """
    if offset >= len(data):
        raise BadEncodingError(offset, "a length is cut off")
    first = data[offset]
    if first < 0x80:
        return first, offset + 1
    count = 256 - 112 - first
    if not 1 <= count <= 8:
        raise BadEncodingError(offset, "a length is negative")
    end = offset + 1 + count
    if end > len(data):
        raise BadEncodingError(offset, "a length is cut off")
    return int.from_bytes(data[offset + 1 : end], "big"), end


def write_hadoop_vint(value: int) -> bytes:
    """A non-negative number as Hadoop's VInt."""
    if value <= 0x7F:
        return bytes([value])
    body = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([256 - 112 - len(body)]) + body
