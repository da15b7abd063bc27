"""The Hadoop configuration of a session: what hive-site.xml, core-site.xml or `spark.hadoop.` options say."""

from __future__ import annotations

from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from table_format.errors import UnsupportedTableError

_ENCRYPTED_BY: Final = ("footer.key", "column.keys", "uniform.key")
_FACTORY: Final = "parquet.crypto.factory.class"
# It encrypts what the keys above name, and nothing without them: sessions have it to read encrypted tables as well.
_BY_KEYS: Final = "PropertiesDrivenCryptoFactory"


def hadoop_setting(session: SparkSession, key: str) -> str | None:
    """A setting by its name; None where the session has no JVM here, as Spark Connect."""
    state: Any = session
    try:
        text = state._jsparkSession.sessionState().newHadoopConf().get(key)  # noqa: SLF001  # PySpark has no other way
    except (PySparkException, AttributeError):
        return None
    return str(text) if text else None


def refuse_encryption(session: SparkSession) -> None:
    """Refuse to write plain files where the session's own would be encrypted.

    Raises:
        UnsupportedTableError: the session's settings have Parquet files encrypted.
    """
    for name in _ENCRYPTED_BY:
        if hadoop_setting(session, f"parquet.encryption.{name}"):
            raise UnsupportedTableError(_refusal(f"parquet.encryption.{name}"))
    factory = hadoop_setting(session, _FACTORY)
    if factory is not None and factory.rsplit(".", 1)[-1] != _BY_KEYS:
        raise UnsupportedTableError(_refusal(f"{_FACTORY}={factory}"))


def _refusal(setting: str) -> str:
    return (
        f"{setting} is set in the session, and this writer does not encrypt files: unset it for this table, or write "
        "it with Apache Hudi"
    )
