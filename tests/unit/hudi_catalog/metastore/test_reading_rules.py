"""What engines read right, by the rules. What Hive 4.0.1 does was measured on it; an engine test holds it to that."""

import pyarrow as pa
import pytest

from hudi_catalog.metastore.stored_columns import HIVE_RULES, HIVE_WITHOUT_HANDLER_RULES, TRINO_RULES

INT, LONG, FLOAT, DOUBLE = pa.int32(), pa.int64(), pa.float32(), pa.float64()
TEXT, BYTES = pa.string(), pa.binary()
AS_STORED = (
    *((kind, kind) for kind in (INT, LONG, FLOAT, DOUBLE, TEXT, BYTES, pa.bool_(), pa.date32(), pa.time64("us"))),
    (pa.dictionary(pa.int32(), TEXT), TEXT),
    (pa.large_string(), TEXT),
    (BYTES, TEXT),
    (pa.binary(4), BYTES),
    (pa.decimal128(5, 2), pa.decimal128(20, 2)),
    (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.struct([("a", INT)]), pa.struct([("A", INT), ("new", LONG)])),
    (pa.struct([("gone", INT), ("a", INT)]), pa.struct([("a", INT)])),
    (pa.list_(TEXT), pa.large_list(TEXT)),
)
BY_HANDLER_ALONE = (
    (INT, LONG),
    (pa.int16(), INT),
    (INT, FLOAT),
    (LONG, FLOAT),
    (LONG, DOUBLE),
    (FLOAT, DOUBLE),
    (pa.list_(INT), pa.list_(LONG)),
    (pa.map_(TEXT, FLOAT), pa.map_(TEXT, DOUBLE)),
    (pa.struct([("a", INT)]), pa.struct([("a", LONG)])),
)
WRONG = (
    (INT, DOUBLE),
    (LONG, INT),
    (DOUBLE, FLOAT),
    (INT, TEXT),
    (INT, pa.decimal128(12, 2)),
    (TEXT, BYTES),
    (TEXT, pa.date32()),
    (pa.date32(), TEXT),
    (pa.uint32(), LONG),
    (pa.decimal128(5, 2), pa.decimal128(10, 4)),
    (pa.decimal128(10, 2), pa.decimal128(5, 2)),
    (pa.timestamp("ns"), pa.timestamp("us")),
    (pa.timestamp("us"), LONG),
    (pa.timestamp("us", "UTC"), pa.timestamp("us")),
    (pa.bool_(), INT),
    (pa.null(), INT),
    (INT, pa.list_(INT)),
    (pa.list_(INT), pa.list_(DOUBLE)),
    (pa.map_(INT, INT), pa.map_(DOUBLE, INT)),
    (pa.struct([("a", pa.struct([("b", INT)]))]), pa.struct([("a", pa.struct([("b", DOUBLE)]))])),
    (pa.struct([("gone", INT)]), pa.struct([("a", INT)])),
)


@pytest.mark.parametrize(("stored", "wanted"), AS_STORED)
def test_hive_reads_right(stored: pa.DataType, wanted: pa.DataType) -> None:
    assert HIVE_RULES.reads_right(stored, wanted)
    assert HIVE_WITHOUT_HANDLER_RULES.reads_right(stored, wanted)


@pytest.mark.parametrize(("stored", "wanted"), BY_HANDLER_ALONE)
def test_hive_reads_right_without_filters_in_the_reader(stored: pa.DataType, wanted: pa.DataType) -> None:
    assert HIVE_RULES.reads_right(stored, wanted)
    assert not HIVE_WITHOUT_HANDLER_RULES.reads_right(stored, wanted)


@pytest.mark.parametrize(("stored", "wanted"), WRONG)
def test_hive_reads_wrong(stored: pa.DataType, wanted: pa.DataType) -> None:
    assert not HIVE_RULES.reads_right(stored, wanted)
    assert not HIVE_WITHOUT_HANDLER_RULES.reads_right(stored, wanted)


def test_engines_differ() -> None:
    assert TRINO_RULES.reads_right(INT, LONG)
    assert not TRINO_RULES.reads_right(FLOAT, DOUBLE)
    assert TRINO_RULES.reads_right(pa.timestamp("ns"), pa.timestamp("us"))
