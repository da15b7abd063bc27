package hudicatalog.trino;

import static io.trino.parquet.ParquetTypeUtils.constructField;
import static io.trino.parquet.ParquetTypeUtils.getColumnIO;
import static io.trino.parquet.ParquetTypeUtils.getDescriptors;
import static io.trino.parquet.ParquetTypeUtils.lookupColumnByName;
import static io.trino.parquet.predicate.PredicateUtils.buildPredicate;
import static io.trino.parquet.predicate.PredicateUtils.getFilteredRowGroups;

import hudicatalog.trino.ParquetPages.Output;
import io.trino.filesystem.Location;
import io.trino.filesystem.TrinoFileSystem;
import io.trino.parquet.Column;
import io.trino.parquet.Field;
import io.trino.parquet.ParquetCorruptionException;
import io.trino.parquet.ParquetDataSource;
import io.trino.parquet.ParquetReaderOptions;
import io.trino.parquet.metadata.BlockMetadata;
import io.trino.parquet.metadata.ParquetMetadata;
import io.trino.parquet.predicate.TupleDomainParquetPredicate;
import io.trino.parquet.reader.MetadataReader;
import io.trino.parquet.reader.ParquetReader;
import io.trino.parquet.reader.RowGroupInfo;
import io.trino.spi.TrinoException;
import io.trino.spi.connector.ConnectorPageSource;
import io.trino.spi.connector.EmptyPageSource;
import io.trino.spi.predicate.Domain;
import io.trino.spi.predicate.TupleDomain;
import io.trino.spi.type.Type;
import io.trino.spi.type.TypeUtils;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.io.MessageColumnIO;
import org.apache.parquet.schema.MessageType;
import org.joda.time.DateTimeZone;

/** Opens base files by Trino's Parquet reader, where it reads the table's values from them. */
final class ParquetFiles {
  /** More values of a column than this become ranges where they are compared with statistics. */
  private static final int MOST_VALUES = 1000;
  private static final ParquetReaderOptions OPTIONS = ParquetReaderOptions.defaultOptions();
  private static final ParquetReaderOptions WITHOUT_BLOOM_FILTERS =
      ParquetReaderOptions.builder().withBloomFilter(false).build();

  private final HudiSplit split;
  private final List<HudiColumn> columns;
  private final TupleDomain<HudiColumn> wanted;

  /**
   * A split's part of a file.
   *
   * @param columns in the order of the pages; data columns are looked up by name, without regard to case
   * @param wanted rows outside of it may be left out
   */
  ParquetFiles(HudiSplit split, List<HudiColumn> columns, TupleDomain<HudiColumn> wanted) {
    this.split = split;
    this.columns = columns;
    this.wanted = wanted;
  }

  /** Makes pages of the row groups with these ordinals by other means. */
  interface Otherwise extends Function<List<Integer>, ConnectorPageSource> {}

  /**
   * The pages of the split.
   *
   * @param otherwise for a file whose columns the reader would not give as the table's
   */
  ConnectorPageSource open(TrinoFileSystem files, Otherwise otherwise) {
    ParquetDataSource source = null;
    try {
      source = new FileSource(files.newInputFile(Location.of(split.path()), split.fileSize()), OPTIONS);
      ParquetMetadata footer = MetadataReader.readFooter(source, Optional.empty());
      ConnectorPageSource pages = isReadable(footer) ? read(source, footer) : null;
      if (pages == null) {
        List<Integer> ordinals = ordinals(source, footer);
        pages = ordinals.isEmpty() ? new EmptyPageSource() : otherwise.apply(ordinals);
      }
      if (!(pages instanceof ParquetPages)) {
        source.close();
      }
      return pages;
    } catch (IOException | RuntimeException e) {
      TrinoException error = error(e);
      try {
        if (source != null) {
          source.close();
        }
      } catch (IOException suppressed) {
        error.addSuppressed(suppressed);
      }
      throw error;
    }
  }

