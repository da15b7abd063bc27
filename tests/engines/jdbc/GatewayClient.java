import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/** Talks to a server as programs with Trino's JDBC driver do, and prints what it saw. */
public class GatewayClient {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        for (int at = 1; at < arguments.length; at += 2) {
            properties.setProperty(arguments[at], arguments[at + 1]);
        }
        try (Connection connection = DriverManager.getConnection(arguments[0], properties)) {
            prepared(connection);
            inTransaction(connection);
            manyRows(connection);
            failing(connection);
            cancelled(connection);
            System.out.println("server=" + connection.getMetaData().getDatabaseProductVersion());
        }
    }

    private static void prepared(Connection connection) throws SQLException {
        String sql = "SELECT count(*), min(id) FROM kinds WHERE id = ? AND name LIKE ?";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (long id : new long[] {7, 8}) {
                statement.setLong(1, id);
                statement.setString(2, "%");
                try (ResultSet rows = statement.executeQuery()) {
                    rows.next();
                    System.out.println("prepared=" + rows.getLong(1) + "," + rows.getLong(2));
                }
            }
        }
    }

    private static void inTransaction(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        System.out.println("transaction=" + number(connection, "SELECT count(*) FROM kinds WHERE id = 7"));
        connection.commit();
        connection.setAutoCommit(true);
    }

    private static void manyRows(Connection connection) throws SQLException {
        long sum = 0;
        try (Statement statement = connection.createStatement();
                ResultSet rows = statement.executeQuery("SELECT * FROM tpch.tiny.lineitem")) {
            while (rows.next()) {
                sum += rows.getLong("linenumber");
            }
        }
        System.out.println("rows=" + sum);
    }

    private static void failing(Connection connection) {
        try {
            number(connection, "SELECT nosuch FROM kinds");
        } catch (SQLException error) {
            System.out.println("error=" + error.getMessage());
        }
    }

    private static void cancelled(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            ResultSet rows = statement.executeQuery("SELECT * FROM tpch.sf1.lineitem");
            rows.next();
            statement.cancel();
            System.out.println("cancelled=" + rows.isClosed());
        }
    }

    private static long number(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
            rows.next();
            long number = rows.getLong(1);
            rows.next(); // to the end: a query that is closed earlier is cancelled, and its transaction with it
            return number;
        }
    }
}
