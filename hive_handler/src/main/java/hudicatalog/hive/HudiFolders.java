package hudicatalog.hive;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.LinkedHashSet;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.metastore.Warehouse;
import org.apache.hadoop.hive.metastore.api.Database;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.security.AccessControlException;

/** Where Hudi tables lie. The metastore uses it too, so nothing of HiveServer2 may be needed here. */
final class HudiFolders {
  private static final String MARK = ".hoodie";

  private HudiFolders() {}

  /**
   * The Hudi table that would lose files with a folder: the one that contains it, or the first one below.
   *
   * <p>Folders of Hive's partitions (`column=value`) are skipped: there may be very many.
   *
   * @return null if there is none
   * @throws IOException when folders below cannot be listed
   */
  static Path tableHit(Configuration conf, String folder) throws IOException {
    Path path = new Path(folder);
    FileSystem files = path.getFileSystem(conf);
    Path whole = files.makeQualified(path);
    Path around = around(files, whole);
    return around == null ? below(files, whole) : around;
  }

  private static Path around(FileSystem files, Path folder) throws IOException {
    for (Path at = folder; at != null; at = at.getParent()) {
      try {
        if (files.exists(new Path(at, MARK))) {
          return at;
        }
      } catch (AccessControlException | AccessDeniedException e) {
        // Folders further down may be readable.
        continue;
      }
    }
    return null;
  }

  private static Path below(FileSystem files, Path folder) throws IOException {
    Deque<Path> pending = new ArrayDeque<>();
    pending.add(folder);
    while (!pending.isEmpty()) {
      Path at = pending.poll();
      for (FileStatus inside : listed(files, at)) {
        String name = inside.getPath().getName();
        if (name.equals(MARK)) {
          return at;
        }
        if (inside.isDirectory() && name.indexOf('=') < 0) {
          pending.add(inside.getPath());
        }
      }
    }
    return null;
  }

  private static FileStatus[] listed(FileSystem files, Path folder) throws IOException {
    try {
      return files.listStatus(folder);
    } catch (FileNotFoundException e) {
      return new FileStatus[0];
    }
  }

  /** The folders that go with a database when it is dropped. */
  static Set<String> ofDatabase(Configuration conf, Database database) throws MetaException {
    Set<String> folders = new LinkedHashSet<>();
    folders.add(database.getLocationUri());
    try {
      String managed = database.getManagedLocationUri();
      folders.add(managed == null ? new Warehouse(conf).getDatabaseManagedPath(database).toString() : managed);
    } catch (NoSuchMethodError e) {
      // Before Hive 4 a database had one folder.
    }
    folders.remove(null);
    folders.remove("");
    return folders;
  }

  /** Whether one folder is another or lies in it, however their schemes are spelled (`s3`, `s3a`). */
  static boolean isInside(String inner, String outer) {
    Path folder = new Path(outer);
    for (Path at = new Path(inner); at != null; at = at.getParent()) {
      if (at.toUri().getPath().equals(folder.toUri().getPath())
          && authority(at).equals(authority(folder))) {
        return true;
      }
    }
    return false;
  }

  private static String authority(Path path) {
    String authority = path.toUri().getAuthority();
    return authority == null ? "" : authority;
  }
}
