"""Settings of a Spark session: its workers' Python, its Hadoop configuration, the entries of its metastore."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from table_format.errors import OptionError, TableNotFoundError, UnsupportedTableError

_SETTINGS = ("spark.pyspark.python", "spark.pyspark.driver.python")


def use_this_interpreter(session: Any) -> None:
    """Let the workers of a local session run the driver's Python, unless the user chose one.

    Spark's default is the `python3` of the path, which in a virtual environment that is not activated lacks pyarrow and
    this package. On a cluster the choice stays with the user: `PYSPARK_PYTHON` or `spark.pyspark.python`.
    """
    if os.environ.get("PYSPARK_PYTHON"):
        return
    try:
        context = session.sparkContext
        chosen = any(context.getConf().get(key) for key in _SETTINGS)
        local = str(context.master).startswith("local")
    except Exception:  # noqa: BLE001 - Spark Connect has no context, and raises its own kinds
        return
    if local and not chosen:
        context.pythonExec = sys.executable


_ENCRYPTED_BY: Final = ("footer.key", "column.keys", "uniform.key")

CRYPTO_FACTORY: Final = "parquet.crypto.factory.class"

# It encrypts only what the keys above name; sessions also set it to read encrypted tables.
_BY_KEYS: Final = "PropertiesDrivenCryptoFactory"


def hadoop_setting(session: SparkSession, key: str) -> str | None:
    """A setting of hive-site.xml, core-site.xml or `spark.hadoop.`; None over Spark Connect, which has no JVM here."""
    state: Any = session
    try:
        text = state._jsparkSession.sessionState().newHadoopConf().get(key)  # noqa: SLF001  # PySpark has no other way
    except (PySparkException, AttributeError):
        return None
    return str(text) if text else None


_BATCH_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"


def with_small_batches(df: DataFrame, most: int) -> DataFrame:
    """The same rows, in a copy of the session that sends workers batches of at most `most` bytes or one row.

    Spark sends 64 MiB at a time, and the setting is the session's: a copy leaves the user's own as it is. The rows stay
    in their session if it sends as little anyway, has no such setting (before Spark 4.1), or cannot be copied (Spark
    Connect).
    """
    try:
        session: Any = df.sparkSession
        current = session._jsparkSession.sessionState().conf().arrowMaxBytesPerBatch()  # noqa: SLF001
        if current <= most:
            return df
        copy = session._jsparkSession.cloneSession()  # noqa: SLF001  # PySpark has no other way
        copy.conf().set(_BATCH_BYTES, str(most))
        plan: Any = df._jdf.queryExecution().analyzed()  # noqa: SLF001
        rows: Any = session._jvm.org.apache.spark.sql.classic.Dataset.ofRows(copy, plan)  # noqa: SLF001
        return DataFrame(rows, session)
    except (PySparkException, Py4JError, AttributeError, TypeError):
        return df


def refuse_encryption(session: SparkSession) -> None:
    """Refuse to write plain files in a session that encrypts its own.

    Raises:
        UnsupportedTableError: the session is set to encrypt Parquet files.
    """
    for name in _ENCRYPTED_BY:
        if hadoop_setting(session, f"parquet.encryption.{name}"):
            raise UnsupportedTableError(_refusal(f"parquet.encryption.{name}"))
    factory = hadoop_setting(session, CRYPTO_FACTORY)
    if factory is not None and factory.rsplit(".", 1)[-1] != _BY_KEYS:
        raise UnsupportedTableError(_refusal(f"{CRYPTO_FACTORY}={factory}"))


def _refusal(setting: str) -> str:
    return (
        f"{setting} is set in the session, and this writer does not encrypt files: unset it for this table, or write "
        "it with Apache Hudi"
    )


_PROVIDER: Final = "hudi"

SPARK_CATALOG: Final = "spark_catalog"
"""Spark's name for a session's own catalog, Hive's or the one in memory."""

# the location as this project's sync spells it; the entry's own location has Hadoop's spelling
_BASE_PATH: Final = "hoodie.catalog.base.path"

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}


def table_place(session: SparkSession, name: str) -> str:
    """Location of a table that is registered in the session's catalog, by a sync or by Spark SQL.

    Spark's own reading of such an entry needs Apache Hudi's bundle; this does not.

    Args:
        session: a classic one, not of Spark Connect.
        name: such as `shop.orders`.

    Raises:
        OptionError: the session is of Spark Connect, or Spark cannot load the entry.
        TableNotFoundError: there is no such table, or it is not a Hudi table.
    """
    return entry_place(table_entry(session, name))


def table_entry(session: SparkSession, name: str) -> Any:
    """The entry of a Hudi table in the session's catalog, as Spark's CatalogTable; see `table_place`."""
    state: Any = session
    try:
        state = state._jsparkSession.sessionState()  # noqa: SLF001  # PySpark's own calls want the data source
        entry = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(name))
    except AttributeError:
        raise OptionError(f"{name}: only a classic Spark session can look up names; give the table's path") from None
    except (PySparkException, Py4JJavaError) as error:
        reason = next(filter(str.strip, str(error).splitlines()), "")
        if "storage handler" in str(error):
            raise OptionError(
                f"{name}: Spark cannot load the entry without the jar of Hive's storage handler: put what "
                "`hudi-catalog hive-jar` prints into spark.jars, or run ADD JAR with it in this session"
            ) from None
        raise TableNotFoundError(f"{name}: {reason}") from None  # the rest of Spark's report is the JVM's stack
    if not is_hudi_entry(entry):
        raise TableNotFoundError(f"{name}: not a Hudi table's entry; its provider is {_text(entry.provider())!r}")
    return entry


def is_hudi_entry(entry: Any) -> bool:
    """Whether an entry of Spark's catalog is a Hudi table's."""
    return _text(entry.provider()).lower() == _PROVIDER and bool(entry.storage().locationUri().isDefined())


def entry_place(entry: Any) -> str:
    """The folder of a Hudi table's entry."""
    return _text(entry.properties().get(_BASE_PATH)) or _as_we_spell(entry.location())


def _text(option: Any) -> str:
    """The text in a Scala option."""
    return str(option.get()) if option.isDefined() else ""


def _as_we_spell(location: Any) -> str:
    """A location without URI escapes and without Hadoop's own schemes."""
    scheme, path = location.getScheme(), location.getPath()
    if scheme in (None, "file"):
        return str(path)
    return f"{_SCHEMES.get(scheme, scheme)}://{location.getAuthority() or ''}{path}"
