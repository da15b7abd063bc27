"""Tables by the names that the metastore of a Spark session has for them."""

from __future__ import annotations

from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from table_format.errors import OptionError, TableNotFoundError

_PROVIDER: Final = "hudi"
# how the sync of this project spells the place; the entry's location is spelled as Hadoop has it
_BASE_PATH: Final = "hoodie.catalog.base.path"
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}


def table_place(session: SparkSession, name: str) -> str:
    """Where a table lies that is registered in the session's catalog, by a sync or by Spark SQL.

    Spark's own reading of such an entry needs Apache Hudi's bundle; this does not.

    Args:
        session: a classic one, not of Spark Connect.
        name: such as `shop.orders`.

    Raises:
        OptionError: the session is of Spark Connect, or Spark cannot load the entry.
        TableNotFoundError: there is no such table, or it is none of Hudi's.
    """
    state: Any = session
    try:
        state = state._jsparkSession.sessionState()  # noqa: SLF001  # PySpark's own calls want the data source
        entry = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(name))
    except AttributeError:
        raise OptionError(f"{name}: only a classic Spark session looks names up; give the table's path") from None
    except (PySparkException, Py4JJavaError) as error:
        told = next(filter(str.strip, str(error).splitlines()), "")
        if "storage handler" in str(error):
            raise OptionError(
                f"{name}: Spark cannot load the entry without the jar of Hive's storage handler: put what "
                "`hudi-catalog hive-jar` prints into spark.jars"
            ) from None
        raise TableNotFoundError(f"{name}: {told}") from None  # Spark's report goes on with the JVM's stack
    location = entry.storage().locationUri()
    if _text(entry.provider()).lower() != _PROVIDER or not location.isDefined():
        raise TableNotFoundError(f"{name}: the entry is of no Hudi table; its provider is {_text(entry.provider())!r}")
    return _text(entry.properties().get(_BASE_PATH)) or _as_we_spell(entry.location())


def _text(option: Any) -> str:
    """The text in a Scala option."""
    return str(option.get()) if option.isDefined() else ""


def _as_we_spell(location: Any) -> str:
    """A place without the escapes of a URI, and without Hadoop's own schemes."""
    scheme, path = location.getScheme(), location.getPath()
    if scheme in (None, "file"):
        return str(path)
    return f"{_SCHEMES.get(scheme, scheme)}://{location.getAuthority() or ''}{path}"
