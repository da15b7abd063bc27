// What Trino's Thrift connector (connector.name=trino_thrift) and a service say to each other, as of Trino 476.
// PrestoDB's connector says the same with Presto for Trino and presto for trino in every name.
//
// Frames with a length of four bytes, the strict binary protocol, and no name of the service before the method's.
// `required` marks what a request always has: one without it is refused, because to guess there may lose rows.
namespace py trino_thrift

// One column of values each. A list may be absent. Where `nulls` is true, the value is a placeholder (0, or of size 0);
// `nulls` alone stands for a column of nulls, neither list for no rows.
struct TrinoThriftInteger {
  1: optional list<bool> nulls;
  2: optional list<i32> ints;
}
struct TrinoThriftBigint {
  1: optional list<bool> nulls;
  2: optional list<i64> longs;
}
struct TrinoThriftDouble {
  1: optional list<bool> nulls;
  2: optional list<double> doubles;
}
// The values' bytes (UTF-8) joined, and how many belong to each.
struct TrinoThriftVarchar {
  1: optional list<bool> nulls;
  2: optional list<i32> sizes;
  3: optional binary bytes;
}
struct TrinoThriftBoolean {
  1: optional list<bool> nulls;
  2: optional list<bool> booleans;
}
// Days since 1970-01-01.
struct TrinoThriftDate {
  1: optional list<bool> nulls;
  2: optional list<i32> dates;
}
// Milliseconds since 1970-01-01, of a timestamp(3).
struct TrinoThriftTimestamp {
  1: optional list<bool> nulls;
  2: optional list<i64> timestamps;
}
struct TrinoThriftJson {
  1: optional list<bool> nulls;
  2: optional list<i32> sizes;
  3: optional binary bytes;
}
struct TrinoThriftHyperLogLog {
  1: optional list<bool> nulls;
  2: optional list<i32> sizes;
  3: optional binary bytes;
}
// How many of `values` belong to each array; of arrays, only array(bigint) is known.
struct TrinoThriftBigintArray {
  1: optional list<bool> nulls;
  2: optional list<i32> sizes;
  3: optional TrinoThriftBigint values;
}

// A column: exactly one of the fields.
struct TrinoThriftBlock {
  1: optional TrinoThriftInteger integerData;
  2: optional TrinoThriftBigint bigintData;
  3: optional TrinoThriftDouble doubleData;
  4: optional TrinoThriftVarchar varcharData;
  5: optional TrinoThriftBoolean booleanData;
  6: optional TrinoThriftDate dateData;
  7: optional TrinoThriftTimestamp timestampData;
  8: optional TrinoThriftJson jsonData;
  9: optional TrinoThriftHyperLogLog hyperLogLogData;
  10: optional TrinoThriftBigintArray bigintArrayData;
}

enum TrinoThriftBound {
  BELOW = 1,
  EXACTLY = 2,
  ABOVE = 3
}

// A place on the line of values: at `value` (a block of one row), just below or just above it. Without a value, the
// place above everything that is too low to name, or below everything that is too high.
struct TrinoThriftMarker {
  1: optional TrinoThriftBlock value;
  2: required TrinoThriftBound bound;
}
struct TrinoThriftRange {
  1: required TrinoThriftMarker low;
  2: required TrinoThriftMarker high;
}

// Values of a type that is ordered: in any of these ranges, which are sorted and apart. None: no value but null.
struct TrinoThriftRangeValueSet {
  1: required list<TrinoThriftRange> ranges;
}
// Values of a type that is compared but not ordered: these, or all others.
struct TrinoThriftEquatableValueSet {
  1: required bool inclusive;
  2: required list<TrinoThriftBlock> values;
}
struct TrinoThriftAllOrNoneValueSet {
  1: required bool all;
}
// Exactly one of the fields.
struct TrinoThriftValueSet {
  1: optional TrinoThriftAllOrNoneValueSet allOrNoneValueSet;
  2: optional TrinoThriftEquatableValueSet equatableValueSet;
  3: optional TrinoThriftRangeValueSet rangeValueSet;
}
struct TrinoThriftDomain {
  1: required TrinoThriftValueSet valueSet;
  2: required bool nullAllowed;
}
// Conditions by column, all of which hold. Without `domains` there is no row that passes; an empty map says nothing.
struct TrinoThriftTupleDomain {
  1: optional map<string, TrinoThriftDomain> domains;
}

