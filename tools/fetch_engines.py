"""Fetches the engines that tests run: Apache Hudi's Spark 3.5 bundles, Trino 476 and 483, Presto, Hive, Trino's JDK.

The bundles go into `.work/jars`: Maven fetches them where it is installed; else Spark's own resolver, which needs a JDK
only. Trino, Presto and Hive go into the user's cache folder. Classes that Spark loads are archived, so that it starts
faster. A failure is reported, not raised: the engine tests then skip and say why (in continuous integration they fail).
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from pathlib import Path

from hudi_catalog.trino.connector import plugin
from tools.engines import brief_java, presto, trino, trino_jar
from tools.engines.artifacts import EngineMissingError
from tools.engines.hive import jars, older_metastore, server
from tools.engines.jdk import find_java

ROOT = Path(__file__).parents[1]
JARS = ROOT / ".work/jars"
APACHE_PYTHON = ROOT / ".venv-apache/bin/python"
ARTIFACT = "hudi-spark3.5-bundle_2.12"
VERSIONS = ("0.15.0", "1.0.2", "1.2.0")

RESOLVE = """
import sys
from pyspark.sql import SparkSession
coordinates, folder = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder.config("spark.jars.packages", coordinates).config("spark.jars.ivy", folder).getOrCreate().stop()
"""


def bundle(version: str) -> Path:
    """Where the bundle of a release is kept."""
    return JARS / f"{ARTIFACT}-{version}.jar"


def by_maven(version: str) -> None:
    """Copy one bundle with Maven's dependency plugin."""
    artifact = f"-Dartifact=org.apache.hudi:{ARTIFACT}:{version}"
    subprocess.run(
        ["mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={JARS}"],
        check=True,
    )


def by_spark(version: str) -> None:
    """Let Spark's resolver fetch one bundle, and take it out of its cache."""
    cache = ROOT / ".work/ivy"
    coordinates = f"org.apache.hudi:{ARTIFACT}:{version}"
    subprocess.run([str(APACHE_PYTHON), "-c", RESOLVE, coordinates, str(cache)], check=True)
    shutil.copy(cache / f"jars/org.apache.hudi_{ARTIFACT}-{version}.jar", bundle(version))


def bundles() -> None:
    """Fetch the bundles that are missing."""
    JARS.mkdir(parents=True, exist_ok=True)
    for version in VERSIONS:
        if bundle(version).exists():
            continue
        print(f"fetching {ARTIFACT} {version} …", flush=True)
        try:
            by_maven(version) if shutil.which("mvn") else by_spark(version)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"could not fetch it: {error}; tests that need it will be skipped", file=sys.stderr)


def servers() -> None:
    """Fetch Trino, Presto and Hive, and look for the JDKs that they need."""
    for install, java in (
        (trino.installation, trino.JAVA),
        *((functools.partial(trino.installation, version), trino.JAVA) for version in trino.ASSEMBLED),
        (presto.installation, presto.JAVA),
        (jars.installation, server.JAVA),
        (older_metastore.class_path, older_metastore.JAVA),
    ):
        try:
            install()
            find_java(java)
        except EngineMissingError as error:
            print(f"{error}; tests that need it will be skipped", file=sys.stderr)


def connector() -> None:
    """Build Trino's connector, where there is a JDK that can."""
    for version in plugin.VERSIONS:
        try:
            trino_jar.build(version)
        except EngineMissingError as error:
            print(f"{error}; tests that need it will be skipped", file=sys.stderr)


def main() -> int:
    """Fetch what is missing; 0 in any case, so that the other tests still run."""
    bundles()
    servers()
    connector()
    brief_java.make_archives(APACHE_PYTHON, {version: bundle(version) for version in VERSIONS})
    return 0


if __name__ == "__main__":
    sys.exit(main())
