"""Writes `table_format/config/apache_option_keys.txt`: the keys of the options that Apache Hudi's releases declare.

Run it again when a release comes: `python -m tools.apache_option_keys`. Java reads the declarations by reflection
(`ApacheOptionKeys.java`) out of the Spark bundle of each release, with PySpark's own jars on the class path. Only the
keys are taken. What the bundles leave out (the streamer, and the clouds) is known by prefix, see
`table_format/config/option_keys.py`.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from tools.engines.artifacts import Artifact, EngineMissingError, fetch

_ROOT = Path(__file__).parents[1]
_TARGET = _ROOT / "table_format/config/apache_option_keys.txt"
_RELEASES = {"0.14.0": "3.3", "0.15.0": "3.5", "1.0.2": "3.5", "1.1.1": "3.5", "1.2.0": "3.5"}
# names of files, paths and schema properties among the constants
_NO_OPTIONS = {"hoodie.properties", "hoodie.properties.backup", "hoodie.properties.updated", "hoodie.tablePath"}


def declared_keys(bundle: Path) -> set[str]:
    """The keys that a bundle declares, those that other keys begin with left out."""
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise EngineMissingError("PySpark's jars are needed: pip install 'hudi-catalog[spark]'")
    path = f"{bundle}:{Path(spark.origin).parent}/jars/*"
    program = str(Path(__file__).with_name("ApacheOptionKeys.java"))
    done = subprocess.run(
        ["java", "-cp", path, program, str(bundle)], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    return {key for key in done.stdout.decode().split() if not key.endswith(".")} - _NO_OPTIONS


def main() -> int:
    """Write the list; the exit code is 1 where a bundle cannot be had."""
    keys: set[str] = set()
    for release, spark in _RELEASES.items():
        try:
            bundle = fetch(Artifact("org.apache.hudi", f"hudi-spark{spark}-bundle_2.12", release))
            declared = declared_keys(bundle)
        except (EngineMissingError, OSError, subprocess.CalledProcessError) as error:
            print(f"{release}: {error}", file=sys.stderr)
            return 1
        print(f"{release}: {len(declared)} keys, {len(declared - keys)} of them new")
        keys |= declared
    releases = ", ".join(_RELEASES)
    heading = f"# Keys of Apache Hudi's options, as {releases} declare them. Made by tools/apache_option_keys.py."
    _TARGET.write_text("\n".join([heading, *sorted(keys)]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
