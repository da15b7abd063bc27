"""Spark's properties of an entry, against those of Apache's sync and of Spark itself."""

import json

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from hudi_catalog.metastore.hive_entries import spark_properties, spark_serde_properties, spark_type
from table_format.errors import UnsupportedTableError

NESTED = pa.struct([pa.field("A", pa.int64(), nullable=False), pa.field("b", pa.list_(pa.int64()))])
SCHEMA = pa.schema(
    [
        pa.field("Q", pa.int64()),
        pa.field("k", pa.string(), nullable=False),
        pa.field("v", pa.int32()),
        pa.field("f", pa.float32()),
        pa.field("x", pa.float64()),
        pa.field("ok", pa.bool_()),
        pa.field("raw", pa.binary()),
        pa.field("ts", pa.timestamp("us", tz="UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("d", pa.date32()),
        pa.field("dec", pa.decimal128(10, 2)),
        pa.field("st", NESTED, nullable=False),
        pa.field("m", pa.map_(pa.string(), NESTED)),
        pa.field("p", pa.string()),
    ]
)
# As Apache Hudi 1.2.0 wrote it, with Spark 3.5 and hive_sync.mode=hms, of such columns.
OF_APACHE = """[{"name":"k","type":"string","nullable":false,"metadata":{}},
{"name":"ts","type":"timestamp","nullable":false,"metadata":{}},{"name":"d","type":"date","nullable":false,"metadata":{}},
{"name":"dec","type":"decimal(10,2)","nullable":true,"metadata":{}},
{"name":"st","type":{"type":"struct","fields":[{"name":"A","type":"long","nullable":false,"metadata":{}},
{"name":"b","type":{"type":"array", "elementType":"long","containsNull":false},"nullable":false,"metadata":{}}]},
"nullable":false,"metadata":{}},{"name":"m","type":{"type":"map", "keyType":"string","valueType":"long",
"valueContainsNull":false},"nullable":false,"metadata":{}},{"name":"p","type":"string","nullable":true,"metadata":{}}]"""


def text(properties: dict[str, str]) -> str:
    count = int(properties["spark.sql.sources.schema.numParts"])
    return "".join(properties[f"spark.sql.sources.schema.part.{number}"] for number in range(count))


def test_spark_reads_the_schema_back() -> None:
    properties = spark_properties(SCHEMA, ["p", "q"], {}, 50, None)
    schema = StructType.fromJson(json.loads(text(properties)))
    ordered = pa.schema([*(SCHEMA.field(i) for i in range(1, len(SCHEMA) - 1)), SCHEMA.field("p"), SCHEMA.field("Q")])
    assert schema == from_arrow_schema(ordered, prefer_timestamp_ntz=True)
    assert [properties[f"spark.sql.sources.schema.partCol.{number}"] for number in range(2)] == ["p", "Q"]
    assert properties["spark.sql.sources.schema.numPartCols"] == "2"
    assert max(map(len, properties.values())) == 50
    assert "spark.sql.create.version" not in properties


def test_as_apaches_sync_writes_it() -> None:
    inner = pa.struct(
        [
            pa.field("A", pa.int64(), nullable=False),
            pa.field("b", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
        ]
    )
    schema = pa.schema(
        [
            pa.field("p", pa.string()),
            pa.field("k", pa.string(), nullable=False),
            pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
            pa.field("d", pa.date32(), nullable=False),
            pa.field("dec", pa.decimal128(10, 2)),
            pa.field("st", inner, nullable=False),
            pa.field("m", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)), nullable=False),
        ]
    )
    properties = spark_properties(schema, ["p"], {}, 4000, "3.5.0")
    assert json.loads(text(properties)) == {"type": "struct", "fields": json.loads(OF_APACHE)}
    del properties["spark.sql.sources.schema.part.0"]
    assert properties == {
        "spark.sql.sources.provider": "hudi",
        "spark.sql.sources.schema.numParts": "1",
        "spark.sql.sources.schema.numPartCols": "1",
        "spark.sql.sources.schema.partCol.0": "p",
        "spark.sql.create.version": "3.5.0",
    }


def test_comments_and_letters_beyond_ascii() -> None:
    properties = spark_properties(pa.schema([("é", pa.int8())]), [], {"é": 'says "é"\n'}, 4000, None)
    assert text(properties).isascii(), "metastores may keep properties in Latin-1"
    (field,) = StructType.fromJson(json.loads(text(properties))).fields
    assert (field.name, field.metadata) == ("é", {"comment": 'says "é"\n'})
    assert "spark.sql.sources.schema.numPartCols" not in properties


def test_serde_properties() -> None:
    properties = spark_serde_properties("s3://b/t", read_optimized=True)
    assert properties == {"path": "s3://b/t", "hoodie.query.as.ro.table": "true"}


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [(pa.time32("ms"), "integer"), (pa.time64("us"), "long"), (pa.binary(16), "binary"), (pa.int16(), "short")],
)
def test_types_that_spark_has_no_name_for(kind: pa.DataType, wanted: str) -> None:
    assert spark_type(kind, "c") == wanted


def test_a_type_that_spark_does_not_have() -> None:
    with pytest.raises(UnsupportedTableError, match="column c: Spark has no type for uint64"):
        spark_type(pa.uint64(), "c")
