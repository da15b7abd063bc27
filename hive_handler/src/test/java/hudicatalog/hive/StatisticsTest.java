package hudicatalog.hive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.hive.common.StatsSetupConst;
import org.apache.thrift.TApplicationException;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TField;
import org.apache.thrift.protocol.TList;
import org.apache.thrift.protocol.TMessage;
import org.apache.thrift.protocol.TMessageType;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.protocol.TType;
import org.apache.thrift.transport.TMemoryBuffer;
import org.junit.jupiter.api.Test;

class StatisticsTest {
  @Test
  void statisticsAreRead() throws Exception {
    Messages.Statistics statistics = Messages.readStatistics(reply());
    assertEquals(3L, statistics.files);
    assertEquals(700L, statistics.bytes);
    assertEquals(40L, statistics.rows);
    assertTrue(statistics.exact);
    Messages.Column column = statistics.columns.get(0);
    assertEquals("id", column.name);
    assertEquals(1.5, column.low);
    assertEquals(9L, column.distinct);
    assertNull(column.high);
  }

  @Test
  void repliesThatEndEarlyAreRefused() throws Exception {
    byte[] whole = reply();
    for (int size = 0; size < whole.length; size++) {
      byte[] cut = Arrays.copyOf(whole, size);
      assertThrows(TException.class, () -> Messages.readStatistics(cut));
    }
  }

  @Test
  void aServiceOfAnEarlierReleaseHasNone() throws Exception {
    assertNull(Messages.readStatistics(error(TApplicationException.UNKNOWN_METHOD)));
    byte[] other = error(TApplicationException.INTERNAL_ERROR);
    assertThrows(TException.class, () -> Messages.readStatistics(other));
  }

  @Test
  void countsAnswerAndColumnsNever() throws Exception {
    Map<String, String> parameters = new HashMap<>();
    StatsSetupConst.setBasicStatsState(parameters, StatsSetupConst.TRUE);
    StatsSetupConst.setColumnStatsState(parameters, Arrays.asList("id"));
    parameters.put("numRows", "7");
    TableStatistics.answerCounts(Messages.readStatistics(reply()), parameters);
    assertEquals("40", parameters.get("numRows"));
    assertTrue(StatsSetupConst.areBasicStatsUptoDate(parameters));
    assertFalse(StatsSetupConst.areColumnStatsUptoDate(parameters, "id"));
    StatsSetupConst.setColumnStatsState(parameters, Arrays.asList("id"));
    assertFalse(StatsSetupConst.areColumnStatsUptoDate(TableStatistics.without(parameters), "id"));
  }

  private static byte[] error(int kind) throws TException {
    TMemoryBuffer buffer = new TMemoryBuffer(100);
    TProtocol out = new TBinaryProtocol(buffer, true, true);
    out.writeMessageBegin(new TMessage(Messages.STATISTICS, TMessageType.EXCEPTION, 1));
    new TApplicationException(kind, "no").write(out);
    return Arrays.copyOf(buffer.getArray(), buffer.length());
  }

  private static byte[] reply() throws TException {
    TMemoryBuffer buffer = new TMemoryBuffer(100);
    TProtocol out = new TBinaryProtocol(buffer, true, true);
    out.writeMessageBegin(new TMessage(Messages.STATISTICS, TMessageType.REPLY, 1));
    out.writeFieldBegin(new TField("", TType.STRUCT, (short) 0));
    out.writeFieldBegin(new TField("", TType.I32, (short) 1));
    out.writeI32(2);
    for (int id = 2; id <= 4; id++) {
      out.writeFieldBegin(new TField("", TType.I64, (short) id));
      out.writeI64(new long[] {3, 700, 40}[id - 2]);
    }
    out.writeFieldBegin(new TField("", TType.BOOL, (short) 5));
    out.writeBool(true);
    out.writeFieldBegin(new TField("", TType.LIST, (short) 6));
    out.writeListBegin(new TList(TType.STRUCT, 1));
    out.writeFieldBegin(new TField("", TType.STRING, (short) 1));
    out.writeString("id");
    out.writeFieldBegin(new TField("", TType.DOUBLE, (short) 3));
    out.writeDouble(1.5);
    out.writeFieldBegin(new TField("", TType.I64, (short) 5));
    out.writeI64(9);
    out.writeFieldStop();
    out.writeFieldStop();
    out.writeFieldStop();
    return Arrays.copyOf(buffer.getArray(), buffer.length());
  }
}
