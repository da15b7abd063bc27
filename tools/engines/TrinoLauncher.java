import io.trino.server.Server;

/** Starts the Trino of the jars on the class path, whose version is the argument. */
public final class TrinoLauncher {
  private TrinoLauncher() {}

  public static void main(String[] arguments) {
    new Server().start(arguments[0]);
  }
}
