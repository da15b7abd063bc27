// What the sync asks of a Hive Metastore: a part of its Thrift service, with the field numbers of releases 2.3 to 4.0.
// The protocol is binary, not framed. Fields that are left out here are passed over when they come, and keep their
// defaults when they don't; a definition that is changed is therefore sent with those fields unset.

exception MetaException {
  1: string message
}
exception NoSuchObjectException {
  1: string message
}
exception AlreadyExistsException {
  1: string message
}
exception InvalidObjectException {
  1: string message
}
exception InvalidOperationException {
  1: string message
}

exception InvalidInputException {
  1: string message
}

struct FieldSchema {
  1: string name
  2: string type
  3: string comment
}
struct SerDeInfo {
  1: string name
  2: string serializationLib
  3: map<string, string> parameters
}
struct Order {
  1: string col
  2: i32 order
}
struct StorageDescriptor {
  1: list<FieldSchema> cols
  2: string location
  3: string inputFormat
  4: string outputFormat
  5: bool compressed
  6: i32 numBuckets
  7: SerDeInfo serdeInfo
  8: list<string> bucketCols
  9: list<Order> sortCols
  10: map<string, string> parameters
}
struct Table {
  1: string tableName
  2: string dbName
  3: string owner
  4: i32 createTime
  5: i32 lastAccessTime
  6: i32 retention
  7: StorageDescriptor sd
  8: list<FieldSchema> partitionKeys
  9: map<string, string> parameters
  10: string viewOriginalText
  11: string viewExpandedText
  12: string tableType
}
struct Partition {
  1: list<string> values
  2: string dbName
  3: string tableName
  4: i32 createTime
  5: i32 lastAccessTime
  6: StorageDescriptor sd
  7: map<string, string> parameters
}
struct Database {
  1: string name
  2: string description
  3: string locationUri
  4: map<string, string> parameters
  // Since 4.0: where the tables lie that Hive owns.
  10: optional string managedLocationUri
}
// What goes along with a change; DO_NOT_UPDATE_STATS keeps the metastore from listing the table's folder.
struct EnvironmentContext {
  1: map<string, string> properties
}
struct GetTableRequest {
  1: required string dbName
  2: required string tblName
}
struct GetTableResult {
  1: required Table table
}

// Partitions by their names, such as day=2026-01-31/hour=5, with the characters escaped that folders can't have.
union RequestPartsSpec {
  1: list<string> names
}
struct DropPartitionsRequest {
  1: required string dbName
  2: required string tblName
  3: required RequestPartsSpec parts
  4: optional bool deleteData
  5: optional bool ifExists
  6: optional bool ignoreProtection
  7: optional EnvironmentContext environmentContext
  8: optional bool needResult
}
struct DropPartitionsResult {
  1: optional list<Partition> partitions
}

// Statistics of columns, for optimisers. Timestamps have none before 4.0.
struct Decimal {
  1: required binary unscaled
  3: required i16 scale
}
struct Date {
  1: required i64 daysSinceEpoch
}
struct LongColumnStatsData {
  1: optional i64 lowValue
  2: optional i64 highValue
  3: required i64 numNulls
  4: required i64 numDVs
}
struct DoubleColumnStatsData {
  1: optional double lowValue
  2: optional double highValue
  3: required i64 numNulls
  4: required i64 numDVs
}
struct StringColumnStatsData {
  1: required i64 maxColLen
  2: required double avgColLen
  3: required i64 numNulls
  4: required i64 numDVs
}
struct DecimalColumnStatsData {
  1: optional Decimal lowValue
  2: optional Decimal highValue
  3: required i64 numNulls
  4: required i64 numDVs
}
struct DateColumnStatsData {
  1: optional Date lowValue
  2: optional Date highValue
  3: required i64 numNulls
  4: required i64 numDVs
}
union ColumnStatisticsData {
  2: LongColumnStatsData longStats
  3: DoubleColumnStatsData doubleStats
  4: StringColumnStatsData stringStats
  6: DecimalColumnStatsData decimalStats
  7: DateColumnStatsData dateStats
}
struct ColumnStatisticsObj {
  1: required string colName
  2: required string colType
  3: required ColumnStatisticsData statsData
}
struct ColumnStatisticsDesc {
  1: required bool isTblLevel
  2: required string dbName
  3: required string tableName
  4: optional string partName
  5: optional i64 lastAnalyzed
}
struct ColumnStatistics {
  1: required ColumnStatisticsDesc statsDesc
  2: required list<ColumnStatisticsObj> statsObj
  // Since 4.0: which engine's optimiser they are for.
  4: optional string engine
}
struct SetPartitionsStatsRequest {
  1: required list<ColumnStatistics> colStats
  2: optional bool needMerge
  5: optional string engine
}

service ThriftHiveMetastore {
  list<string> get_all_databases() throws (1: MetaException unwell)
  Database get_database(1: string name) throws (1: NoSuchObjectException missing, 2: MetaException unwell)
  void create_database(1: Database database)
    throws (1: AlreadyExistsException there, 2: InvalidObjectException invalid, 3: MetaException unwell)
  list<string> get_all_tables(1: string db_name) throws (1: MetaException unwell)
  // Gone since 4.0, which has get_table_req alone; releases before 2.3 have only this one.
  Table get_table(1: string dbname, 2: string tbl_name) throws (1: MetaException unwell, 2: NoSuchObjectException none)
  GetTableResult get_table_req(1: GetTableRequest req) throws (1: MetaException unwell, 2: NoSuchObjectException none)
  void create_table_with_environment_context(1: Table tbl, 2: EnvironmentContext environment_context)
    throws (1: AlreadyExistsException there, 2: InvalidObjectException invalid, 3: MetaException unwell,
            4: NoSuchObjectException none)
  void alter_table_with_environment_context(1: string dbname, 2: string tbl_name, 3: Table new_tbl,
                                            4: EnvironmentContext environment_context)
    throws (1: InvalidOperationException invalid, 2: MetaException unwell)
  void drop_table_with_environment_context(1: string dbname, 2: string name, 3: bool deleteData,
                                           4: EnvironmentContext environment_context)
    throws (1: NoSuchObjectException none, 2: MetaException unwell)
  // A negative number asks for all.
  list<Partition> get_partitions(1: string db_name, 2: string tbl_name, 3: i16 max_parts)
    throws (1: NoSuchObjectException none, 2: MetaException unwell)
  // Those of them that are there.
  list<Partition> get_partitions_by_names(1: string db_name, 2: string tbl_name, 3: list<string> names)
    throws (1: MetaException unwell, 2: NoSuchObjectException none)
  list<string> get_partition_names(1: string db_name, 2: string tbl_name, 3: i16 max_parts)
    throws (1: NoSuchObjectException none, 2: MetaException unwell)
  i32 add_partitions(1: list<Partition> new_parts)
    throws (1: InvalidObjectException invalid, 2: AlreadyExistsException there, 3: MetaException unwell)
  void alter_partitions_with_environment_context(1: string db_name, 2: string tbl_name, 3: list<Partition> new_parts,
                                                 4: EnvironmentContext environment_context)
    throws (1: InvalidOperationException invalid, 2: MetaException unwell)
  DropPartitionsResult drop_partitions_req(1: DropPartitionsRequest req)
    throws (1: NoSuchObjectException none, 2: MetaException unwell)
  // Of one table, or of several partitions of one. It marks them as accurate in the parameters of what they are of.
  bool set_aggr_stats_for(1: SetPartitionsStatsRequest request)
    throws (1: NoSuchObjectException none, 2: InvalidObjectException invalid, 3: MetaException unwell,
            4: InvalidInputException input)
}
