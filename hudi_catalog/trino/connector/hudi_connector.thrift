/*
 * What Trino's connector hudi_catalog (trino_connector/) asks the service (`hudi-catalog serve trino`), version 1.
 *
 * Framed transport, strict binary protocol; one port with the Thrift connectors, told apart by the methods' names.
 * Requests and replies are JSON, described in docs/reference/connector.md; rows are binary, described there too. A
 * member may be added without a new version if both sides do right without it; anything else makes a new version.
 */
namespace java hudicatalog.trino

const i32 VERSION = 1

struct ConnectorRequest {
  1: required i32 version
  /* An object. */
  2: required string body
}

/*
 * Proof that the connector knows the shared secret, as that of Hive's handler (hudi_hive.thrift) with the key
 * HMAC-SHA256(secret, "trino connector 1").
 */
struct Credential {
  1: required i64 time
  2: required binary signature
  3: optional binary nonce
}

/* The query cannot be served; Trino fails it with this message. */
exception Refusal {
  1: required string message
  /* Whether the same request may succeed a little later. */
  2: required bool retryable
}

service HudiConnector {
  /* Names of all tables. */
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