  private boolean isReadable(ParquetMetadata footer) {
    GroupFields fields = new GroupFields(footer.getFileMetaData().getSchema());
    return ServedPages.roots(columns).stream().allMatch(column -> fields.isUnambiguous(column.root())
        && fields.get(column.root()).map(stored -> StoredTypes.isReadable(column.type(), stored, paths(column))).orElse(true));
  }

  /** The type of a column with the fields that are read of it alone. */
  private Type pruned(HudiColumn column) {
    return RowFields.pruned(column.rootType(), paths(column));
  }

  private List<List<Integer>> paths(HudiColumn column) {
    return columns.stream().filter(one -> one.holdsData() && one.root().equals(column.root())).map(HudiColumn::path).toList();
  }

  private ConnectorPageSource read(ParquetDataSource source, ParquetMetadata footer) throws IOException {
    MessageType schema = footer.getFileMetaData().getSchema();
    GroupFields fields = new GroupFields(schema);
    Map<HudiColumn, Domain> domains = new HashMap<>(wanted.getDomains().orElseThrow());
    domains.keySet().removeIf(column -> !isComparable(column, fields));
    // Row groups may be filtered by columns that are not read.
    List<org.apache.parquet.schema.Type> requested = new ArrayList<>();
    for (org.apache.parquet.schema.Type field : schema.getFields()) {
      boolean isRead = columns.stream().anyMatch(one -> one.holdsData() && one.root().equalsIgnoreCase(field.getName()));
      if (isRead || domains.keySet().stream().anyMatch(one -> one.name().equalsIgnoreCase(field.getName()))) {
        requested.add(field);
      }
    }
    MessageType message = new MessageType(schema.getName(), requested);
    Map<List<String>, ColumnDescriptor> descriptors = getDescriptors(schema, message);
    Map<ColumnDescriptor, Domain> byDescriptor = new LinkedHashMap<>();
    domains.forEach((column, domain) -> byDescriptor.put(
        descriptors.get(List.of(fields.get(column.name()).orElseThrow().getName())), domain));
    TupleDomain<ColumnDescriptor> domain = TupleDomain.withColumnDomains(byDescriptor);
    boolean areHashedAlike = domains.keySet().stream().allMatch(column -> StoredTypes.isHashedAlike(
        column.type(), fields.get(column.name()).orElseThrow().asPrimitiveType()));
    List<RowGroupInfo> groups = rowGroups(source, footer, message, descriptors, domain,
        areHashedAlike ? OPTIONS : WITHOUT_BLOOM_FILTERS);
    if (groups.isEmpty()) {
      return new EmptyPageSource();
    }

    MessageColumnIO io = getColumnIO(schema, message);
    List<Column> read = new ArrayList<>();
    List<Output> outputs = new ArrayList<>();
    Map<String, Integer> channels = new HashMap<>();
    for (HudiColumn column : columns) {
      if (!column.holdsData()) {
        Object value = FileValues.of(split).value(column);
        outputs.add(new Output.Same(TypeUtils.writeNativeValue(column.type(), value)));
        continue;
      }
      Optional<Field> field = constructField(pruned(column), lookupColumnByName(io, column.root()));
      if (field.isEmpty()) { // the file was written before the table had the column
        outputs.add(new Output.Same(TypeUtils.writeNativeValue(column.type(), null)));
        continue;
      }
      outputs.add(new Output.Read(channels.computeIfAbsent(column.root(), name -> {
        read.add(new Column(name, field.get()));
        return read.size() - 1;
      }), RowFields.place(column.rootType(), paths(column), column.path())));
    }
    // The reader takes a column of the predicate that it does not read for all null, and drops every row.
    TupleDomain<ColumnDescriptor> ofRead = domain.filter((descriptor, _) ->
        channels.keySet().stream().anyMatch(name -> name.equalsIgnoreCase(descriptor.getPath()[0])));
    TupleDomainParquetPredicate pages = buildPredicate(message, ofRead, descriptors, DateTimeZone.UTC);
    ParquetReader reader = Release.reader(footer.getFileMetaData().getCreatedBy(), read, groups, source, OPTIONS,
        this::error, pages);
    return new ParquetPages(reader, outputs, this::error);
  }

