package hudicatalog.hive;

import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.ql.plan.TableDesc;
import org.apache.hadoop.mapred.InputFormat;

/** For tables with lists, maps or structs. */
public class HudiRowStorageHandler extends HudiStorageHandler {
  private static final String ROW_BY_ROW = "hive.vectorized.row.serde.inputformat.excludes";

  @Override
  @SuppressWarnings("rawtypes")
  public Class<? extends InputFormat> getInputFormatClass() {
    return HudiRowInputFormat.class;
  }

  /**
   * Hive vectorizes the rows of any input format except those on a list, which includes Parquet's: a struct
   * in a struct would fail. The list is read later in the same compilation.
   */
  @Override
  public void configureInputJobProperties(TableDesc table, Map<String, String> jobProperties) {
    super.configureInputJobProperties(table, jobProperties);
    Configuration hive = getConf();
    String known = hive.get(ROW_BY_ROW, "");
    String own = HudiRowInputFormat.class.getName();
    if (!known.contains(own)) {
      hive.set(ROW_BY_ROW, known.isEmpty() ? own : known + "," + own);
    }
  }
}
