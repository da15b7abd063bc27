import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.List;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/**
 * Prints the keys of the options that a Hudi jar declares, one a line: those of its ConfigProperty fields with their
 * alternatives, and those of its public text constants, which is how older releases declared options.
 *
 * Arguments: jars, all of them on the class path.
 */
public final class ApacheOptionKeys {
  private static final String PROPERTY = "org.apache.hudi.common.config.ConfigProperty";
  private static final String KEY = "hoodie(\\.[A-Za-z0-9_-]+)+\\.?";

  public static void main(String[] jars) throws Exception {
    TreeSet<String> keys = new TreeSet<>();
    for (String jar : jars) {
      try (JarFile file = new JarFile(jar)) {
        for (JarEntry entry : (Iterable<JarEntry>) file.stream()::iterator) {
          String name = entry.getName();
          if (name.startsWith("org/apache/hudi/") && name.endsWith(".class")) {
            add(keys, name.substring(0, name.length() - ".class".length()).replace('/', '.'));
          }
        }
      }
    }
    keys.stream().filter(key -> key.matches(KEY)).forEach(System.out::println);
  }

  private static void add(TreeSet<String> keys, String name) {
    try {
      Class<?> type = Class.forName(name, false, ApacheOptionKeys.class.getClassLoader());
      Object module = null;
      for (Field field : type.getDeclaredFields()) {
        boolean shared = Modifier.isStatic(field.getModifiers());
        if (field.getType().getName().equals(PROPERTY)) {
          if (!shared && module == null) {
            if (!name.endsWith("$")) {
              continue;
            }
            module = type.getField("MODULE$").get(null);
          }
          field.setAccessible(true);
          addProperty(keys, field.get(shared ? null : module));
        } else if (shared && field.getType() == String.class && Modifier.isPublic(field.getModifiers())
            && Modifier.isFinal(field.getModifiers())) {
          keys.add(String.valueOf(field.get(null)));
        }
      }
    } catch (ReflectiveOperationException | LinkageError | RuntimeException error) {
      // a class whose library is not here, such as a cloud's: what it declares stands in the jar of that cloud
      System.err.println(name + ": " + error);
    }
  }

  private static void addProperty(TreeSet<String> keys, Object property) throws ReflectiveOperationException {
    if (property == null) {
      return;
    }
    keys.add((String) property.getClass().getMethod("key").invoke(property));
    Method alternatives = property.getClass().getMethod("getAlternatives");
    for (Object key : (List<?>) alternatives.invoke(property)) {
      keys.add((String) key);
    }
  }
}
