package hudicatalog.trino;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.AggregateFunction;
import io.trino.spi.connector.AggregationApplicationResult;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ColumnMetadata;
import io.trino.spi.connector.ConnectorMetadata;
import io.trino.spi.connector.ConnectorPartitioningHandle;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.ConnectorTableMetadata;
import io.trino.spi.connector.ConnectorTableProperties;
import io.trino.spi.connector.ConnectorTableVersion;
import io.trino.spi.connector.Constraint;
import io.trino.spi.connector.ConstraintApplicationResult;
import io.trino.spi.connector.LimitApplicationResult;
import io.trino.spi.connector.ProjectionApplicationResult;
import io.trino.spi.connector.RelationColumnsMetadata;
import io.trino.spi.connector.RelationCommentMetadata;
import io.trino.spi.connector.SchemaTableName;
import io.trino.spi.connector.SortItem;
import io.trino.spi.connector.SystemTable;
import io.trino.spi.connector.TableNotFoundException;
import io.trino.spi.connector.TopNApplicationResult;
import io.trino.spi.expression.ConnectorExpression;
import io.trino.spi.predicate.TupleDomain;
import io.trino.spi.statistics.ColumnStatistics;
import io.trino.spi.statistics.DoubleRange;
import io.trino.spi.statistics.Estimate;
import io.trino.spi.statistics.TableStatistics;
import io.trino.spi.type.BigintType;
import io.trino.spi.type.TypeManager;
import io.trino.spi.type.VarcharType;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.UnaryOperator;

/** What Trino asks of tables. Made for each transaction and used by one thread at a time, so it keeps answers. */
final class HudiMetadata implements ConnectorMetadata {
  private static final List<HudiColumn> FILE_COLUMNS = List.of(
      HudiColumn.of("$path", VarcharType.VARCHAR, HudiColumn.Kind.PATH),
      HudiColumn.of("$file_size", BigintType.BIGINT, HudiColumn.Kind.FILE_SIZE),
      HudiColumn.of("$partition", VarcharType.VARCHAR, HudiColumn.Kind.PARTITION));

  private final ServiceClient service;
  private final TypeManager types;
  private final Bucketing bucketing;
  /** Descriptions by table, version and query type: all that a query reads of a table is of one snapshot. */
  private final Map<List<Object>, Optional<JsonNode>> described = new HashMap<>();
  private final Map<HudiTable, TableStatistics> statistics = new HashMap<>();

  HudiMetadata(ServiceClient service, TypeManager types) {
    this.service = service;
    this.types = types;
    this.bucketing = new Bucketing(service);
  }

  @Override
  public List<String> listSchemaNames(ConnectorSession session) {
    return listTables(session, Optional.empty()).stream().map(SchemaTableName::getSchemaName).distinct().toList();
  }

  @Override
  public List<SchemaTableName> listTables(ConnectorSession session, Optional<String> schema) {
    ObjectNode request = ServiceClient.object();
    schema.ifPresent(name -> request.put("schema", name));
    List<SchemaTableName> names = new ArrayList<>();
    for (JsonNode name : service.ask("hudiTables", request).get("tables")) {
      names.add(new SchemaTableName(name.get(0).asText(), name.get(1).asText()));
    }
    return names;
  }

  @Override
  public ConnectorTableHandle getTableHandle(ConnectorSession session, SchemaTableName name,
      Optional<ConnectorTableVersion> start, Optional<ConnectorTableVersion> end) {
    if (start.isPresent()) {
      throw HudiErrorCode.BAD_VERSION.exception("Hudi tables are read as of one version, not from one to another", null);
    }
    if (name.getTableName().contains("$")) {
      return null; // a system table, or none
    }
    ObjectNode request = ServiceClient.object().put("schema", name.getSchemaName()).put("table", name.getTableName())
        .put("query_type", SessionOptions.queryType(session)).put("query", session.getQueryId());
    end.ifPresent(version -> VersionTexts.put(request, version, session.getTimeZoneKey().getZoneId()));
    Optional<JsonNode> description = described.computeIfAbsent(
        List.of(name, request.path("version").asText(), request.path("micros").asText(),
            SessionOptions.queryType(session)),
        _ -> Optional.of(service.ask("hudiTable", request)).filter(JsonNode::isObject));
    if (description.isEmpty()) {
      return null; // the engine says that there is no such table
    }
    JsonNode table = description.get();
    HudiTable handle = new HudiTable(name, table.get("pin").asText(), table.path("instant").asText("no commit"),
        SessionOptions.queryType(session), TupleDomain.all(), List.of(), Pushed.NONE, Optional.empty());
    described.put(key(handle), description);
    return handle;
  }

