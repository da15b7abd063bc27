package hudicatalog.hive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.hive.common.type.Date;
import org.apache.hadoop.hive.common.type.HiveChar;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.common.type.HiveVarchar;
import org.apache.hadoop.hive.common.type.Timestamp;
import org.apache.hadoop.hive.ql.plan.ExprNodeColumnDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeColumnListDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeConstantDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeFieldDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDesc;
import org.apache.hadoop.hive.ql.udf.UDFYear;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDF;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFBridge;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPEqual;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPNot;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPOr;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoFactory;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hadoop.io.BytesWritable;
import org.junit.jupiter.api.Test;

class FilterJsonTest {
  private static final TypeInfo BOOLEAN = TypeInfoFactory.booleanTypeInfo;
  private static final ExprNodeDesc ID = column("id", "bigint");

  /** A user's own class whose simple name is that of one of Hive's. */
  @SuppressWarnings("deprecation")
  static final class UDFToInteger extends org.apache.hadoop.hive.ql.exec.UDF {}

  /** A user's own equality, which is not Hive's. */
  static final class Equal extends GenericUDFOPEqual {}

  @Test
  void aComparisonOfAColumn() {
    assertEquals("{\"f\":\"GenericUDFOPEqual\",\"t\":\"boolean\",\"a\":[{\"c\":\"id\",\"t\":\"bigint\"},"
        + "{\"v\":\"150\",\"t\":\"bigint\"}]}", FilterJson.of(call(new GenericUDFOPEqual(), ID, constant("bigint", 150L))));
  }

  @Test
  void constantsAreTheTextsOfTheirValues() {
    assertValue("\"true\"", "boolean", true);
    assertValue("\"-7\"", "tinyint", (byte) -7);
    assertValue("\"1.5\"", "float", 1.5f);
    assertValue("\"NaN\"", "double", Double.NaN);
    assertValue("\"1.0E-10\"", "double", 1e-10);
    assertValue("\"12.3\"", "decimal(10,2)", HiveDecimal.create("12.30"));
    assertValue("\"100000000000000000000000000000\"", "decimal(38,0)",
        HiveDecimal.create("100000000000000000000000000000"));
    assertValue("\"2024-05-30\"", "date", Date.valueOf("2024-05-30"));
    assertValue("\"2024-05-30 10:11:12.123456789\"", "timestamp", Timestamp.valueOf("2024-05-30 10:11:12.123456789"));
    assertValue("\"c03  \"", "char(5)", new HiveChar("c03", 5));
    assertValue("\"abc\"", "varchar(5)", new HiveVarchar("abc", 5));
    assertValue("null", "bigint", null);
    assertValue("null", "binary", null);
  }

  @Test
  void bytesAreHexadecimal() {
    String expected = "{\"v\":\"00ff7f80\",\"e\":\"hex\",\"t\":\"binary\"}";
    byte[] bytes = {0, -1, 127, -128};
    assertEquals(expected, FilterJson.of(constant("binary", bytes)));
    BytesWritable padded = new BytesWritable(Arrays.copyOf(bytes, 10));
    padded.setSize(4);
    assertEquals(expected, FilterJson.of(constant("binary", padded)));
  }

  @Test
  void textsKeepEveryCharacter() {
    assertEquals("\"a\\\"\\\\\\u000a\\u0000\\u00fc\\ud83d\\ude00\\ud83d\\u007f'\"",
        FilterJson.quoted("a\"\\\n\0ü\ud83d\ude00\ud83d\u007f'"));
  }

