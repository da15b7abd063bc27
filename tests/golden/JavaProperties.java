import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Properties;
import java.util.Scanner;
import java.util.TreeSet;

/** Reads texts in hex, a line each, and prints what java.util.Properties makes of them (see java_properties.py). */
class JavaProperties {
    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in, StandardCharsets.US_ASCII);
        while (lines.hasNextLine()) {
            String source = lines.nextLine();
            System.out.println(source + "\t" + answer(HexFormat.of().parseHex(source)));
        }
    }

    private static String answer(byte[] source) throws Exception {
        Properties properties = new Properties();
        try {
            properties.load(new ByteArrayInputStream(source));
        } catch (IllegalArgumentException refused) {
            return "ERR";
        }
        StringBuilder pairs = new StringBuilder();
        for (String key : new TreeSet<>(properties.stringPropertyNames())) {
            pairs.append(pairs.isEmpty() ? "" : ",").append(hex(key)).append('=').append(hex(properties.getProperty(key)));
        }
        ByteArrayOutputStream stored = new ByteArrayOutputStream();
        properties.store(stored, null);
        // the first line is the time
        String text = stored.toString(StandardCharsets.ISO_8859_1);
        byte[] kept = text.substring(text.indexOf('\n') + 1).getBytes(StandardCharsets.ISO_8859_1);
        return pairs + ";" + HexFormat.of().formatHex(kept);
    }

    private static String hex(String text) {
        return HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_16BE));
    }
}
