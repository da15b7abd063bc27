package hudicatalog.trino;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.connector.ColumnMetadata;
import io.trino.spi.connector.ConnectorPageSource;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorTableMetadata;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.connector.FixedPageSource;
import io.trino.spi.connector.SchemaTableName;
import io.trino.spi.connector.SystemTable;
import io.trino.spi.predicate.TupleDomain;
import java.nio.ByteBuffer;
import java.util.List;

/** A table about a table, such as {@code "orders$timeline"}, whose rows the service makes. */
final class ServedSystemTable implements SystemTable {
  private final ServiceClient service;
  private final ConnectorTableMetadata metadata;
  private final List<HudiColumn> columns;
  private final ObjectNode request;

  ServedSystemTable(ServiceClient service, SchemaTableName name, List<HudiColumn> columns, ObjectNode request) {
    this.service = service;
    this.metadata = new ConnectorTableMetadata(name,
        columns.stream().map(column -> new ColumnMetadata(column.name(), column.type())).toList());
    this.columns = columns;
    this.request = request;
  }

  @Override
  public Distribution getDistribution() {
    return Distribution.SINGLE_COORDINATOR;
  }

  @Override
  public ConnectorTableMetadata getTableMetadata() {
    return metadata;
  }

  @Override
  public ConnectorPageSource pageSource(ConnectorTransactionHandle transaction, ConnectorSession session,
      TupleDomain<Integer> constraint) {
    byte[] reply = service.bytes("hudiSystemTable", request.deepCopy().put("wanted", "rows"));
    return new FixedPageSource(List.of(
        PageDecoder.page(ByteBuffer.wrap(reply), columns.stream().map(HudiColumn::type).toList())));
  }
}
