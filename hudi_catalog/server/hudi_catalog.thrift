/*
 * What our own code in engines asks the services, version 3: Hive's storage handler (hive_handler/) asks
 * `hudi-catalog serve hive`, Trino's connector hudi_catalog (trino_connector/) asks `hudi-catalog serve trino`.
 *
 * Framed transport, strict binary protocol. Trino's port also answers the Thrift connectors, told apart by the methods'
 * names. A field, or a member of JSON, may be added without a new version if both sides do right without it; anything
 * else makes a new version. A service answers requests of every version up to its own with that version, and refuses
 * newer ones by saying which it knows.
 *
 * Version 3 signs all calls for one purpose. Before it, each engine had a contract of its own: Hive's signed for
 * "hive 2" in version 2, and only some fields of the request in version 1, which is refused where the service asks for
 * the secret; Trino's signed for "trino connector 1" in versions 1 and 2, and version 1 had no hudiAggregates, and no
 * conditions, limit and order of plans.
 */
namespace java hudicatalog.wire

const i32 VERSION = 3

/* From Hive: a scan of one table in one query. */
struct ScanRequest {
  1: required i32 version
  /* URI of the table's folder, as Hive has it. */
  2: required string location
  /* database.table in Hive, for messages. */
  3: required string table
  /* Hive's hive.query.id: all scans of one table in one query read one snapshot. */
  4: required string queryId
  /* What `pin` gave for this table when the query was compiled. Without it, the service goes by the query's id. */
  5: optional string pin
  /* The filter: JSON of the ExprNodeDesc tree, see docs/reference/translators.md. Absent: all rows. */
  6: optional string filter
  /* Names of the columns that are read, in Hive's lower case. Absent: all; empty: none, as for count(*). */
  7: optional list<string> columns
  /* Settings of the table and of the session whose keys begin with hoodie.catalog.hive. */
  8: optional map<string, string> settings
  /* The time zone of Hive's JVM, such as Europe/Berlin. */
  9: optional string timeZone
  /* Bytes that a split should have at most; a single row group is never cut. */
  10: optional i64 splitBytes
  /*
   * What that JVM knows of the time zone: by how many seconds it is ahead of UTC at 1800-01-01T00:00:00Z, then for each
   * change up to 2100-01-01 `;instant:seconds`, the instant in seconds since 1970. Where the service knows otherwise,
   * or nothing is said of a zone that is neither UTC nor a fixed offset, it goes by no clock times.
   */
  11: optional string zoneOffsets
}

/* From Trino. */
struct ConnectorRequest {
  1: required i32 version
  /* An object of JSON; docs/reference/connector.md says what is in it for each call, and in the replies. */
  2: required string body
}

/*
 * Proof that the caller knows the shared secret. The signature is HMAC-SHA256 with the key
 * HMAC-SHA256(secret, "hudi-catalog 3") over: the time as 8 bytes, the nonce's 16 bytes, the method's name as 4 bytes of
 * length (all big-endian) and UTF-8 bytes, and the bytes of the request's struct as they stand in the call, from the head
 * of its first field to its stop byte: nothing in a request, settings and columns included, may be changed on its way,
 * added or left out.
 */
struct Credential {
  /* Milliseconds since 1970-01-01 UTC; a service refuses one that is more than 5 minutes off. */
  1: required i64 time
  2: required binary signature
  /* 16 random bytes, new for each call; a service refuses those that it has seen. Hive's version 1 has none. */
  3: optional binary nonce
}

/*
 * Row groups of one Parquet file: those whose first data page lies in the range. Ranges of one file never overlap; where
 * the service has looked into the file, they begin and end with row groups.
 */
struct Split {
  /* URI; always inside the table's location. */
  1: required string path
  2: required i64 start
  3: required i64 length
}

struct Splits {
  1: required i32 version
  /* The snapshot that was planned for. */
  2: required string pin
  3: required list<Split> splits
  /* Files of the snapshot, and how many of them are read. */
  4: optional i64 filesTotal
  5: optional i64 filesKept
}

