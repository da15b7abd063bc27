"""Drives an Apache Hudi release in its own Spark 3.5 environment (see `session.py`)."""

import json
import os
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.support.paths import ROOT
from tools.engines.brief_java import quick

#: Releases that continue writing to our tables.
VERSIONS = ("0.15.0", "1.2.0")
#: Releases whose tables we read.
ALL_VERSIONS = ("0.15.0", "1.0.2", "1.2.0")
#: Options with which releases from 1.0 on leave a table in version 6.
STAY_ON_SIX = {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}


class ApacheError(Exception):
    """What Apache Hudi threw."""


def environment() -> tuple[Path, Path]:
    """The interpreter and the folder of bundles; the environment may name other ones."""
    python = os.environ.get("HUDI_CATALOG_APACHE_PYTHON") or ROOT / ".venv-apache/bin/python"
    jars = os.environ.get("HUDI_CATALOG_APACHE_JARS") or ROOT / ".work/jars"
    return Path(python), Path(jars)


def missing(version: str) -> str | None:
    """Why this release cannot run here, or None."""
    python, jars = environment()
    if shutil.which("java") is None:
        return "no JDK on the path"
    if not python.exists():
        return f"no Spark 3.5 environment at {python}: run `make engines`"
    if not bundle(version).exists():
        return f"no bundle {bundle(version).name} in {jars}: run `make engines`"
    return None


def bundle(version: str) -> Path:
    return environment()[1] / f"hudi-spark3.5-bundle_2.12-{version}.jar"


