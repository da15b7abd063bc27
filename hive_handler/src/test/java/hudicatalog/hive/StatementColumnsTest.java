package hudicatalog.hive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;

class StatementColumnsTest {
  private static final List<String> DECLARED = Arrays.asList("id", "name", "year");

  private static List<String> of(String statement) {
    return StatementColumns.of(LikeStatement.parsed(statement), "db.t", DECLARED);
  }

  @Test
  void columnsThatAStatementNames() {
    assertEquals(DECLARED, of("SELECT * FROM db.t"));
    assertEquals(DECLARED, of("SELECT x.* FROM T x WHERE id = 3"));
    assertEquals(Arrays.asList("id", "name"), of("SELECT `Name` FROM t WHERE t.id > 1"));
    assertEquals(Collections.emptyList(), of("SELECT count(*) FROM t"));
    assertEquals(Arrays.asList("id"), of("EXPLAIN SELECT year(current_date), 'name', id AS name FROM t"));
    assertEquals(Arrays.asList("id"), of("INSERT INTO other SELECT id FROM t"));
  }

  @Test
  void whereTheTextDoesNotTell() {
    assertNull(of("SELECT * FROM t JOIN s ON t.id = s.id"));
    assertNull(of("SELECT * FROM (SELECT id FROM t) s"));
    assertNull(of("WITH s AS (SELECT id FROM t) SELECT * FROM s"));
    assertNull(of("SELECT * FROM a_view"));
    assertNull(of("SELECT FROM WHERE"));
    assertNull(StatementColumns.of(null, "db.t", DECLARED));
  }
}
