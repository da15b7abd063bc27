package hudicatalog.trino;

import io.trino.spi.Plugin;
import io.trino.spi.connector.Connector;
import io.trino.spi.connector.ConnectorContext;
import io.trino.spi.connector.ConnectorFactory;
import java.util.List;
import java.util.Map;

/** The plugin, found by Trino through META-INF/services. */
public final class HudiPlugin implements Plugin {
  @Override
  public Iterable<ConnectorFactory> getConnectorFactories() {
    return List.of(new Factory());
  }

  private static final class Factory implements ConnectorFactory {
    @Override
    public String getName() {
      return "hudi_catalog";
    }

    @Override
    public Connector create(String catalogName, Map<String, String> config, ConnectorContext context) {
      ConnectorSettings settings = ConnectorSettings.of(config, context.getSpiVersion(), Release.TRINO);
      FileSystems files = new FileSystems(settings, context.getOpenTelemetry());
      return new HudiConnector(new ServiceClient(settings), files, context.getTypeManager(), context.getNodeManager());
    }
  }
}