/* Statistics of one column, each field where it is known. */
struct ColumnStatistics {
  /* Name, in Hive's lower case. */
  1: required string name
  /* Values that are null. */
  2: optional i64 nulls
  /* Least and greatest value: days of dates, microseconds of timestamps, else the number itself. */
  3: optional double low
  4: optional double high
  /* An estimate of how many distinct values there are. */
  5: optional i64 distinct
  /* An estimate of the mean length of texts in bytes. */
  6: optional double length
  /* Which part of the table's range a file has on average; 1: values of a join's other side leave no file out. */
  7: optional double spread
}

/* Statistics of a table's snapshot, for Hive's optimizer. */
struct TableStatistics {
  1: required i32 version
  /* Files and bytes of the snapshot; those that later commits replaced do not count. */
  2: required i64 files
  3: required i64 bytes
  /* Rows, or an estimate of them; absent where no file could be opened. */
  4: optional i64 rows
  /* Whether `rows` is what count(*) gives. */
  5: required bool exact
  6: required list<ColumnStatistics> columns
}

/* Values of a column. */
struct ColumnValues {
  1: required i32 version
  /* Distinct and not null, as texts: dates as 2026-11-30. Absent: not told, as where there are too many. */
  2: optional list<string> values
}

/* The query cannot be served; the engine fails it with this message. */
exception Refusal {
  1: required string message
  /* Whether the same request may succeed a little later. */
  2: required bool retryable
}

service HudiCatalog {
  /*
   * From Hive, as the next three. The newest snapshot of the table: asked once a query and table, while the query is
   * compiled. With `columns`, those that the query's text names, which are compared with the table's; a handler that
   * cannot tell leaves them out.
   */
  string pin(1: ScanRequest request, 2: Credential credential) throws (1: Refusal refusal)

  /* The splits of a scan. */
  Splits splits(1: ScanRequest request, 2: Credential credential) throws (1: Refusal refusal)

  /*
   * Statistics of the snapshot that `pin` gave, whatever the filter and the columns. Services of earlier releases do not
   * know this method; the handler then has no statistics but those of the metastore.
   */
  TableStatistics statistics(1: ScanRequest request, 2: Credential credential) throws (1: Refusal refusal)

  /*
   * The values of the one column of `columns` in the rows that pass the filter, of the snapshot that `pin` gave: at least
   * these, where a part of the filter is not understood. The side of a join is pruned by them before it is read. Services
   * of earlier releases do not know this method.
   */
  ColumnValues values(1: ScanRequest request, 2: Credential credential) throws (1: Refusal refusal)

  /* From Trino, as all that follow. Names of all tables. */
  binary hudiTables(1: ConnectorRequest request, 2: Credential credential) throws (1: Refusal refusal)

  /* Columns of many tables. */
  binary hudiColumns(1: ConnectorRequest request, 2: Credential credential) throws (1: Refusal refusal)

  /* One table at the snapshot that a query reads, pinned. */
  binary hudiTable(1: ConnectorRequest request, 2: Credential credential) throws (1: Refusal refusal)

  /* The splits of a scan. */
  binary hudiPlan(1: ConnectorRequest request, 2: Credential credential) throws (1: Refusal refusal)

  /* Columns whose part of a filter is true for every row of the files that it keeps. */
  binary hudiEnforced(1: ConnectorRequest request, 2: Credential credential) throws (1: Refusal refusal)

  /* Statistics of the files that a filter keeps. */
  binary hudiStatistics(1: ConnectorRequest request, 2: Credential credential) throws (1: Refusal refusal)

  /* The buckets that joins and groupings may go by. */
  binary hudiBuckets(1: ConnectorRequest request, 2: Credential credential) throws (1: Refusal refusal)

  /* Aggregates that statistics answer for certain. */
  binary hudiAggregates(1: ConnectorRequest request, 2: Credential credential) throws (1: Refusal refusal)

  /* A page of rows of a file slice. */
  binary hudiRows(1: ConnectorRequest request, 2: Credential credential) throws (1: Refusal refusal)

  /* All rows of a table about a table, such as its timeline. */
  binary hudiSystemTable(1: ConnectorRequest request, 2: Credential credential) throws (1: Refusal refusal)
}
