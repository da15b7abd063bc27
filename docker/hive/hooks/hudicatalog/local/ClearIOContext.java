package hudicatalog.local;

import java.lang.reflect.Field;
import java.util.Map;
import org.apache.hadoop.hive.ql.hooks.ExecuteWithHookContext;
import org.apache.hadoop.hive.ql.hooks.HookContext;
import org.apache.hadoop.hive.ql.io.IOContext;
import org.apache.hadoop.hive.ql.io.IOContextMap;

/**
 * Run before each query of a HiveServer2 on Tez's local mode. There all queries share one static map of reading states, and a
 * task that failed leaves its mark in it: every later query would then end without rows and without an error.
 *
 * <p>The states themselves stay: queries of other sessions may be reading by them.
 */
public class ClearIOContext implements ExecuteWithHookContext {
  @Override
  public void run(HookContext context) throws ReflectiveOperationException {
    Field states = IOContextMap.class.getDeclaredField("globalMap");
    states.setAccessible(true);
    for (Object state : ((Map<?, ?>) states.get(null)).values()) {
      ((IOContext) state).setIOExceptions(false);
    }
  }
}