  private static List<Object> key(HudiTable table) {
    return List.of(table.name(), table.pin(), table.queryType());
  }

  private JsonNode description(HudiTable table) {
    return described.computeIfAbsent(key(table), _ -> {
      // The service takes a pin wherever it takes a version.
      ObjectNode request = table.request("").put("version", table.pin());
      return Optional.of(service.ask("hudiTable", request)).filter(JsonNode::isObject);
    }).orElseThrow(() -> new TableNotFoundException(table.name()));
  }

  private HudiColumn column(JsonNode one) {
    return HudiColumn.of(one.get("name").asText(), types.fromSqlType(one.get("type").asText()), HudiColumn.Kind.DATA);
  }

  private List<ColumnMetadata> columns(JsonNode table) {
    Set<String> partitioned = new HashSet<>();
    table.path("partitioned_by").forEach(name -> partitioned.add(name.asText()));
    List<ColumnMetadata> columns = new ArrayList<>();
    for (JsonNode one : table.get("columns")) {
      HudiColumn column = column(one);
      columns.add(ColumnMetadata.builder()
          .setName(column.name())
          .setType(column.type())
          .setComment(Optional.ofNullable(one.path("comment").textValue()))
          .setExtraInfo(partitioned.contains(column.name()) ? Optional.of("partition key") : Optional.empty())
          .setHidden(one.get("hidden").asBoolean())
          .build());
    }
    FILE_COLUMNS.forEach(column -> columns.add(metadata(column)));
    return columns;
  }

  private static ColumnMetadata metadata(HudiColumn column) {
    return ColumnMetadata.builder().setName(column.name()).setType(column.type()).setHidden(true).build();
  }

  @Override
  public ConnectorTableMetadata getTableMetadata(ConnectorSession session, ConnectorTableHandle handle) {
    HudiTable table = (HudiTable) handle;
    JsonNode description = description(table);
    return new ConnectorTableMetadata(table.name(), columns(description), Map.of(),
        Optional.ofNullable(description.path("comment").textValue()));
  }

  @Override
  public Map<String, ColumnHandle> getColumnHandles(ConnectorSession session, ConnectorTableHandle handle) {
    Map<String, ColumnHandle> columns = new LinkedHashMap<>();
    description((HudiTable) handle).get("columns").forEach(one -> columns.put(one.get("name").asText(), column(one)));
    FILE_COLUMNS.forEach(column -> columns.put(column.name(), column));
    return columns;
  }

  @Override
  public ColumnMetadata getColumnMetadata(ConnectorSession session, ConnectorTableHandle handle, ColumnHandle column) {
    String name = ((HudiColumn) column).name();
    if (!((HudiColumn) column).path().isEmpty() || ((HudiColumn) column).kind() == HudiColumn.Kind.ANSWER) {
      return metadata((HudiColumn) column);
    }
    return columns(description((HudiTable) handle)).stream().filter(one -> one.getName().equals(name)).findFirst()
        .orElseThrow();
  }

  @Override
  public Iterator<RelationColumnsMetadata> streamRelationColumns(ConnectorSession session, Optional<String> schema,
      UnaryOperator<Set<SchemaTableName>> filter) {
    List<RelationColumnsMetadata> relations = new ArrayList<>();
    for (JsonNode table : described(session, schema, filter)) {
      relations.add(RelationColumnsMetadata.forTable(name(table), columns(table)));
    }
    return relations.iterator();
  }

