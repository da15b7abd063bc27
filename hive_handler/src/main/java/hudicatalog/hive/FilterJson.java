package hudicatalog.hive;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.apache.hadoop.hive.ql.plan.ExprNodeColumnDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeConstantDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeFieldDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDesc;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDF;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFBridge;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector.Category;
import org.apache.hadoop.hive.serde2.typeinfo.StructTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.io.BytesWritable;

/**
 * Hive's filter expression as JSON.
 *
 * <p>A column is {@code {"c": name, "t": type}}, a constant {@code {"v": text, "t": type}}, a function
 * {@code {"f": name, "t": type, "a": [node, ...]}}, and anything else {@code {"x": text, "t": type}}.
 */
final class FilterJson {
  /** Longer filters are not sent: all rows are read, and Hive filters them. */
  static final int MOST_CHARACTERS = 4 << 20;

  private static final String[] HIVES_PACKAGES =
      {"org.apache.hadoop.hive.ql.udf.generic.", "org.apache.hadoop.hive.ql.udf."};

  private final StringBuilder out = new StringBuilder();
  /** Nodes that are still to be written, and texts between them: filters may be deeper than a stack. */
  private final Deque<Object> pending = new ArrayDeque<>();

  private FilterJson() {}

  /** The JSON of a filter; null when it is too long. */
  static String of(ExprNodeDesc filter) {
    FilterJson writer = new FilterJson();
    writer.pending.push(filter);
    while (!writer.pending.isEmpty()) {
      Object next = writer.pending.pop();
      if (next instanceof String) {
        writer.out.append((String) next);
      } else {
        writer.node((ExprNodeDesc) next);
      }
      if (writer.out.length() > MOST_CHARACTERS) {
        return null;
      }
    }
    return writer.out.toString();
  }

  private void node(ExprNodeDesc node) {
    if (node instanceof ExprNodeColumnDesc) {
      column((ExprNodeColumnDesc) node);
    } else if (node instanceof ExprNodeConstantDesc) {
      constant((ExprNodeConstantDesc) node);
    } else if (node instanceof ExprNodeFieldDesc) {
      ExprNodeFieldDesc field = (ExprNodeFieldDesc) node;
      List<ExprNodeDesc> struct = new ArrayList<>();
      struct.add(field.getDesc());
      function("." + field.getFieldName(), node.getTypeString(), struct);
    } else if (node instanceof ExprNodeGenericFuncDesc) {
      ExprNodeGenericFuncDesc function = (ExprNodeGenericFuncDesc) node;
      function(name(function.getGenericUDF()), node.getTypeString(), function.getChildren());
    } else {
      // Such as a value from another part of the query, unknown when splits are made.
      unknown(node);
    }
  }

  private void column(ExprNodeColumnDesc node) {
    if (node.getIsPartitionColOrVirtualCol()) {
      // The table has no partition columns in Hive; Hive computes virtual ones per row.
      unknown(node);
      return;
    }
    out.append("{\"c\":").append(quoted(node.getColumn()));
    end(node.getTypeString());
  }

  private void constant(ExprNodeConstantDesc node) {
    TypeInfo type = node.getTypeInfo();
    Object value = node.getValue();
    if (value == null) {
      value(null, node);
    } else if (value instanceof byte[]) {
      bytes((byte[]) value, node);
    } else if (value instanceof BytesWritable) {
      bytes(((BytesWritable) value).copyBytes(), node);
    } else if (type.getCategory() == Category.PRIMITIVE) {
      value(quoted(value.toString()), node);
    } else {
      String fields = fields(type, value);
      if (fields == null) {
        unknown(node);
      } else {
        value(fields, node);
      }
    }
  }

  private void value(String json, ExprNodeDesc node) {
    out.append("{\"v\":").append(json);
    end(node.getTypeString());
  }

  private void bytes(byte[] bytes, ExprNodeDesc node) {
    out.append("{\"v\":\"");
    for (byte one : bytes) {
      out.append(Character.forDigit(one >> 4 & 15, 16)).append(Character.forDigit(one & 15, 16));
    }
    out.append("\",\"e\":\"hex\"");
    end(node.getTypeString());
  }

  /** The fields of a constant struct as a list of texts; null when one of them has none. */
  private static String fields(TypeInfo type, Object value) {
    if (type.getCategory() != Category.STRUCT || !(value instanceof List)) {
      return null;
    }
    List<TypeInfo> types = ((StructTypeInfo) type).getAllStructFieldTypeInfos();
    List<?> values = (List<?>) value;
    if (types.size() != values.size()) {
      return null;
    }
    StringBuilder json = new StringBuilder("[");
    for (int i = 0; i < values.size(); i++) {
      Object field = values.get(i);
      if (types.get(i).getCategory() != Category.PRIMITIVE || field instanceof byte[]
          || field instanceof BytesWritable) {
        return null;
      }
      json.append(i == 0 ? "" : ",").append(quoted(field == null ? null : field.toString()));
    }
    return json.append(']').toString();
  }

  private void function(String name, String type, List<ExprNodeDesc> arguments) {
    out.append("{\"f\":").append(quoted(name)).append(",\"t\":").append(quoted(type)).append(",\"a\":[");
    pending.push("]}");
    if (arguments == null) {
      return;
    }
    for (int i = arguments.size() - 1; i >= 0; i--) {
      pending.push(arguments.get(i));
      if (i > 0) {
        pending.push(",");
      }
    }
  }

  /** A user's function may be called as one of Hive's: only the class tells. */
  private static String name(GenericUDF function) {
    if (function instanceof GenericUDFBridge) {
      GenericUDFBridge bridge = (GenericUDFBridge) function;
      String className = String.valueOf(bridge.getUdfClassName());
      String simple = simpleName(className);
      return simple.equals(className) ? className : bridge.getUdfName();
    }
    return simpleName(function.getClass().getName());
  }

  private static String simpleName(String className) {
    for (String hives : HIVES_PACKAGES) {
      if (className.startsWith(hives) && className.indexOf('.', hives.length()) < 0) {
        return className.substring(hives.length());
      }
    }
    return className;
  }

  private void unknown(ExprNodeDesc node) {
    String text = node instanceof ExprNodeColumnDesc ? ((ExprNodeColumnDesc) node).getColumn()
        : node.getClass().getSimpleName();
    String type = null;
    try {
      type = node.getTypeString();
    } catch (RuntimeException e) {
      // Some nodes have none.
    }
    out.append("{\"x\":").append(quoted(text));
    end(type);
  }

  private void end(String type) {
    out.append(",\"t\":").append(quoted(type)).append('}');
  }

  /** A JSON string in ASCII: half a pair of characters has no UTF-8, and would become another text. */
  static String quoted(String text) {
    if (text == null) {
      return "null";
    }
    StringBuilder json = new StringBuilder(text.length() + 2).append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '"' || c == '\\') {
        json.append('\\').append(c);
      } else if (c < ' ' || c > '~') {
        json.append(String.format("\\u%04x", (int) c));
      } else {
        json.append(c);
      }
    }
    return json.append('"').toString();
  }
}
