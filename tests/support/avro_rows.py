"""Avro bytes of rows, by fastavro."""

import io

import fastavro


def encoded(schema, rows):
    parsed = fastavro.parse_schema(schema)
    values = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        values.append(out.getvalue())
    return values
