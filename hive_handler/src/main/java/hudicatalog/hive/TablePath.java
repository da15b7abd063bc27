package hudicatalog.hive;

import java.io.IOException;
import org.apache.hadoop.fs.Path;

/** The folder of a table, and which paths lie inside it. Paths are Hadoop's: a % in them stands for itself. */
final class TablePath {
  private final String location;
  private final Parts parts;

  TablePath(String location) throws IOException {
    this.location = location;
    this.parts = Parts.of(location);
    for (String name : parts.path.split("/", -1)) {
      if (name.equals(".") || name.equals("..")) {
        throw new IOException("the table's location " + location + " has a step named " + name);
      }
    }
  }

  /**
   * A path inside the table, spelled as Hive spells the table's location: by that Hive finds the table again.
   *
   * @throws IOException when the path is not inside the table
   */
  Path inside(String path) throws IOException {
    Parts given = Parts.of(path);
    String folder = parts.path + "/";
    boolean same = given.scheme.equals(parts.scheme) && given.authority.equals(parts.authority);
    if (!same || !given.path.startsWith(folder)) {
      throw new IOException("the path " + path + " is not inside the table's location " + location);
    }
    for (String name : given.path.substring(folder.length()).split("/", -1)) {
      boolean isStep = name.isEmpty() || name.equals(".") || name.equals("..");
      if (isStep || name.chars().anyMatch(Character::isISOControl)) {
        throw new IOException("the path " + path + " has a step that is no name of a file or folder");
      }
    }
    String inner = given.path.substring(folder.length());
    Path top = new Path(location);
    String base = top.isRoot() ? "" : top.toUri().getPath();
    return new Path(top.toUri().getScheme(), top.toUri().getAuthority(), base + "/" + inner);
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
      String scheme = hasScheme ? text.substring(0, colon).toLowerCase(java.util.Locale.ROOT) : "";
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
      // As Hadoop does with the location: repeated and last slashes say nothing.
      return new Parts(scheme, authority, rest);
    }
  }
}
