"""Rows of one statement of a HiveServer2 without passwords on this machine: what `make hive` prints as its example."""

from __future__ import annotations

import argparse
import sys

from pyhive import hive
from pyhive.exc import OperationalError


def main() -> int:
    """Print the rows, tab-separated under the columns' names; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.engines.hive.query", description=__doc__)
    parser.add_argument("statement")
    parser.add_argument("--port", type=int, default=10000, help="of HiveServer2")
    asked = parser.parse_args()
    cursor = hive.connect("127.0.0.1", asked.port, auth="NOSASL").cursor()
    try:
        cursor.execute(asked.statement.rstrip("; \n"))
    except OperationalError as error:
        status = getattr(error.args[0], "status", None) if error.args else None
        print(status.errorMessage if status else error, file=sys.stderr)
        return 1
    if cursor.description:
        print("\t".join(name for name, *_ in cursor.description))
        for row in cursor.fetchall():
            print("\t".join("NULL" if value is None else str(value) for value in row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
