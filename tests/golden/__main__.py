"""Recreate golden files, script by script; all take about an hour with the engines installed (`make engines`).

Run: python -m tests.golden [script, ...]
"""

import argparse
import subprocess
import sys

#: Modules below `tests.golden`.
SCRIPTS = (
    "java_properties",
    "hudi_types",
    "timestamp_keys",
    "merge_on_read",
    "hbase_indexes",
    "histories.make",
    "spark_filters.make",
    "schema_on_read",
    "unlisted_commit",
    "row_groups",
    "indexes",
    "metadata_files.make",
    "corpus.make",
    "apache_tables.make",
)


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument(
        "scripts", nargs="*", metavar="script", choices=[[], *SCRIPTS], help=f"of: {', '.join(SCRIPTS)}; all else"
    )
    for script in parser.parse_args().scripts or SCRIPTS:
        print(f"tests.golden.{script} …", flush=True)
        subprocess.run([sys.executable, "-m", f"tests.golden.{script}"], check=True)


if __name__ == "__main__":
    main()
