package hudicatalog.hive;

import java.io.IOException;
import java.util.Collections;
import java.util.Iterator;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.metastore.MetaStorePreEventListener;
import org.apache.hadoop.hive.metastore.api.Database;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.events.PreAddPartitionEvent;
import org.apache.hadoop.hive.metastore.events.PreAlterTableEvent;
import org.apache.hadoop.hive.metastore.events.PreCreateTableEvent;
import org.apache.hadoop.hive.metastore.events.PreDropDatabaseEvent;
import org.apache.hadoop.hive.metastore.events.PreDropPartitionEvent;
import org.apache.hadoop.hive.metastore.events.PreDropTableEvent;
import org.apache.hadoop.hive.metastore.events.PreEventContext;

/**
 * Keeps a metastore from deleting folders with Hudi tables, whichever client asks; for
 * {@code hive.metastore.pre.event.listeners} in the metastore's configuration.
 *
 * <p>Only HiveServer2 calls {@link TableHook}, and only for tables of our storage handler. A metastore also deletes the
 * folders of databases, and those of tables of any format that are managed or have {@code external.table.purge}.
 */
public class FolderGuard extends MetaStorePreEventListener {
  private static final String TRUE = "TRUE";
  private static final String KEEP = "'EXTERNAL'='TRUE', 'external.table.purge'='FALSE'";

  public FolderGuard(Configuration conf) {
    super(conf);
  }

  @Override
  public void onEvent(PreEventContext event) throws MetaException {
    if (event instanceof PreCreateTableEvent) {
      checkKept(((PreCreateTableEvent) event).getTable());
    } else if (event instanceof PreAlterTableEvent) {
      Table before = ((PreAlterTableEvent) event).getOldTable();
      Table after = ((PreAlterTableEvent) event).getNewTable();
      if (!isOwned(before) || !location(before).equals(location(after))) {
        checkKept(after);
      }
    } else if (event instanceof PreDropTableEvent) {
      Table table = ((PreDropTableEvent) event).getTable();
      if (((PreDropTableEvent) event).getDeleteData() && isOwned(table)) {
        check(location(table), "DROP TABLE " + name(table), "first ALTER TABLE " + name(table) + " SET TBLPROPERTIES ("
            + KEEP + ")");
      }
    } else if (event instanceof PreAddPartitionEvent) {
      PreAddPartitionEvent add = (PreAddPartitionEvent) event;
      Iterator<Partition> added = add.getPartitions() == null ? add.getPartitionIterator()
          : add.getPartitions().iterator();
      checkPartitions(add.getTable(), added);
    } else if (event instanceof PreDropPartitionEvent && ((PreDropPartitionEvent) event).getDeleteData()) {
      PreDropPartitionEvent drop = (PreDropPartitionEvent) event;
      checkPartitions(drop.getTable(), drop.getPartitionIterator());
    } else if (event instanceof PreDropDatabaseEvent) {
      checkDatabase(((PreDropDatabaseEvent) event).getDatabase());
    }
  }

  /** A table that is made, or becomes one, whose files the metastore deletes with it. */
  private void checkKept(Table table) throws MetaException {
    if (isOwned(table)) {
      check(location(table), "table " + name(table) + " belongs to Hive, and DROP TABLE",
          "make it an external one: " + KEEP);
    }
  }

  /** Partitions that lie elsewhere than their table. */
  private void checkPartitions(Table table, Iterator<Partition> partitions) throws MetaException {
    if (table == null || !isOwned(table) || location(table).isEmpty()) {
      return;
    }
    String own = location(table);
    for (Iterator<Partition> all = partitions == null ? Collections.<Partition>emptyIterator() : partitions;
        all.hasNext();) {
      Partition partition = all.next();
      String location = partition.getSd() == null ? null : partition.getSd().getLocation();
      if (location != null && !location.isEmpty() && !HudiFolders.isInside(location, own)) {
        check(location, "a partition of table " + name(table) + " belongs to Hive, which",
            "make it an external table: " + KEEP);
      }
    }
  }

  private void checkDatabase(Database database) throws MetaException {
    for (String folder : HudiFolders.ofDatabase(getConf(), database)) {
      check(folder, "DROP DATABASE " + database.getName(), "first give the database another folder by ALTER DATABASE "
          + database.getName() + " SET LOCATION (or MANAGEDLOCATION)");
    }
  }

  private void check(String folder, String who, String advice) throws MetaException {
    if (folder.isEmpty()) {
      return;
    }
    Path hit;
    try {
      hit = HudiFolders.tableHit(getConf(), folder);
    } catch (IOException | RuntimeException e) {
      throw new MetaException(who + " would delete " + folder + ", and whether a Hudi table lies there cannot be seen: "
          + e);
    }
    if (hit != null) {
      throw new MetaException(who + " would delete files of the Hudi table at " + hit + " with the folder " + folder
          + "; " + advice);
    }
  }

  /** Whether the metastore deletes a table's files with it; as its own code decides it. */
  private static boolean isOwned(Table table) {
    Map<String, String> parameters = table.getParameters();
    if (parameters == null || !TRUE.equalsIgnoreCase(parameters.get("EXTERNAL"))) {
      return true;
    }
    return TRUE.equalsIgnoreCase(parameters.get("external.table.purge"));
  }

  /** A table's folder; empty for views, and where the metastore chooses one. */
  private static String location(Table table) {
    String location = table.getSd() == null ? null : table.getSd().getLocation();
    return location == null ? "" : location;
  }

  private static String name(Table table) {
    return table.getDbName() + "." + table.getTableName();
  }
}
