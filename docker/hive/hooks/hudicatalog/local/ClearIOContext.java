package hudicatalog.local;

import org.apache.hadoop.hive.ql.hooks.ExecuteWithHookContext;
import org.apache.hadoop.hive.ql.hooks.HookContext;
import org.apache.hadoop.hive.ql.io.IOContextMap;

/**
 * Run before each query of a HiveServer2 on Tez's local mode. There all queries share one static map of reading states, and a
 * task that failed leaves its mark in it: every later query would then end without rows and without an error.
 */
public class ClearIOContext implements ExecuteWithHookContext {
  @Override
  public void run(HookContext context) {
    IOContextMap.clear();
  }
}
