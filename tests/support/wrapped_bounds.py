"""Bounds of column statistics, decoded by another Avro library."""

import io

import fastavro

_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}
_WRAPPED = ["boolean", "int", "long", "float", "double", "bytes", "string", "int", _DECIMAL, "long", "long"]
_UNION = fastavro.parse_schema(
    [
        "null",
        *(
            {"type": "record", "name": f"W{place}", "fields": [{"name": "value", "type": kind}]}
            for place, kind in enumerate(_WRAPPED)
        ),
    ]
)


def decoded(data):
    """The ordinal of the wrapper in the union and the value of an encoded bound; None without one."""
    if data is None:
        return None
    stream = io.BytesIO(data)
    value = fastavro.schemaless_reader(stream, _UNION)["value"]
    assert not stream.read()
    return data[0] // 2, value
