"""A Trino server put together from the jars on Maven Central, for releases whose archive is not there.

The server's own jars and those of its plugins are there. What the archive has beside them is small: the class that
starts the server, and in each plugin's folder a jar that names the plugin's class.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tools.engines.artifacts import Artifact, EngineMissingError, cache_folder, fetch, locked
from tools.engines.jdk import find_java

PLUGINS: Mapping[str, str] = {
    "memory": "io.trino.plugin.memory.MemoryPlugin",
    "tpch": "io.trino.plugin.tpch.TpchPlugin",
}
"""The plugins used here, by their connectors' names, and their classes."""
MAIN = "TrinoLauncher"
"""The class that starts the server, with the version as its argument; in the folder `lib`."""
COMPILER = Artifact("org.eclipse.jdt", "ecj", "3.43.0")
LEVEL = ("-source", "24", "-target", "24")
"""The newest Java that this compiler writes; it reads classes of Java 25."""
_LAUNCHER = Path(__file__).with_name(f"{MAIN}.java")
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>hudicatalog</groupId><artifactId>server-libraries</artifactId><version>1</version>
  <dependencyManagement><dependencies><dependency>
    <groupId>io.trino</groupId><artifactId>trino-root</artifactId><version>{version}</version>
    <type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
  <dependencies><dependency>
    <groupId>io.trino</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""


def assembled(version: str, java: int) -> Path:
    """Folder of a server, with `lib` and `plugin` as in Trino's archive, put together on first use.

    Args:
        version: release of Trino.
        java: version of Java that the release needs.

    Raises:
        EngineMissingError: there is no Maven or no such Java, or the jars cannot be fetched.
    """
    folder = cache_folder() / f"trino-assembled-{version}-{'-'.join(PLUGINS)}"
    if folder.exists():
        return folder
    with locked(f"{folder.name}.unpack"):
        if folder.exists():
            return folder
        partial = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(partial, ignore_errors=True)
        print(f"fetching the jars of Trino {version} …", file=sys.stderr, flush=True)
        _copy_jars("trino-main", version, partial / "lib")
        _compile_launcher(partial / "lib", java)
        for name, plugin in PLUGINS.items():
            _copy_jars(f"trino-{name}", version, partial / "plugin" / name)
            with zipfile.ZipFile(partial / "plugin" / name / f"trino-{name}-{version}-services.jar", "w") as jar:
                jar.writestr("META-INF/services/io.trino.spi.Plugin", f"{plugin}\n")
        partial.rename(folder)
    return folder


def _copy_jars(artifact: str, version: str, folder: Path) -> None:
    """A jar of Trino's and all that it needs, in the versions that the release is built with."""
    maven = shutil.which("mvn")
    if maven is None:
        raise EngineMissingError(f"Trino {version} has no archive on Maven Central: install Maven (mvn) for its jars")
    with tempfile.TemporaryDirectory() as project:
        pom = Path(project) / "pom.xml"
        pom.write_text(_POM.format(artifact=artifact, version=version), encoding="utf-8")
        copying = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
        _run([maven, "-q", "-B", "-f", str(pom), *copying], f"{artifact} {version} could not be fetched")


def _compile_launcher(lib: Path, java: int) -> None:
    """By Eclipse's compiler, since the Java that runs Trino may be a runtime without one."""
    program = [str(find_java(java)), "-jar", str(fetch(COMPILER)), *LEVEL]
    jars = ":".join(str(jar) for jar in sorted(lib.glob("*.jar")))
    _run([*program, "-cp", jars, "-d", str(lib), str(_LAUNCHER)], f"{_LAUNCHER.name} could not be compiled")


def _run(command: list[str], failure: str) -> None:
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise EngineMissingError(f"{failure}: {done.stdout.strip()[-500:]}")
