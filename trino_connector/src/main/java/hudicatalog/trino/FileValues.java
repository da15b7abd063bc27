package hudicatalog.trino;

import io.airlift.slice.Slices;
import io.trino.spi.predicate.TupleDomain;

/** The values of a split's hidden columns, which are the same for all its rows. */
record FileValues(String path, String partition, long fileSize) {
  static FileValues of(HudiSplit split) {
    return new FileValues(split.path(), split.partition(), split.fileSize());
  }

  /** A hidden column's value as Trino has it. */
  Object value(HudiColumn column) {
    return switch (column.kind()) {
      case PATH -> path.isEmpty() ? null : Slices.utf8Slice(path);
      case PARTITION -> Slices.utf8Slice(partition);
      case FILE_SIZE -> fileSize;
      case DATA, ANSWER -> throw new IllegalArgumentException(column + " is read from the file");
    };
  }

  /** Whether rows of these values may be in a domain. */
  boolean mayMatch(TupleDomain<HudiColumn> domain) {
    return !domain.isNone() && domain.getDomains().orElseThrow().entrySet().stream().allMatch(
        entry -> entry.getKey().holdsData() || entry.getValue().includesNullableValue(value(entry.getKey())));
  }
}