  @Override
  public Iterator<RelationCommentMetadata> streamRelationComments(ConnectorSession session, Optional<String> schema,
      UnaryOperator<Set<SchemaTableName>> filter) {
    List<RelationCommentMetadata> relations = new ArrayList<>();
    for (JsonNode table : described(session, schema, filter)) {
      relations.add(RelationCommentMetadata.forRelation(name(table),
          Optional.ofNullable(table.path("comment").textValue())));
    }
    return relations.iterator();
  }

  /** Columns of many tables by one call. */
  private JsonNode described(ConnectorSession session, Optional<String> schema,
      UnaryOperator<Set<SchemaTableName>> filter) {
    ObjectNode request = ServiceClient.object();
    ArrayNode names = request.putArray("names");
    filter.apply(new HashSet<>(listTables(session, schema)))
        .forEach(name -> names.addArray().add(name.getSchemaName()).add(name.getTableName()));
    return names.isEmpty() ? names : service.ask("hudiColumns", request).get("tables");
  }

  private static SchemaTableName name(JsonNode table) {
    return new SchemaTableName(table.get("schema").asText(), table.get("table").asText());
  }

  @Override
  public Optional<ConstraintApplicationResult<ConnectorTableHandle>> applyFilter(ConnectorSession session,
      ConnectorTableHandle handle, Constraint constraint) {
    HudiTable table = (HudiTable) handle;
    TupleDomain<HudiColumn> domain =
        table.constraint().intersect(constraint.getSummary().transformKeys(HudiColumn.class::cast));
    List<String> conditions =
        Conditions.joined(table.conditions(), constraint.getExpression(), constraint.getAssignments());
    HudiTable filtered = table.with(domain, conditions);
    if (filtered.equals(table) || !table.pushed().isNone()) {
      return Optional.empty(); // or the optimizer would go on for ever
    }
    Set<String> enforced = enforced(filtered, session);
    // Plans leave out files and row groups: the engine checks each row again by all other columns.
    TupleDomain<ColumnHandle> remaining =
        constraint.getSummary().filter((column, _) -> !enforced.contains(((HudiColumn) column).name()));
    return Optional.of(new ConstraintApplicationResult<>(filtered, remaining, constraint.getExpression(), false));
  }

  /** Partition columns by which every row of the planned files passes. */
  private Set<String> enforced(HudiTable table, ConnectorSession session) {
    Set<String> partitioned = new HashSet<>();
    description(table).path("partitioned_by").forEach(name -> partitioned.add(name.asText()));
    TupleDomain<HudiColumn> domain = table.constraint().filter(
        (column, one) -> partitioned.contains(column.name()) && Domains.isSentWhole(column.type(), one));
    if (domain.isNone() || domain.isAll()) {
      return Set.of();
    }
    ObjectNode request = table.request(session.getQueryId());
    request.set("domains", Domains.json(List.of(domain)));
    Set<String> enforced = new HashSet<>();
    service.ask("hudiEnforced", request).get("columns").forEach(name -> enforced.add(name.asText()));
    return enforced;
  }

  @Override
  public Optional<LimitApplicationResult<ConnectorTableHandle>> applyLimit(ConnectorSession session,
      ConnectorTableHandle handle, long limit) {
    return new Pushdowns(service).limit((HudiTable) handle, limit);
  }

  @Override
  public Optional<TopNApplicationResult<ConnectorTableHandle>> applyTopN(ConnectorSession session,
      ConnectorTableHandle handle, long count, List<SortItem> items, Map<String, ColumnHandle> assignments) {
    return new Pushdowns(service).topN((HudiTable) handle, count, items, assignments);
  }

  @Override
  public Optional<AggregationApplicationResult<ConnectorTableHandle>> applyAggregation(ConnectorSession session,
      ConnectorTableHandle handle, List<AggregateFunction> aggregates, Map<String, ColumnHandle> assignments,
      List<List<ColumnHandle>> groups) {
    return new Pushdowns(service).aggregation(session, (HudiTable) handle, aggregates, assignments, groups);
  }

