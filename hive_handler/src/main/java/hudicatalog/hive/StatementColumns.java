package hudicatalog.hive;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.apache.hadoop.hive.ql.lib.Node;
import org.apache.hadoop.hive.ql.parse.ASTNode;

/**
 * The columns of a table that a statement names, where its text tells: Hive asks a storage handler for a table's
 * properties while it compiles, and does not say which columns are read.
 */
final class StatementColumns {
  private static final Set<String> WITH_OTHER_COLUMNS = new HashSet<>(Arrays.asList("TOK_SUBQUERY", "TOK_SUBQUERY_EXPR",
      "TOK_CTE", "TOK_LATERAL_VIEW", "TOK_LATERAL_VIEW_OUTER", "TOK_PTBLFUNCTION", "TOK_UNIONALL"));

  private final Set<String> names = new LinkedHashSet<>();
  private final List<ASTNode> tables = new ArrayList<>();
  private boolean isWhole;
  private boolean isSimple = true;

  private StatementColumns() {}

  /**
   * The columns that the statement that is compiled reads of a table; null where that cannot be said, as of a query of
   * several tables, or of a view.
   *
   * @param statement the parsed statement, null if it could not be parsed
   * @param table database.table
   * @param declared names of the table's columns
   */
  static List<String> of(ASTNode statement, String table, List<String> declared) {
    StatementColumns seen = new StatementColumns();
    if (statement == null) {
      return null;
    }
    seen.visit(statement, null);
    if (!seen.isSimple || seen.tables.size() != 1 || !seen.isTable(table)) {
      return null;
    }
    List<String> read = new ArrayList<>(declared);
    if (!seen.isWhole) {
      read.retainAll(seen.names);
    }
    return read;
  }

  private void visit(ASTNode node, ASTNode parent) {
    String kind = node.getText();
    if ("TOK_TABREF".equals(kind)) {
      tables.add(node);
      return;
    }
    if (WITH_OTHER_COLUMNS.contains(kind)) {
      isSimple = false;
    } else if ("TOK_ALLCOLREF".equals(kind)) {
      isWhole = true;
    } else if (node.getChildCount() == 0 && !isOtherName(node, parent)) {
      names.add(plain(kind));
    }
    if (node.getChildren() != null) {
      for (Node child : node.getChildren()) {
        visit((ASTNode) child, node);
      }
    }
  }

  /** Whether a node is a function's name, or the name that the query gives to an expression. */
  private static boolean isOtherName(ASTNode node, ASTNode parent) {
    if (parent == null) {
      return false;
    }
    boolean isFirst = parent.getChild(0) == node;
    return "TOK_SELEXPR".equals(parent.getText()) ? !isFirst : parent.getText().startsWith("TOK_FUNCTION") && isFirst;
  }

  private boolean isTable(String table) {
    ASTNode reference = (ASTNode) tables.get(0).getChild(0);
    ASTNode last = (ASTNode) reference.getChild(reference.getChildCount() - 1);
    return last != null && table.toLowerCase(Locale.ROOT).endsWith("." + plain(last.getText()));
  }

  private static String plain(String identifier) {
    return identifier.replace("`", "").toLowerCase(Locale.ROOT);
  }
}
