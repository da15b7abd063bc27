package hudicatalog.hive;

import java.io.IOException;
import java.util.Locale;
import org.apache.hadoop.fs.Path;

/** The folder of a table, and which paths lie inside it. Paths are Hadoop's: a % in them stands for itself. */
final class TablePath {
  private final String location;
  private final Parts folder;
  private final Parts spelled;

  /**
   * The folder of a table.
   *
   * @throws IOException when the text is not an absolute path
   */
  TablePath(String location) throws IOException {
    if (location == null) {
      throw new IOException("the table has no location in Hive");
    }
    Parts given = Parts.of(location);
    // As in Hadoop, repeated and trailing slashes do not matter.
    String path = given.path.replaceAll("/+", "/").replaceAll("/$", "");
    for (String name : path.split("/")) {
      if (name.equals(".") || name.equals("..")) {
        throw new IOException("the table's location " + location + " has a step named " + name);
      }
    }
    this.location = location;
    this.folder = new Parts(given.scheme, given.authority, path + "/");
    Path top = new Path(location);
    this.spelled = new Parts(top.toUri().getScheme(), top.toUri().getAuthority(), folder.path);
  }

  /**
   * A path inside the table, spelled like Hive's location of the table, by which Hive identifies the table.
   *
   * @throws IOException when the path is not inside the table
   */
  Path inside(String path) throws IOException {
    Parts given = Parts.of(path);
    boolean isSame = given.scheme.equals(folder.scheme) && given.authority.equals(folder.authority);
    if (!isSame || !given.path.startsWith(folder.path)) {
      throw new IOException("the path " + path + " is not inside the table's location " + location);
    }
    String inner = given.path.substring(folder.path.length());
    for (String name : inner.split("/", -1)) {
      boolean isStep = name.isEmpty() || name.equals(".") || name.equals("..");
      if (isStep || name.indexOf('\0') >= 0) {
        throw new IOException("the path " + path + " has a step that is not the name of a file or folder");
      }
    }
    return new Path(spelled.scheme, spelled.authority, spelled.path + inner);
  }

  /** A path as Hadoop divides it. */
  private static final class Parts {
    final String scheme;
    final String authority;
    final String path;

    private Parts(String scheme, String authority, String path) {
      this.scheme = scheme;
      this.authority = authority;
      this.path = path;
    }

    static Parts of(String text) throws IOException {
      int colon = text.indexOf(':');
      int slash = text.indexOf('/');
      boolean hasScheme = colon > 0 && colon < slash;
      String scheme = hasScheme ? text.substring(0, colon).toLowerCase(Locale.ROOT) : "";
      String rest = hasScheme ? text.substring(colon + 1) : text;
      String authority = "";
      if (rest.startsWith("//")) {
        int end = rest.indexOf('/', 2);
        authority = rest.substring(2, end < 0 ? rest.length() : end);
        rest = end < 0 ? "" : rest.substring(end);
      }
      if (!rest.startsWith("/") && !(rest.isEmpty() && !authority.isEmpty())) {
        throw new IOException("the path " + text + " is not absolute");
      }
      return new Parts(scheme, authority, rest);
    }
  }
}