  private boolean isComparable(HudiColumn column, GroupFields fields) {
    return column.isWhole() && !split.renamed().contains(column.name()) && fields.isUnambiguous(column.name())
        && fields.get(column.name()).filter(stored -> stored.isPrimitive()
            && StoredTypes.isReadable(column.type(), stored)
            && StoredTypes.isComparable(column.type(), stored.asPrimitiveType())).isPresent();
  }

  private List<RowGroupInfo> rowGroups(ParquetDataSource source, ParquetMetadata footer, MessageType message,
      Map<List<String>, ColumnDescriptor> descriptors, TupleDomain<ColumnDescriptor> domain,
      ParquetReaderOptions options) throws IOException {
    TupleDomainParquetPredicate predicate = buildPredicate(message, domain, descriptors, DateTimeZone.UTC);
    return getFilteredRowGroups(split.start(), split.length(), source, footer, List.of(domain), List.of(predicate),
        descriptors, DateTimeZone.UTC, MOST_VALUES, options);
  }

  /** Ordinals of the split's row groups. */
  private List<Integer> ordinals(ParquetDataSource source, ParquetMetadata footer) throws IOException {
    MessageType schema = footer.getFileMetaData().getSchema();
    Map<List<String>, ColumnDescriptor> descriptors = getDescriptors(schema, schema);
    List<Long> own = rowGroups(source, footer, schema, descriptors, TupleDomain.all(), OPTIONS)
        .stream().map(RowGroupInfo::fileRowOffset).toList();
    List<Integer> ordinals = new ArrayList<>();
    long offset = 0;
    int ordinal = 0;
    for (BlockMetadata group : footer.getBlocks()) {
      if (group.rowCount() > 0 && own.contains(offset)) {  // Trino leaves out groups without rows
        ordinals.add(ordinal);
      }
      offset += group.rowCount();
      ordinal++;
    }
    return ordinals;
  }

  private TrinoException error(Exception e) {
    if (e instanceof TrinoException known) {
      return known;
    }
    if (e instanceof FileNotFoundException) {
      return HudiErrorCode.BAD_FILE.exception(split.path() + " is not there: it was cleaned away while the query ran, or"
          + " this node does not see the file system of the service; run the query again", e);
    }
    String what = e instanceof ParquetCorruptionException ? "is damaged" : "cannot be read";
    Throwable root = e;
    while (root.getCause() != null) {
      root = root.getCause();
    }
    String cause = root == e || root.getMessage() == null ? "" : " (" + root.getMessage() + ")";
    String hint = e instanceof IOException && FileSystems.isOnS3(split.path())
        ? ": see that s3.endpoint, s3.region and the keys in the catalog file are right" : "";
    return HudiErrorCode.BAD_FILE.exception(split.path() + " " + what + ": " + e.getMessage() + cause + hint, e);
  }

  /** The columns of a file by name, without regard to case. */
  private static final class GroupFields {
    private final Map<String, List<org.apache.parquet.schema.Type>> byName = new HashMap<>();

    GroupFields(MessageType schema) {
      for (org.apache.parquet.schema.Type field : schema.getFields()) {
        byName.computeIfAbsent(field.getName().toLowerCase(java.util.Locale.ROOT), _ -> new ArrayList<>()).add(field);
      }
    }

    /** None where the file lacks it. */
    Optional<org.apache.parquet.schema.Type> get(String name) {
      return byName.getOrDefault(name, List.of()).stream().findFirst();
    }

    boolean isUnambiguous(String name) {
      return byName.getOrDefault(name, List.of()).size() < 2;
    }
  }
}
