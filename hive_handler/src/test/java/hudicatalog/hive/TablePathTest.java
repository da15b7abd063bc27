package hudicatalog.hive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class TablePathTest {
  @ParameterizedTest
  @CsvSource({
      "file:/data/t, file:/data/t/a.parquet, file:/data/t/a.parquet",
      "file:/data/t, file:///data/t/a.parquet, file:/data/t/a.parquet",
      "file:///data/t/, file:/data/t/p=1/a.parquet, file:/data/t/p=1/a.parquet",
      "file:/data//t, file:/data/t/a.parquet, file:/data/t/a.parquet",
      "FILE:/data/t, file:/data/t/a.parquet, FILE:/data/t/a.parquet",
      "s3a://bucket/t, s3a://bucket/t/a.parquet, s3a://bucket/t/a.parquet",
      "s3a://bucket, s3a://bucket/a.parquet, s3a://bucket/a.parquet",
      "s3a://bucket/, s3a://bucket/p/a.parquet, s3a://bucket/p/a.parquet",
      "file:/data/t, file:/data/t/.hoodie/.catalog/hive/x.parquet, file:/data/t/.hoodie/.catalog/hive/x.parquet",
      "file:/data/t, file:/data/t/at=2026-01-01 10:00/a.parquet, file:/data/t/at=2026-01-01 10:00/a.parquet",
      "file:/data/t, file:/data/t/p=a%2Fb/a.parquet, file:/data/t/p=a%2Fb/a.parquet",
      "file:/data/t, file:/data/t/p=a\\b/a.parquet, file:/data/t/p=a\\b/a.parquet",
      "file:/data/t, file:/data/t/p=..a/a.parquet, file:/data/t/p=..a/a.parquet",
      "file:/data/a b, file:/data/a b/ü.parquet, file:/data/a b/ü.parquet",
  })
  void takesPathsInsideAndSpellsThemAsHiveDoes(String location, String path, String expected) throws IOException {
    assertEquals(expected, new TablePath(location).inside(path).toString());
  }

  @ParameterizedTest
  @ValueSource(strings = {
      "file:/data/other/a.parquet", "file:/data/t2/a.parquet", "file:/data/t", "file:/data/t/", "file:/data",
      "file:/data/t/../other/a.parquet", "file:/data/t/..", "file:/data/t/./a.parquet", "file:/data/t//a.parquet",
      "file:/data/t/a.parquet/", "file:/data/T/a.parquet", "file:/data/%74/a.parquet", "/data/t/a.parquet",
      "hdfs:/data/t/a.parquet", "file://host/data/t/a.parquet", "s3a://data/t/a.parquet", "data/t/a.parquet", "",
      "file:", "file:a.parquet", "a.parquet", "file:/data/t/a\u0000.parquet",
      "file:/data/t\\a.parquet", "file:///data/../data/t/a.parquet", "file:////data/t/a.parquet",
      "http://data/t/a.parquet"})
  void refusesAllOthers(String path) throws IOException {
    TablePath table = new TablePath("file:/data/t");
    assertThrows(IOException.class, () -> table.inside(path));
  }

  @ParameterizedTest
  @CsvSource({
      "s3a://bucket/t, s3a://other/t/a.parquet", "s3a://bucket/t, s3://bucket/t/a.parquet",
      "s3a://bucket, s3a://bucket", "s3a://bucket, s3a://bucket2/a.parquet", "s3a://bucket/T, s3a://bucket/t/a.parquet",
      "s3a://bucket/t, s3a://Bucket/t/a.parquet"})
  void refusesOtherBuckets(String location, String path) throws IOException {
    TablePath table = new TablePath(location);
    assertThrows(IOException.class, () -> table.inside(path));
  }

  @ParameterizedTest
  @ValueSource(strings = {"file:/data/../t", "file:/data/./t", "file:/..", "t", ""})
  void refusesLocationsThatAreNoFolders(String location) {
    assertThrows(IOException.class, () -> new TablePath(location));
  }

  @Test
  void nullIsNoPath() throws IOException {
    assertThrows(IOException.class, () -> new TablePath(null));
  }
}
