package hudicatalog.trino;

import io.trino.spi.NodeManager;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorSplitManager;
import io.trino.spi.connector.ConnectorSplitSource;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.ConnectorTransactionHandle;
import io.trino.spi.connector.Constraint;
import io.trino.spi.connector.DynamicFilter;
import io.trino.spi.connector.FixedSplitSource;

/** Gives the splits of a scan, which the service plans. */
final class HudiSplitManager implements ConnectorSplitManager {
  private final ServiceClient service;
  private final NodeManager nodes;

  HudiSplitManager(ServiceClient service, NodeManager nodes) {
    this.service = service;
    this.nodes = nodes;
  }

  @Override
  public ConnectorSplitSource getSplits(ConnectorTransactionHandle transaction, ConnectorSession session,
      ConnectorTableHandle handle, DynamicFilter dynamicFilter, Constraint constraint) {
    if (!((HudiTable) handle).pushed().answered().isEmpty()) {
      return new FixedSplitSource(new AnswerPages.Split(1));
    }
    return new HudiSplitSource(service, (HudiTable) handle, session.getQueryId(), dynamicFilter,
        SessionOptions.waitMillis(session), nodes.getRequiredWorkerNodes().size());
  }
}
