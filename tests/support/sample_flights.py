"""The small table of flights that the documentation's examples plan and read: three months of four buckets."""

import pyarrow as pa

from table_format.actions.commit import WriteStat
from table_format.codecs.avro_schema import schema_text
from table_format.config.properties import ensure_partition_metadata
from table_format.keys.key_generator import from_table_config
from table_format.slices.file_names import BaseFileName, new_bucket_file_id
from table_format.storage import Storage
from table_writer.commit.create import create_table
from table_writer.commit.transaction import WriteTransaction
from table_writer.encoding.base_file import write_base_file
from table_writer.encoding.meta_columns import add_meta_columns
from table_writer.metadata.column_statistics import collect_statistics, concat_statistics, indexable_columns
from table_writer.timeline.markers import create_marker

BUCKETS = 4
CARRIERS = ("AA", "B6", "DL", "HA", "UA", "VX", "WN")
SCHEMA = pa.schema(
    [
        ("month", pa.int32()),
        ("day", pa.int32()),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("origin", pa.string()),
        ("dep_delay", pa.int32()),
        ("distance", pa.int32()),
    ]
)
PROPERTIES = {
    "hoodie.table.name": "flights",
    "hoodie.table.recordkey.fields": "carrier,flight,day",
    "hoodie.table.partition.fields": "month",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    "hoodie.table.create.schema": schema_text(SCHEMA, "flights"),
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": str(BUCKETS),
    "hoodie.bucket.index.hash.field": "carrier,flight",
}


def flights():
    """Seven carriers fly the same four numbers each day; some flights have no departure."""
    rows = []
    for month in (6, 7, 8):
        for day in range(1, 29):
            for number, carrier in enumerate(CARRIERS):
                for flight in (51, 182, 640, 1021):
                    turn = month * 31 + day * 7 + number * 13 + flight
                    delay = None if turn % 97 == 0 else turn % 61 - 12
                    if (month, carrier, flight, day) == (7, "HA", 51, 9):
                        delay = 1301
                    origin = ("JFK", "LGA", "EWR")[turn % 3]
                    rows.append((month, day, carrier, flight, origin, delay, 200 + number * 700 + flight % 7))
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def make_flights(path):
    """Write the table, then correct the flights of one carrier in July."""
    client = create_table(Storage(str(path)), PROPERTIES)
    rows = flights()
    known = _write(client, "BULK_INSERT", rows, {})
    changed = [
        delay if delay is None or (month, carrier) != (7, "HA") else delay - 5
        for month, carrier, delay in zip(
            *(rows[name].to_pylist() for name in ("month", "carrier", "dep_delay")), strict=True
        )
    ]
    position = rows.schema.get_field_index("dep_delay")
    corrected = rows.set_column(position, SCHEMA.field("dep_delay"), pa.array(changed, pa.int32()))
    _write(client, "UPSERT", corrected, known, only=("month=7", "HA"))


def _write(client, operation, rows, known, only=None):
    """One commit of whole file groups; `only` names the partition and carrier whose groups are rewritten."""
    generator = from_table_config(client.config)
    keys, paths = generator.record_keys(rows), generator.partition_paths(rows).to_pylist()
    buckets = generator.bucket_ids(rows, BUCKETS, ("carrier", "flight"), keys).tolist()
    groups = {}
    for row, place in enumerate(zip(paths, buckets, strict=True)):
        groups.setdefault(place, []).append(row)
    carriers = rows["carrier"].to_pylist()
    stats, statistics = [], []
    with WriteTransaction.begin(client, "commit", operation) as transaction:
        transaction.mark_inflight()
        for (partition, bucket), members in sorted(groups.items()):
            if only and (partition != only[0] or not any(carriers[row] == only[1] for row in members)):
                continue
            file_id, previous = known.get((partition, bucket), (new_bucket_file_id(bucket), "null"))
            name = str(BaseFileName(file_id, f"{bucket}-0-0", transaction.instant))
            create_marker(client.storage, transaction.instant, partition, name, "CREATE" if only is None else "MERGE")
            ensure_partition_metadata(client.storage, partition, transaction.instant)
            members.sort(key=lambda row: keys[row].as_py())
            table = add_meta_columns(
                rows.take(members),
                instant=transaction.instant,
                task=bucket,
                keys=keys.take(pa.array(members)),
                partition=partition,
                file_name=name,
            )
            if only:
                # a merge leaves untouched rows the time at which they were written
                times = [transaction.instant if carriers[row] == only[1] else previous for row in members]
                table = table.set_column(0, table.column_names[0], pa.array(times, pa.string()))
            text = schema_text(SCHEMA, "flights", meta_fields=True)
            result = write_base_file(client.storage, f"{partition}/{name}", table, text)
            updates = 0 if only is None else sum(carriers[row] == only[1] for row in members)
            stats.append(
                WriteStat(
                    file_id=file_id,
                    path=f"{partition}/{name}",
                    partition_path=partition,
                    prev_commit=previous,
                    num_writes=len(members),
                    num_inserts=len(members) if only is None else 0,
                    num_update_writes=updates,
                    total_write_bytes=result.size,
                    file_size_in_bytes=result.size,
                )
            )
            indexed = indexable_columns(SCHEMA, client.config.raw)
            statistics.append(collect_statistics(table, name, partition, indexed, result.metadata))
            known = {**known, (partition, bucket): (file_id, transaction.instant)}
        transaction.commit(
            stats, schema_json=schema_text(SCHEMA, "flights"), column_stats=concat_statistics(statistics)
        )
    return known
