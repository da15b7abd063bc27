package hudicatalog.hive;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.lib.Node;
import org.apache.hadoop.hive.ql.parse.ASTNode;
import org.apache.hadoop.hive.ql.parse.BaseSemanticAnalyzer;
import org.apache.hadoop.hive.ql.parse.ParseDriver;
import org.apache.hadoop.hive.ql.parse.ParseException;

/**
 * CREATE TABLE ... LIKE a Hudi table.
 *
 * <p>Hive 4 gives the new table neither our storage handler nor EXTERNAL, and its metastore adds
 * {@code external.table.purge}: if its LOCATION is a Hudi table's folder, DROP TABLE deletes that. Hive does not call
 * our hook for such a table; it only asks the storage handler of the original table for its properties.
 */
final class LikeStatement {
  private LikeStatement() {}

  /** Refuse the statement that runs if it makes a table of Hive's own of a Hudi table's folder. */
  static void check(Configuration hive, String source) {
    ASTNode statement = parsed(HiveConf.getQueryString(hive));
    if (child(statement, "TOK_LIKETABLE") == null || child(statement, "TOK_STORAGEHANDLER") != null) {
      // With STORED BY, the hook is called.
      return;
    }
    ASTNode location = child(statement, "TOK_TABLELOCATION");
    if (location == null || location.getChildCount() == 0) {
      return;
    }
    String folder = BaseSemanticAnalyzer.unescapeSQLString(location.getChild(0).getText());
    Path hit;
    try {
      hit = HudiFolders.tableHit(hive, folder);
    } catch (IOException | RuntimeException e) {
      throw new HudiQueryException("CREATE TABLE ... LIKE " + source + ": whether " + folder + " has a Hudi table"
          + " cannot be seen: " + e, e);
    }
    if (hit != null) {
      throw new HudiQueryException("CREATE TABLE ... LIKE " + source + " LOCATION '" + folder + "' would make a table"
          + " that is not read as a Hudi table, and DROP TABLE would delete the files of the Hudi table at " + hit
          + ": write CREATE EXTERNAL TABLE ... LIKE " + source + " STORED BY '" + HudiStorageHandler.class.getName()
          + "' LOCATION ..., or use `hudi-catalog sync`");
    }
  }

  /** The tree of a statement; null where it cannot be parsed. */
  static ASTNode parsed(String statement) {
    try {
      ASTNode tree = new ParseDriver().parse(statement == null ? "" : statement).getTree();
      return tree.getToken() == null && tree.getChildCount() > 0 ? (ASTNode) tree.getChild(0) : tree;
    } catch (ParseException | RuntimeException e) {
      // Such as a statement that an administrator has masked for logs.
      return null;
    }
  }

  private static ASTNode child(ASTNode parent, String kind) {
    if (parent == null || parent.getChildren() == null) {
      return null;
    }
    for (Node one : parent.getChildren()) {
      if (kind.equals(((ASTNode) one).getText())) {
        return (ASTNode) one;
      }
    }
    return null;
  }
}
