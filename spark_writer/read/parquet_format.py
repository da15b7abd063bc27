"""Spark's Parquet format, without the filters by which its reader leaves out rows that meet them.

Spark's reader hands conditions to Parquet's Java library, which skips row groups and pages by their statistics and
dictionaries. Three kinds of condition skip too much, in `spark.read.parquet` as well:

* Spark takes NaN for the greatest number, and the statistics of most writers leave it out: `f > 5` skips a row group
  of 1.0 and NaN.
* To Spark -0.0 equals 0.0, and a dictionary of -0.0 alone does not hold 0.0: `f = 0`, `f >= 0` and lists.
* Literals pass through `java.sql.Date` and `Timestamp`, in which other days stand for those that the calendar of the
  JVM's time zone lacks: those of October 1582, and one in zones that moved across the date line.

The Java class below takes such conditions from what the reader is told; Spark applies the whole filter again. It is
compiled by Janino, by which Spark compiles its own generated code, and stays in the driver: with a task's closure goes
Spark's class in its place.

A query's settings of Hadoop, a thousand or more, go to its tasks without a note of where each of them is from, which
Hadoop would compress setting by setting, in 3 ms.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

from pyspark.sql.types import DataType, DateType, DoubleType, FloatType, StructType, TimestampType

from spark_writer.read.handles import SOURCES, Handles

_FORMAT: Final = f"{SOURCES}.parquet.ParquetFileFormat"
_NAME: Final = "HudiParquetFileFormat"
_METHOD: Final = "buildReaderWithPartitionValues"
_SETTINGS: Final = "org.apache.hadoop.conf.Configuration"
# Of the methods' types, which differ among releases of Spark and Scala, only the names are put in.
_SOURCE: Final = """
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.WritableUtils;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.sources.*;

public final class HudiParquetFileFormat extends %(format)s {

    // The calendars of Spark and of java.sql agree on every moment from 1900 on; a month is left for zones and gaps.
    private static final long AGREED_MILLIS = -2206310400000L;

    public scala.Function1 %(method)s(%(parameters)s) {
        return super.%(method)s(%(passed)s);
    }

    public Object writeReplace() {
        return new %(format)s();
    }

    private static %(sequence)s sound(%(sequence)s filters) {
        java.util.ArrayList kept = new java.util.ArrayList();
        for (scala.collection.Iterator each = filters.iterator(); each.hasNext();) {
            Object filter = each.next();
            if (isSound(filter, false, false)) {
                kept.add(filter);
            }
        }
        return org.apache.spark.api.python.PythonUtils.toSeq(kept);
    }

    // A comparison that NaN does not meet, unless negated, is sound for numbers other than zero and NaN.
    private static boolean isSound(Object part, boolean withoutNaN, boolean negated) {
        if (part instanceof Double || part instanceof Float) {
            double number = ((Number) part).doubleValue();
            return withoutNaN && number != 0 && !Double.isNaN(number);
        }
        if (part instanceof java.util.Date) {
            return ((java.util.Date) part).getTime() >= AGREED_MILLIS
                && !(part instanceof java.sql.Date && isMoved((java.sql.Date) part));
        }
        if (part instanceof Object[]) {
            return areSound(java.util.Arrays.asList((Object[]) part).iterator(), withoutNaN, negated);
        }
        if (part instanceof Filter) {
            boolean bounded = part instanceof LessThan || part instanceof LessThanOrEqual
                || part instanceof EqualTo || part instanceof EqualNullSafe || part instanceof In;
            boolean inside = negated || part instanceof Not;
            return areSound(members((scala.Product) part), bounded && !negated, inside);
        }
        return true;
    }

    private static boolean areSound(java.util.Iterator parts, boolean withoutNaN, boolean negated) {
        while (parts.hasNext()) {
            if (!isSound(parts.next(), withoutNaN, negated)) {
                return false;
            }
        }
        return true;
    }

    private static java.util.Iterator members(scala.Product product) {
        Object[] members = new Object[product.productArity()];
        for (int place = 0; place < members.length; place++) {
            members[place] = product.productElement(place);
        }
        return java.util.Arrays.asList(members).iterator();
    }

    // Whether another day has the same java.sql.Date.
    private static boolean isMoved(java.sql.Date date) {
        int day = DateTimeUtils.fromJavaDate(date);
        return date.equals(DateTimeUtils.toJavaDate(day - 1)) || date.equals(DateTimeUtils.toJavaDate(day + 1));
    }
}

// As Configuration writes itself, which readFields reads.
final class SettingsAlone extends Configuration {

    SettingsAlone(Configuration settings) {
        super(settings);
    }

    public void write(java.io.DataOutput out) throws java.io.IOException {
        java.util.HashMap settings = new java.util.HashMap();
        for (java.util.Iterator each = iterator(); each.hasNext();) {
            java.util.Map.Entry setting = (java.util.Map.Entry) each.next();
            settings.put(setting.getKey(), setting.getValue());
        }
        WritableUtils.writeVInt(out, settings.size());
        for (java.util.Iterator each = settings.entrySet().iterator(); each.hasNext();) {
            java.util.Map.Entry setting = (java.util.Map.Entry) each.next();
            Text.writeString(out, (String) setting.getKey());
            Text.writeString(out, (String) setting.getValue());
            WritableUtils.writeCompressedStringArray(out, null);
        }
    }
}
"""
_DOUBTFUL: Final = (DateType, DoubleType, FloatType, TimestampType)
_LIMITS: Final = {
    f"parquet.filter.{one}.enabled": "false" for one in ("stats", "dictionary", "columnindex", "bloom", "record-level")
}
_FORMATS: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def parquet_format(handles: Handles) -> Any:
    """A format of files for a relation of Spark, as `ParquetFileFormat` but for the filters that lose rows."""
    made = _FORMATS.get(handles)
    if made is None:
        made = _FORMATS.setdefault(handles, _compiled(handles))
    return made.newInstance(handles.array("java.lang.Object", []))


def reader_limits(schema: StructType) -> dict[str, str]:
    """Options for Spark's own format, whose reader then skips nothing in files that have columns of doubtful types."""
    return dict(_LIMITS) if any(_is_doubtful(field.dataType) for field in schema.fields) else {}


def _is_doubtful(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_is_doubtful(field.dataType) for field in kind.fields)
    return isinstance(kind, _DOUBTFUL)  # not in lists and maps, of which no filter reaches the reader


def _compiled(handles: Handles) -> Any:
    """The class's constructor."""
    spark = handles.type_of(_FORMAT)
    method = next(one for one in spark.getMethods() if one.getName() == _METHOD and not one.isBridge())
    names = [str(kind.getName()) for kind in method.getParameterTypes()]
    arguments = [f"a{place}" for place in range(len(names))]
    parameters = ", ".join(f"{kind} {name}" for kind, name in zip(names, arguments, strict=True))
    passed = ", ".join(_passed(kind, name) for kind, name in zip(names, arguments, strict=True))
    return handles.compiled(
        _NAME, _SOURCE, _FORMAT, format=_FORMAT, method=_METHOD, parameters=parameters, passed=passed
    )


def _passed(kind: str, name: str) -> str:
    """What Spark's method is told for one of its arguments."""
    if kind.endswith(".Seq"):
        return f"sound({name})"
    return f"new SettingsAlone({name})" if kind == _SETTINGS else name
