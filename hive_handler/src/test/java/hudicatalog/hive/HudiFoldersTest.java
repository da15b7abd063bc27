package hudicatalog.hive;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class HudiFoldersTest {
  @ParameterizedTest
  @CsvSource({
      "file:/data/d/t, file:/data/d, true",
      "file:///data/d/t/, file:/data/d/, true",
      "file:/data/d, file:/data/d, true",
      "file:/data//d/t, file:/data/d, true",
      "s3a://lake/d/t, s3://lake/d, true",
      "s3a://lake/d/t, s3a://lake/, true",
      "hdfs://n:8020/d/t, hdfs://n:8020/d, true",
      "file:/data/d2/t, file:/data/d, false",
      "file:/data/d, file:/data/d/t, false",
      "s3a://lake/d/t, s3a://sea/d, false",
      "s3a://lake/d/t, s3a://lake/D, false",
      "file:/data/a b/t, file:/data/a b, true",
  })
  void oneFolderLiesInAnother(String inner, String outer, boolean inside) {
    assertEquals(inside, HudiFolders.isInside(inner, outer));
  }
}
