package hudicatalog.trino;

import com.fasterxml.jackson.databind.JsonNode;
import io.trino.spi.Page;
import io.trino.spi.block.Block;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ConnectorPageSource;
import io.trino.spi.connector.ConnectorSplit;
import io.trino.spi.connector.FixedPageSource;
import io.trino.spi.type.DecimalType;
import io.trino.spi.type.Int128;
import io.trino.spi.type.Type;
import io.trino.spi.type.TypeUtils;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.List;

/** The one row of a scan whose aggregates statistics answered. */
final class AnswerPages {
  private AnswerPages() {}

  /** The one split of such a scan. */
  public record Split(int rows) implements ConnectorSplit {
    @Override
    public long getRetainedSizeInBytes() {
      return 16;
    }
  }

  static ConnectorPageSource of(Pushed pushed, List<ColumnHandle> columns) {
    JsonNode values = ServiceClient.tree(pushed.values());
    Block[] blocks = columns.stream().map(one -> {
      HudiColumn column = (HudiColumn) one;
      return TypeUtils.writeNativeValue(column.type(), value(column.type(), values.get(pushed.answered().indexOf(column))));
    }).toArray(Block[]::new);
    return new FixedPageSource(List.of(new Page(1, blocks)));
  }

  private static Object value(Type type, JsonNode value) {
    if (value.isNull()) {
      return null;
    }
    if (!(type instanceof DecimalType decimal)) {
      return value.longValue(); // whole numbers and dates
    }
    BigInteger unscaled = new BigDecimal(value.textValue()).setScale(decimal.getScale()).unscaledValue();
    return decimal.isShort() ? (Object) unscaled.longValueExact() : Int128.valueOf(unscaled);
  }
}