// Bytes that mean something to the service alone: a split, or where to go on.
struct TrinoThriftId {
  1: required binary id;
}
struct TrinoThriftNullableToken {
  1: optional TrinoThriftId token;
}
struct TrinoThriftHostAddress {
  1: required string host;
  2: required i32 port;
}
// Without hosts, rows are asked for where the splits came from.
struct TrinoThriftSplit {
  1: required TrinoThriftId splitId;
  2: required list<TrinoThriftHostAddress> hosts;
}
struct TrinoThriftSplitBatch {
  1: required list<TrinoThriftSplit> splits;
  2: optional TrinoThriftId nextToken;
}

struct TrinoThriftSchemaTableName {
  1: required string schemaName;
  2: required string tableName;
}
struct TrinoThriftNullableSchemaName {
  1: optional string schemaName;
}
// `type` as in Trino's SQL.
struct TrinoThriftColumnMetadata {
  1: required string name;
  2: required string type;
  3: optional string comment;
  4: required bool hidden;
}
// `indexableKeys`: sets of columns by whose values the service finds rows without a scan.
struct TrinoThriftTableMetadata {
  1: required TrinoThriftSchemaTableName schemaTableName;
  2: required list<TrinoThriftColumnMetadata> columns;
  3: optional string comment;
  4: optional list<set<string>> indexableKeys;
}
struct TrinoThriftNullableTableMetadata {
  1: optional TrinoThriftTableMetadata tableMetadata;
}
// Without `columns` all are wanted.
struct TrinoThriftNullableColumnSet {
  1: optional set<string> columns;
}

// Columns in the order in which they were asked for; none of them, and a count, when rows are only counted.
struct TrinoThriftPageResult {
  1: required list<TrinoThriftBlock> columnBlocks;
  2: required i32 rowCount;
  3: optional TrinoThriftId nextToken;
}

exception TrinoThriftServiceException {
  1: required string message;
  2: required bool retryable;
}

service TrinoThriftService {
  list<string> trinoListSchemaNames() throws (1: TrinoThriftServiceException ex1);
  list<TrinoThriftSchemaTableName> trinoListTables(
    1: required TrinoThriftNullableSchemaName schemaNameOrNull
  ) throws (1: TrinoThriftServiceException ex1);
  TrinoThriftNullableTableMetadata trinoGetTableMetadata(
    1: required TrinoThriftSchemaTableName schemaTableName
  ) throws (1: TrinoThriftServiceException ex1);
  TrinoThriftSplitBatch trinoGetSplits(
    1: required TrinoThriftSchemaTableName schemaTableName,
    2: required TrinoThriftNullableColumnSet desiredColumns,
    3: required TrinoThriftTupleDomain outputConstraint,
    4: required i32 maxSplitCount,
    5: required TrinoThriftNullableToken nextToken
  ) throws (1: TrinoThriftServiceException ex1);
  TrinoThriftSplitBatch trinoGetIndexSplits(
    1: required TrinoThriftSchemaTableName schemaTableName,
    2: required list<string> indexColumnNames,
    3: required list<string> outputColumnNames,
    4: required TrinoThriftPageResult keys,
    5: required TrinoThriftTupleDomain outputConstraint,
    6: required i32 maxSplitCount,
    7: required TrinoThriftNullableToken nextToken
  ) throws (1: TrinoThriftServiceException ex1);
  TrinoThriftPageResult trinoGetRows(
    1: required TrinoThriftId splitId,
    2: required list<string> columns,
    3: required i64 maxBytes,
    4: required TrinoThriftNullableToken nextToken
  ) throws (1: TrinoThriftServiceException ex1);
}
