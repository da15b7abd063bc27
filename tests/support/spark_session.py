"""The Spark session of tests, and of the scripts that they run in processes of their own."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tools.engines.brief_java import quick


def local_session(log_level: str = "OFF", **options: str) -> SparkSession:
    """A session of two tasks at a time, in UTC, on this machine alone.

    Args:
        log_level: of Spark's log.
        options: further settings, with `_` for each dot.
    """
    builder = SparkSession.builder.master("local[2]")
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": quick(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        **{name.replace("_", "."): text for name, text in options.items()},
    }
    for name, text in settings.items():
        builder = builder.config(name, text)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(log_level)
    return session
