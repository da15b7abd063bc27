"""The merge rule of tables that record none, as Apache 0.15.0's copy-on-write tables do: the job gives it.

What 0.15.0 itself does with these options is shown in tests/engines/test_apache_properties.py.
"""

from pathlib import Path

import pyarrow as pa
import pytest

from table_format.config.table_config import TableConfig, update_table_config
from table_format.errors import OptionError, UnsupportedTableError
from table_writer.plan.merge_rule import adopted_rule, check_merge_rule
from table_writer.plan.operations import Operation
from table_writer.plan.options import WriteOptions
from tests.support.local_writes import LocalTable
from tests.support.reading import user_rows

MODEL = "org.apache.hudi.common.model."
PAYLOAD = "hoodie.datasource.write.payload.class"
MERGER = "hoodie.datasource.write.record.merger.impls"
ORDERING = "hoodie.datasource.write.precombine.field"
LATEST, DEFAULT = f"{MODEL}OverwriteWithLatestAvroPayload", f"{MODEL}DefaultHoodieRecordPayload"
STORED = "hoodie.compaction.payload.class"
OLD = {
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.table.recordkey.fields": "id",
}
ORDERED = {**OLD, "hoodie.table.precombine.field": "ts"}
SPARK = {MERGER: "org.apache.hudi.HoodieSparkRecordMerger"}
AVRO = {MERGER: f"{MODEL}HoodieAvroRecordMerger"}


@pytest.mark.parametrize(
    ("table", "job", "added"),
    [
        (ORDERED, {PAYLOAD: DEFAULT}, {STORED: DEFAULT}),
        (ORDERED, {PAYLOAD: "DefaultHoodieRecordPayload"}, {STORED: DEFAULT}),
        (ORDERED, {PAYLOAD: f"{MODEL}EventTimeAvroPayload"}, {STORED: f"{MODEL}EventTimeAvroPayload"}),
        (ORDERED, {PAYLOAD: LATEST}, {STORED: LATEST}),
        (ORDERED, {PAYLOAD: DEFAULT, "hoodie.payload.ordering.field": "ts"}, {STORED: DEFAULT}),
        (ORDERED, {PAYLOAD: DEFAULT, "hoodie.payload.ordering.field": "other"}, {STORED: DEFAULT}),
        (ORDERED, SPARK, {STORED: DEFAULT}),
        (ORDERED, {**SPARK, PAYLOAD: LATEST}, {STORED: DEFAULT}),
        (ORDERED, {**AVRO, PAYLOAD: DEFAULT}, {STORED: DEFAULT}),
        (ORDERED, {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}, {STORED: LATEST}),
        (OLD, {PAYLOAD: DEFAULT, ORDERING: "o"}, {STORED: DEFAULT, "hoodie.table.precombine.field": "o"}),
        (OLD, {PAYLOAD: DEFAULT, ORDERING: "o,p"}, {STORED: DEFAULT, "hoodie.table.ordering.fields": "o,p"}),
        (
            OLD,
            {PAYLOAD: DEFAULT, "hoodie.payload.ordering.field": "ts"},
            {STORED: DEFAULT, "hoodie.table.precombine.field": "ts"},
        ),
        # both releases take the later write
        (OLD, {}, {}),
        # what the table records holds
        ({**ORDERED, STORED: LATEST}, {PAYLOAD: DEFAULT}, {}),
        ({**ORDERED, "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}, {}, {}),
    ],
)
def test_what_a_job_adds(table: dict[str, str], job: dict[str, str], added: dict[str, str]) -> None:
    assert adopted_rule(WriteOptions.of(job), TableConfig(table), Operation.UPSERT) == added


@pytest.mark.parametrize(
    ("table", "job", "message"),
    [
        (ORDERED, {}, r"payload\.class is missing.*OverwriteWithLatestAvroPayload.*0\.15.*greater ts wins"),
        (ORDERED, AVRO, r"payload\.class is missing"),
        (OLD, {ORDERING: "ts"}, r"payload\.class is missing"),
        # in version 6 neither release obeys the id alone
        (ORDERED, {"hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"}, "is missing"),
        (OLD, {PAYLOAD: DEFAULT}, r"precombine\.field is missing.*0\.15.*'ts'"),
        (OLD, {PAYLOAD: DEFAULT, "hoodie.payload.ordering.field": "o"}, r"precombine\.field is missing"),
        (ORDERED, {MERGER: "com.example.Mine"}, r"com\.example\.Mine"),
        (ORDERED, {PAYLOAD: f"{MODEL}PartialUpdateAvroPayload"}, "PartialUpdateAvroPayload"),
        (ORDERED, {**SPARK, "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}, "contradicts"),
    ],
)
def test_nobody_guesses(table: dict[str, str], job: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        adopted_rule(WriteOptions.of(job), TableConfig(table), Operation.UPSERT)


@pytest.mark.parametrize("operation", [o for o in Operation if o not in (Operation.UPSERT, Operation.INSERT)])
def test_what_merges_nothing_needs_no_rule(operation: Operation) -> None:
    assert adopted_rule(WriteOptions.of({}), TableConfig(ORDERED), operation) == {}


def test_a_table_that_contradicts_itself() -> None:
    raw = {**ORDERED, STORED: DEFAULT, "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
    with pytest.raises(UnsupportedTableError, match="contradicts itself"):
        check_merge_rule(WriteOptions.of({}), TableConfig(raw))


def test_another_ordering_field_is_passed_over_with_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    for field in ("ts", "other"):
        check_merge_rule(WriteOptions.of({"hoodie.payload.ordering.field": field}), TableConfig(ORDERED))
    assert [str(warning.message).split(" is ")[0] for warning in recwarn] == ["hoodie.payload.ordering.field='other'"]


def test_the_table_keeps_what_the_job_said(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.bucket.index.num.buckets": "2",
        ORDERING: "ts",
    }
    local = LocalTable.create(str(tmp_path / "t"), schema, options)

    def write(ts: int, v: int, more: dict[str, str], operation: str = "upsert") -> None:
        rows = pa.table({"id": ["a", "b"], "ts": [ts, ts], "v": [v, v]}, schema=schema)
        LocalTable(local.client, {}).write(operation, rows, more)

    update_table_config(local.client.storage, {STORED: None, "hoodie.table.precombine.field": None})
    write(5, 1, {}, "bulk_insert")
    update_table_config(local.client.storage, {STORED: None})
    with pytest.raises(OptionError, match="is missing"):
        write(3, 2, {ORDERING: "ts"})
    assert not local.client.timeline().pending
    write(3, 2, {ORDERING: "ts", PAYLOAD: DEFAULT})
    assert {row["v"] for row in user_rows(local.client)} == {1}
    assert local.client.reload().raw[STORED] == DEFAULT
    assert local.client.config.ordering_fields == ("ts",)
    write(4, 3, {})
    assert {row["v"] for row in user_rows(local.client)} == {1}
    with pytest.raises(OptionError, match=f"{PAYLOAD}='COMMIT_TIME_ORDERING', but the table has 'EVENT_TIME_ORDERING'"):
        write(4, 3, {PAYLOAD: LATEST})
    write(6, 4, {})
    assert {row["v"] for row in user_rows(local.client)} == {4}
