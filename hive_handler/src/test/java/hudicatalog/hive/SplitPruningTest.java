package hudicatalog.hive;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.hive.common.type.Date;
import org.apache.hadoop.hive.ql.plan.ColStatistics;
import org.apache.hadoop.hive.ql.plan.ExprNodeColumnDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeConstantDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDesc;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDF;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFBetween;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFIn;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPAnd;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPEqual;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPEqualOrGreaterThan;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPNot;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPNotNull;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPOr;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFStruct;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoFactory;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.junit.jupiter.api.Test;

class SplitPruningTest {
  private static final ExprNodeDesc YEAR = column("year", "int");
  private static final ExprNodeDesc MONTH = column("month", "int");
  private static final ExprNodeDesc DAY = column("day", "date");

  @Test
  void valuesAreTakenForEvenlySpread() {
    assertShare(1 / 20.0, equal(YEAR, 2000));
    assertShare(2 / 20.0, call(new GenericUDFIn(), YEAR, constant(2000), constant(2001)));
    assertShare(1 / 20.0 / 12, call(new GenericUDFOPAnd(), equal(YEAR, 2000), equal(MONTH, 1)));
    assertShare(1 / 20.0 + 1 / 12.0, call(new GenericUDFOPOr(), equal(YEAR, 2000), equal(MONTH, 1)));
    assertShare(1, call(new GenericUDFOPNotNull(), YEAR));
    ExprNodeDesc pair = call(new GenericUDFStruct(), YEAR, MONTH);
    assertShare(3 / 240.0, call(new GenericUDFIn(), pair, constant(1), constant(2), constant(3)));
  }

  @Test
  void boundsAreASpanOfTheColumns() {
    assertShare(0.5, call(new GenericUDFOPEqualOrGreaterThan(), YEAR, constant(2010)));
    assertShare(0.25, between(YEAR, constant(2000), constant(2004)));
    assertShare(0, between(YEAR, constant(2050), constant(2051)));
    ExprNodeDesc from = constant("date", Date.valueOf("1970-01-11"));
    assertShare(0.9, between(DAY, from, constant("date", Date.valueOf("1999-01-01"))));
  }

  /** As Hive adds them to a disjunction. */
  @Test
  void conditionsOnTheSameColumnsSayTheSameAgain() {
    ExprNodeDesc any = call(new GenericUDFOPOr(), equal(YEAR, 2000),
        call(new GenericUDFOPAnd(), equal(YEAR, 1999), equal(MONTH, 12)));
    double share = 1 / 20.0 + 1 / 240.0;
    assertShare(share, call(new GenericUDFOPAnd(), call(new GenericUDFIn(), YEAR, constant(1999), constant(2000)), any));
  }

  @Test
  void whatIsNotKnownIsNotGuessed() {
    assertShare(Double.NaN, equal(column("other", "int"), 1));
    assertShare(Double.NaN, call(new GenericUDFOPNot(), equal(YEAR, 2000)));
    assertShare(Double.NaN, call(new GenericUDFOPAnd(), equal(YEAR, 2000), YEAR));
    assertShare(Double.NaN, between(YEAR, MONTH, constant(2004)));
  }

  @Test
  void aJoinIsSharedWhereMuchOfItIsKept() {
    assertTrue(SplitPruning.isSharingCheaper(3, 0.25));
    assertTrue(SplitPruning.isSharingCheaper(2, 0.5));
    assertFalse(SplitPruning.isSharingCheaper(2, 0.25));
    assertFalse(SplitPruning.isSharingCheaper(3, 0.05));
    assertFalse(SplitPruning.isSharingCheaper(1, 1));
    assertFalse(SplitPruning.isSharingCheaper(3, Double.NaN));
  }

  @Test
  void conditionsThatWereAddedAreKnown() throws Exception {
    for (List<String> values : Arrays.asList(Arrays.asList("7", "8"), Arrays.asList("7"), Arrays.<String>asList())) {
      assertTrue(KnownValues.isAdded(KnownValues.in((ExprNodeColumnDesc) MONTH, values)));
    }
    assertFalse(KnownValues.isAdded(call(new GenericUDFIn(), MONTH, constant(7), constant(8))));
    assertFalse(KnownValues.isAdded(call(new GenericUDFIn(), MONTH, constant(7))));
    assertFalse(KnownValues.isAdded(equal(MONTH, 7)));
    assertFalse(KnownValues.isAdded(MONTH));
  }

  private static void assertShare(double share, ExprNodeDesc condition) {
    Map<String, ColStatistics> columns = new HashMap<>();
    columns.put("year", statistics("year", 20, 2000, 2019));
    columns.put("month", statistics("month", 12, 1, 12));
    columns.put("day", statistics("day", 100, 0, 99));
    assertEquals(share, new Selectivity(columns).of(condition), 1e-9);
  }

  private static ColStatistics statistics(String name, long distinct, int low, int high) {
    ColStatistics column = new ColStatistics(name, "int");
    column.setCountDistint(distinct);
    column.setRange(low, high);
    return column;
  }

  private static ExprNodeDesc equal(ExprNodeDesc column, int value) {
    return call(new GenericUDFOPEqual(), column, constant(value));
  }

  private static ExprNodeDesc between(ExprNodeDesc column, ExprNodeDesc low, ExprNodeDesc high) {
    return call(new GenericUDFBetween(), constant("boolean", false), column, low, high);
  }

  private static ExprNodeDesc column(String name, String type) {
    return new ExprNodeColumnDesc(TypeInfoUtils.getTypeInfoFromTypeString(type), name, "t", false);
  }

  private static ExprNodeDesc constant(int value) {
    return constant("int", value);
  }

  private static ExprNodeDesc constant(String type, Object value) {
    return new ExprNodeConstantDesc(TypeInfoUtils.getTypeInfoFromTypeString(type), value);
  }

  private static ExprNodeDesc call(GenericUDF function, ExprNodeDesc... arguments) {
    List<ExprNodeDesc> children = Arrays.asList(arguments);
    return new ExprNodeGenericFuncDesc(TypeInfoFactory.booleanTypeInfo, function, children);
  }
}
