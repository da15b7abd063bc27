package hudicatalog.trino;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.classloader.ThreadContextClassLoader;
import io.trino.spi.connector.ColumnHandle;
import io.trino.spi.connector.ConnectorPageSource;
import io.trino.spi.connector.ConnectorSession;
import io.trino.spi.connector.ConnectorSplit;
import io.trino.spi.connector.ConnectorTableHandle;
import io.trino.spi.connector.DynamicFilter;
import io.trino.spi.connector.EmptyPageSource;
import io.trino.spi.predicate.Domain;
import io.trino.spi.predicate.SortedRangeSet;
import io.trino.spi.predicate.TupleDomain;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;

/** Reads splits: base files by Trino's own reader, all else by the service. */
final class SplitPages {
  private final ServiceClient service;
  private final FileSystems files;

  SplitPages(ServiceClient service, FileSystems files) {
    this.service = service;
    this.files = files;
  }

  /**
   * The pages of a split.
   *
   * @param handles columns, in the order of the pages
   * @param dynamicFilter values of a join, as far as they are known when a file is opened
   */
  ConnectorPageSource open(ConnectorSession session, ConnectorSplit connectorSplit, ConnectorTableHandle handle,
      List<ColumnHandle> handles, DynamicFilter dynamicFilter) {
    HudiTable table = (HudiTable) handle;
    if (connectorSplit instanceof AnswerPages.Split) {
      return AnswerPages.of(table.pushed(), handles);
    }
    List<HudiSplit> parts = ((SplitBundle) connectorSplit).parts();
    List<HudiColumn> columns = handles.stream().map(HudiColumn.class::cast).toList();
    Function<HudiSplit, ConnectorPageSource> open = part -> {
      ConnectorPageSource pages = open(session, table, part, columns, dynamicFilter);
      return table.buckets().map(own -> BucketCheckedPages.of(pages, part, own, columns)).orElse(pages);
    };
    return parts.size() == 1 ? open.apply(parts.getFirst()) : new BundledPages(parts, open);
  }

  private ConnectorPageSource open(ConnectorSession session, HudiTable table, HudiSplit split, List<HudiColumn> columns,
      DynamicFilter dynamicFilter) {
    TupleDomain<HudiColumn> values = dynamicFilter.getCurrentPredicate().transformKeys(HudiColumn.class::cast);
    if (!FileValues.of(split).mayMatch(table.constraint().intersect(values))) {
      return new EmptyPageSource();
    }
    // Values that leave nothing out cost time in the reader: column indexes and dictionaries are read for them.
    int most = SessionOptions.readerValues(session);
    TupleDomain<HudiColumn> wanted = table.constraint().intersect(values.filter((_, domain) -> isFew(domain, most)));
    boolean isRenamed = columns.stream().anyMatch(column -> split.renamed().contains(column.root()));
    if (split.served() || isRenamed) {
      return served(session, table, split, columns, wanted, Optional.empty());
    }
    // the client of S3 looks up its parts when it first needs them
    try (ThreadContextClassLoader _ = new ThreadContextClassLoader(getClass().getClassLoader())) {
      return new ParquetFiles(split, columns, wanted).open(files.at(split.path(), session),
          ordinals -> served(session, table, split, columns, wanted, Optional.of(ordinals)));
    }
  }

  private static boolean isFew(Domain domain, int most) {
    return domain.getValues() instanceof SortedRangeSet ranges && ranges.getRangeCount() <= most;
  }

  private ConnectorPageSource served(ConnectorSession session, HudiTable table, HudiSplit split,
      List<HudiColumn> columns, TupleDomain<HudiColumn> wanted, Optional<List<Integer>> rowGroups) {
    ObjectNode request = table.request(session.getQueryId(), List.of(wanted));
    request.set("split", ServiceClient.tree(split.members()));
    rowGroups.ifPresent(ordinals -> {
      ArrayNode array = request.putArray("row_groups");
      ordinals.forEach(array::add);
    });
    ArrayNode names = request.putArray("columns");
    ServedPages.roots(columns).forEach(column -> names.add(column.root()));
    return new ServedPages(service, request, columns, FileValues.of(split));
  }
}