  @Test
  void structsOfPrimitivesAreLists() {
    String type = "struct<a:int,b:string,c:date>";
    assertEquals("{\"v\":[\"1\",null,\"2024-05-30\"],\"t\":\"" + type + "\"}",
        FilterJson.of(constant(type, Arrays.asList(1, null, Date.valueOf("2024-05-30")))));
    assertUnknown(constant("struct<a:int,b:binary>", Arrays.asList(1, new byte[] {1})));
    assertUnknown(constant("struct<a:int,b:string>", Collections.singletonList(1)));
    assertUnknown(constant("struct<a:int,b:array<int>>", Arrays.asList(1, Arrays.asList(1))));
    assertUnknown(constant("array<int>", Arrays.asList(1, 2)));
    assertUnknown(constant("map<int,int>", Collections.singletonMap(1, 2)));
  }

  @Test
  void fieldsAreFunctionsOfTheirStruct() {
    ExprNodeDesc field = new ExprNodeFieldDesc(TypeInfoFactory.intTypeInfo, column("s", "struct<x:int>"), "x", false);
    assertEquals("{\"f\":\".x\",\"t\":\"int\",\"a\":[{\"c\":\"s\",\"t\":\"struct<x:int>\"}]}", FilterJson.of(field));
  }

  @Test
  void functionsAreKnownByTheirClass() {
    assertName("year", new GenericUDFBridge("year", false, UDFYear.class.getName()));
    assertName(UDFToInteger.class.getName(), new GenericUDFBridge("UDFToInteger", false, UDFToInteger.class.getName()));
    assertName(UDFToInteger.class.getName(), new GenericUDFBridge("year", false, UDFToInteger.class.getName()));
    assertName(Equal.class.getName(), new Equal());
  }

  @Test
  void whatHasNoFormIsUnknown() {
    assertUnknown(new ExprNodeColumnDesc(TypeInfoFactory.stringTypeInfo, "INPUT__FILE__NAME", "t", true));
    assertEquals("{\"x\":\"ExprNodeColumnListDesc\",\"t\":null}", FilterJson.of(new ExprNodeColumnListDesc()));
  }

  @Test
  void deepFiltersNeedNoStack() {
    ExprNodeDesc deep = call(new GenericUDFOPEqual(), ID, constant("bigint", 1L));
    for (int i = 0; i < 50_000; i++) {
      deep = new ExprNodeGenericFuncDesc(BOOLEAN, new GenericUDFOPNot(), Collections.singletonList(deep));
    }
    String json = FilterJson.of(deep);
    assertEquals(50_000 + 1, json.split("\"f\":", -1).length - 1);
    assertTrue(json.endsWith("]}]}"));
  }

  @Test
  void longFiltersAreLeftOut() {
    ExprNodeDesc one = constant("string", String.join("", Collections.nCopies(1000, "x")));
    ExprNodeDesc[] many = Collections.nCopies(FilterJson.MOST_CHARACTERS / 1000 + 1, one).toArray(new ExprNodeDesc[0]);
    assertNull(FilterJson.of(call(new GenericUDFOPOr(), many)));
  }

  private static ExprNodeDesc column(String name, String type) {
    return new ExprNodeColumnDesc(TypeInfoUtils.getTypeInfoFromTypeString(type), name, "t", false);
  }

  private static ExprNodeDesc constant(String type, Object value) {
    return new ExprNodeConstantDesc(TypeInfoUtils.getTypeInfoFromTypeString(type), value);
  }

  private static ExprNodeDesc call(GenericUDF function, ExprNodeDesc... arguments) {
    List<ExprNodeDesc> children = Arrays.asList(arguments);
    return new ExprNodeGenericFuncDesc(BOOLEAN, function, children);
  }

  private static void assertValue(String json, String type, Object value) {
    assertEquals("{\"v\":" + json + ",\"t\":\"" + type + "\"}", FilterJson.of(constant(type, value)));
  }

  private static void assertUnknown(ExprNodeDesc node) {
    assertTrue(FilterJson.of(node).startsWith("{\"x\":"), FilterJson.of(node));
  }

  private static void assertName(String name, GenericUDF function) {
    assertTrue(FilterJson.of(call(function, ID)).startsWith("{\"f\":\"" + name + "\","), FilterJson.of(call(function, ID)));
  }
}
