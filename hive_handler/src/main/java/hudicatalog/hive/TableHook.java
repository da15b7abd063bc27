package hudicatalog.hive;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.DefaultHiveMetaHook;
import org.apache.hadoop.hive.metastore.api.EnvironmentContext;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.ql.metadata.Hive;
import org.apache.hadoop.hive.ql.metadata.HiveException;

/** Which tables may be registered, and that none is written or deleted. Hive calls it before it asks its metastore. */
public class TableHook extends DefaultHiveMetaHook {
  private static final String EXTERNAL = "EXTERNAL";
  private static final String EXTERNAL_TABLE = "EXTERNAL_TABLE";
  static final String NO_PARTITIONS = "it is registered without PARTITIONED BY: its partition columns are ordinary"
      + " columns here, and the service prunes by them";
  /** Hive leaves files out by their names then. */
  static final String NO_BUCKETS = "it is registered without CLUSTERED BY: its files are not Hive's buckets";
  private static final String PURGE = "external.table.purge";
  /** Property of entries that the sync keeps. */
  private static final String SYNCED = "hoodie.catalog.sync.target";
  private static final List<String> COLUMN_OPERATIONS =
      Arrays.asList("ADDCOLS", "REPLACE_COLUMNS", "RENAME_COLUMN", "UPDATE_COLUMNS");

  private final Configuration conf;

  TableHook(Configuration conf) {
    this.conf = conf;
  }

  @Override
  public void preCreateTable(Table table) throws MetaException {
    check(table);
    String location = table.getSd() == null ? null : table.getSd().getLocation();
    if (location == null || location.isEmpty()) {
      throw new MetaException("Hudi table " + name(table) + " has no location: write CREATE EXTERNAL TABLE ... LOCATION"
          + " 'folder of the table', or use `hudi-catalog sync`");
    }
  }

  @Override
  public void preAlterTable(Table table, EnvironmentContext context) throws MetaException {
    check(table);
    Map<String, String> properties = context == null ? null : context.getProperties();
    String operation = properties == null ? null : properties.get(ALTER_TABLE_OPERATION_TYPE);
    if (operation != null && COLUMN_OPERATIONS.contains(operation) && table.getParameters().containsKey(SYNCED)) {
      throw new MetaException("Hudi table " + name(table) + " gets its columns from its writer: add or change them there"
          + " (Spark, or hudi-catalog's writer), then run `hudi-catalog sync`, which brings them here. A column that only"
          + " Hive knows would make queries fail");
    }
  }

  private static void check(Table table) throws MetaException {
    checkKept(table);
    if (table.getPartitionKeysSize() > 0) {
      throw new MetaException("Hudi table " + name(table) + ": " + NO_PARTITIONS);
    }
    if (table.getSd() != null && table.getSd().getNumBuckets() > 0) {
      throw new MetaException("Hudi table " + name(table) + ": " + NO_BUCKETS);
    }
    String misplaced = Settings.misplaced(table.getParameters().keySet());
    if (misplaced != null) {
      throw new MetaException("Hudi table " + name(table) + ": " + misplaced + " belongs into Hive's configuration");
    }
  }

  /** Other entries and other engines read the same files: Hive must not delete them with an entry. */
  private static void checkKept(Table table) throws MetaException {
    Map<String, String> parameters = table.getParameters();
    // If both are given, the property decides.
    String external = parameters.get(EXTERNAL);
    boolean isExternal = external == null ? EXTERNAL_TABLE.equals(table.getTableType())
        : "TRUE".equalsIgnoreCase(external);
    if (!isExternal) {
      throw new MetaException("Hudi table " + name(table) + " would belong to Hive, which deletes the files of such"
          + " tables: write CREATE EXTERNAL TABLE ... LOCATION 'folder of the table', or use `hudi-catalog sync`; an"
          + " entry that is there already needs the property " + EXTERNAL + "=TRUE");
    }
    if ("TRUE".equalsIgnoreCase(parameters.get(PURGE))) {
      throw new MetaException("Hudi table " + name(table) + " has the property " + PURGE + ", by which Hive deletes its"
          + " files when the entry is dropped: set it to false");
    }
  }

  @Override
  public void preInsertTable(Table table, boolean overwrite) throws MetaException {
    throw new MetaException(ReadOnly.message(name(table)));
  }

  @Override
  public void preTruncateTable(Table table, EnvironmentContext context) throws MetaException {
    throw new MetaException(ReadOnly.message(name(table)));
  }

  @Override
  public void commitInsertTable(Table table, boolean overwrite) throws MetaException {
    throw new MetaException(ReadOnly.message(name(table)));
  }

  @Override
  public void rollbackInsertTable(Table table, boolean overwrite) {}

  @Override
  public void rollbackCreateTable(Table table) {}

  @Override
  public void commitCreateTable(Table table) {}

  /** DROP TABLE. */
  @Override
  public void preDropTable(Table table, boolean deleteData) throws MetaException {
    checkKept(table);
  }

  /** DROP DATABASE ... CASCADE, which asks about each table before it deletes the folder of the database as well. */
  @Override
  public void preDropTable(Table table) throws MetaException {
    checkKept(table);
    String location = table.getSd() == null ? null : table.getSd().getLocation();
    if (location == null) {
      return;
    }
    Set<String> folders;
    try {
      folders = HudiFolders.ofDatabase(conf, Hive.get().getDatabase(table.getDbName()));
    } catch (HiveException e) {
      throw new MetaException("Hudi table " + name(table) + ": where its database lies cannot be seen: " + e);
    }
    for (String folder : folders) {
      if (HudiFolders.isInside(location, folder)) {
        throw new MetaException("Hudi table " + name(table) + " lies at " + location + ", inside the folder " + folder
            + " of database " + table.getDbName() + ", which DROP DATABASE deletes with all that is in it: first give the"
            + " database another folder by ALTER DATABASE " + table.getDbName() + " SET LOCATION (or MANAGEDLOCATION)");
      }
    }
  }

  @Override
  public void rollbackDropTable(Table table) {}

  @Override
  public void commitDropTable(Table table, boolean deleteData) {}

  private static String name(Table table) {
    return table.getDbName() + "." + table.getTableName();
  }
}
