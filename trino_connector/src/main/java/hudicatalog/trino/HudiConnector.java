package hudicatalog.trino;

import io.trino.spi.NodeManager;
import io.trino.spi.connector.Connector;
import io.trino.spi.connector.ConnectorMetadata;
import io.trino.spi.connector.ConnectorNodePartitioningProvider;
import io.trino.spi.connector.ConnectorPageSourceProvider;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorSplitManager;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.session.PropertyMetadata;
import io.trino.spi.transaction.IsolationLevel;
import io.trino.spi.type.TypeManager;
import java.util.List;

/** The connector of one catalog. */
public final class HudiConnector implements Connector {
  private final ServiceClient service;
  private final TypeManager types;
  private final NodeManager nodes;
  private final FileSystems files;

  HudiConnector(ServiceClient service, FileSystems files, TypeManager types, NodeManager nodes) {
    this.service = service;
    this.files = files;
    this.types = types;
    this.nodes = nodes;
  }

  /** Tables are only read: all transactions are alike. */
  public enum Transaction implements ConnectorTransactionHandle {
    INSTANCE
  }

  @Override
  public ConnectorTransactionHandle beginTransaction(IsolationLevel isolation, boolean readOnly, boolean autoCommit) {
    return Transaction.INSTANCE;
  }

  @Override
  public ConnectorMetadata getMetadata(ConnectorSession session, ConnectorTransactionHandle transaction) {
    return new HudiMetadata(service, types);
  }

  @Override
  public ConnectorSplitManager getSplitManager() {
    return new HudiSplitManager(service, nodes);
  }

  @Override
  public ConnectorNodePartitioningProvider getNodePartitioningProvider() {
    return new HudiPartitioningProvider();
  }

  @Override
  public ConnectorPageSourceProvider getPageSourceProvider() {
    return new HudiPageSourceProvider(new SplitPages(service, files));
  }

  @Override
  public List<PropertyMetadata<?>> getSessionProperties() {
    return SessionOptions.ALL;
  }

  @Override
  public void shutdown() {
    files.close();
  }
}
