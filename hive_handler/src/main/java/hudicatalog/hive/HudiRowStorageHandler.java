package hudicatalog.hive;

import org.apache.hadoop.mapred.InputFormat;

/** For tables with lists, maps or structs. */
public class HudiRowStorageHandler extends HudiStorageHandler {
  @Override
  @SuppressWarnings("rawtypes")
  public Class<? extends InputFormat> getInputFormatClass() {
    return HudiRowInputFormat.class;
  }
}