  @Override
  public Optional<ProjectionApplicationResult<ConnectorTableHandle>> applyProjection(ConnectorSession session,
      ConnectorTableHandle handle, List<ConnectorExpression> projections, Map<String, ColumnHandle> assignments) {
    return Pushdowns.projection((HudiTable) handle, projections, assignments);
  }

  @Override
  public ConnectorTableProperties getTableProperties(ConnectorSession session, ConnectorTableHandle handle) {
    return new ConnectorTableProperties(TupleDomain.all(), Bucketing.of((HudiTable) handle), Optional.empty(), List.of());
  }

  @Override
  public Optional<ConnectorTableHandle> applyPartitioning(ConnectorSession session, ConnectorTableHandle handle,
      Optional<ConnectorPartitioningHandle> wanted, List<ColumnHandle> columns) {
    return bucketing.apply(session, (HudiTable) handle, wanted, columns, getColumnHandles(session, handle));
  }

  @Override
  public Optional<ConnectorPartitioningHandle> getCommonPartitioningHandle(ConnectorSession session,
      ConnectorPartitioningHandle left, ConnectorPartitioningHandle right) {
    return Bucketing.common(left, right);
  }

  @Override
  public TableStatistics getTableStatistics(ConnectorSession session, ConnectorTableHandle handle) {
    HudiTable table = ((HudiTable) handle).withoutBuckets();
    TableStatistics known = statistics.get(table);
    if (known == null) {
      known = loadStatistics(table, session);
      statistics.put(table, known);
    }
    return known;
  }

  private TableStatistics loadStatistics(HudiTable table, ConnectorSession session) {
    if (!table.pushed().answered().isEmpty()) {
      return TableStatistics.builder().setRowCount(Estimate.of(1)).build();
    }
    JsonNode answer =
        service.ask("hudiStatistics", table.request(session.getQueryId(), List.of(table.constraint())));
    if (!answer.path("estimated_rows").isNumber()) {
      return TableStatistics.empty();
    }
    TableStatistics.Builder all =
        TableStatistics.builder().setRowCount(Estimate.of(answer.get("estimated_rows").asDouble()));
    getColumnHandles(session, table).forEach((name, column) -> {
      JsonNode one = answer.path("columns").path(name);
      if (one.isObject()) {
        ColumnStatistics.Builder statistics = ColumnStatistics.builder();
        if (one.has("nulls")) {
          statistics.setNullsFraction(Estimate.of(one.get("nulls").asDouble()));
        }
        if (one.has("low")) {
          statistics.setRange(new DoubleRange(one.get("low").asDouble(), one.get("high").asDouble()));
        }
        if (one.has("distinct")) {
          statistics.setDistinctValuesCount(Estimate.of(one.get("distinct").asDouble()));
        }
        if (one.has("bytes")) {
          statistics.setDataSize(Estimate.of(one.get("bytes").asDouble()));
        }
        all.setColumnStatistics(column, statistics.build());
      }
    });
    return all.build();
  }

  @Override
  public Optional<SystemTable> getSystemTable(ConnectorSession session, SchemaTableName name) {
    int dollar = name.getTableName().lastIndexOf('$');
    if (dollar <= 0) {
      return Optional.empty();
    }
    ObjectNode request = ServiceClient.object().put("schema", name.getSchemaName())
        .put("table", name.getTableName().substring(0, dollar)).put("kind", name.getTableName().substring(dollar + 1));
    JsonNode answer = service.ask("hudiSystemTable", request.deepCopy().put("wanted", "columns"));
    if (!answer.isObject()) {
      return Optional.empty();
    }
    List<HudiColumn> columns = new ArrayList<>();
    answer.get("columns").forEach(one -> columns.add(column(one)));
    return Optional.of(new ServedSystemTable(service, name, columns, request));
  }
}