class ApacheHudi:
    """One release, running.

    Args:
        version: of the release.
        scratch: folder for its files.
        metastore: URI of the Hive Metastore that Spark SQL finds its tables in; None for a catalog of its own.
        classes: more jars.
        lasting: False where it runs for minutes only, as in tests: Java's second compiler would take more time then
            than it saves, and so would settings of storage that no test uses, and Bloom filters for 60,000 keys.
        patience: seconds that one command may take. A benchmark's command may hold five look-ups in 50 million keys,
            which take a minute and a half on a quiet machine.
    """

    def __init__(
        self,
        version: str,
        scratch: Path,
        metastore: str | None = None,
        classes: Sequence[Path] = (),
        *,
        lasting: bool = True,
        patience: float = 300,
    ) -> None:
        self.version = version
        self._patience = patience
        self.scratch = scratch
        self._log = (scratch / f"apache-{version}.log").open("wb")
        script = ROOT / "tests/engines/apache_hudi/session.py"
        class_path = ":".join(map(str, [bundle(version), *classes]))
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
        self._process = subprocess.Popen(
            [str(environment()[0]), str(script), version, class_path, *([metastore] if metastore else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=scratch,
            start_new_session=True,
            env=environ if lasting else {**environ, "JDK_JAVA_OPTIONS": quick(version), "BRIEF_SESSION": "1"},
        )
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._wait("its start", max(180, patience))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def kill(self) -> None:
        """End it and its Java in the middle of what they do."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def read(self, path: Path | str, where: str | None = None, options: Mapping[str, str] | None = None) -> pa.Table:
        """A snapshot query, with data skipping on."""
        out = self.scratch / f"read-{self.version}"
        self._ask("read", path=str(path), out=str(out), where=where, options=dict(options or {}))
        return pq.read_table(out)

    def read_each(self, path: Path | str, filters: Sequence[str]) -> list[pa.Table]:
        """A snapshot query for each filter, with data skipping on; all in one Spark job, which is quicker."""
        out = self.scratch / f"read-{self.version}"
        self._ask("read_each", path=str(path), out=str(out), filters=list(filters))
        rows = pq.read_table(out)
        numbers = rows["filter"]
        return [rows.filter(pc.equal(numbers, number)).drop_columns("filter") for number in range(len(filters))]

    def write(self, path: Path | str, data: pa.Table | None, options: Mapping[str, str], mode: str = "append") -> None:
        source = None
        if data is not None:
            source = str(self.scratch / f"write-{self.version}.parquet")
            pq.write_table(data, source, coerce_timestamps="us")
        self._ask("write", path=str(path), data=source, options=dict(options), mode=mode)

    def write_file(self, path: Path | str, data: Path, options: Mapping[str, str], mode: str = "append") -> None:
        """Like `write`, of a Parquet file that lies ready."""
        self._ask("write", path=str(path), data=str(data), options=dict(options), mode=mode)

    def planned_files(
        self, path: Path | str, filters: list[str], options: Mapping[str, str] | None = None
    ) -> list[list[str] | None]:
        """Names of the data files that this release keeps for each filter; None if it does not say."""
        return list(self._ask("planned_files", path=str(path), filters=filters, options=dict(options or {}))["files"])

    def plan_seconds(self, path: Path | str, where: str, repeats: int) -> dict[str, Any]:
        """Seconds of planning, `cold` and `warm`, and the number of files `kept`."""
        return self._ask("plan_seconds", path=str(path), where=where, repeats=repeats)

    def tag_seconds(self, path: Path | str, data: Path, options: Mapping[str, str], repeats: int) -> dict[str, Any]:
        """Run by run, the `seconds` of finding the file groups of all rows of a Parquet file by the index that the
        options name, and the number of rows `found` in the table; 1.2.0 only."""
        return self._ask("tag_seconds", path=str(path), data=str(data), options=dict(options), repeats=repeats)

    def write_hfile(
        self,
        path: Path | str,
        entries: Sequence[tuple[str, str]],
        *,
        block_size: int,
        index_size: int | None = None,
        codec: str = "GZ",
    ) -> int:
        """Write an HFile by HBase's own classes (0.15.0 only); see `hbase_files.py`.

        Returns:
            The levels of its index.
        """
        arguments = {"block_size": block_size, "index_size": index_size, "codec": codec}
        return int(self._ask("write_hfile", path=str(path), entries=list(entries), **arguments)["levels"])

    def configure(self, key: str, value: str) -> None:
        """Set a property of Hadoop's configuration, by which files are written."""
        self._ask("configure", key=key, value=value)

    def sql(self, text: str) -> list[dict[str, Any]]:
        return list(self._ask("sql", text=text)["rows"])

    def query(self, text: str) -> pa.Table:
        """The rows of a query of Spark SQL."""
        out = self.scratch / f"query-{self.version}"
        self._ask("query", text=text, out=str(out))
        return pq.read_table(out)

    def validate_files(self, path: Path | str) -> list[dict[str, Any]]:
        return list(self._ask("validate_files", path=str(path))["rows"])

    def files(self, path: Path | str) -> dict[str, dict[str, int]]:
        return dict(self._ask("files", path=str(path))["files"])

    def column_stats(
        self, path: Path | str, columns: list[str], entries: list[tuple[str, str]]
    ) -> dict[str, dict[str, Any]]:
        return dict(self._ask("column_stats", path=str(path), columns=columns, entries=entries)["stats"])

    def record_index(self, path: Path | str, keys: Sequence[str]) -> dict[str, tuple[str, str, str]]:
        """Partition, file id and instant of those keys that the release finds in the record index."""
        places = self._ask("record_index", path=str(path), keys=list(keys))["places"]
        return {key: (place[0], place[1], place[2]) for key, place in places.items()}

    def timeline(self, path: Path | str, partitions: Sequence[str]) -> dict[str, Any]:
        """What the release says of a table without its metadata table; see `timelines.py`."""
        return self._ask("timeline", path=str(path), partitions=list(partitions))

    def _ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"command": command, **arguments}).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._wait(command, self._patience)
        if "error" in answer:
            raise ApacheError(f"{answer['error']}\n{answer['trace']}")
        return answer

    def _wait(self, command: str, seconds: float) -> dict[str, Any]:
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            # its answer would be taken for that of the next command
            self._process.kill()
            log = self._log.name
            raise ApacheError(f"Apache Hudi {self.version}: {command} took over {seconds:.0f} s; see {log}") from None
        if answer is None:
            raise ApacheError(f"Apache Hudi {self.version} ended; see {self._log.name}")
        return answer

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"@@"):
                self._answers.put(json.loads(line[2:]))
        self._answers.put(None)
