"""The folder of Trino's plugin `hudi_catalog`: our jar, and the libraries that Trino's class loader keeps from plugins.

Trino gives plugins few of its own libraries, so that each brings those that it needs. Those of this one are part of
Trino's own distribution, and on Maven Central; `plugin-476.txt` and `plugin-483.txt` have their checksums for these
releases, `plugin-476-s3.txt` and `plugin-483-s3.txt` those of Trino's S3 file system, which is added by option. Each
release has a jar of ours, too, since Trino changes the interfaces of plugins.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from hudi_catalog.server.endpoints import address_for_clients
from table_format.errors import ServiceError

VERSIONS: Final = ("476", "483")
"""Releases of Trino that the connector is built for and tested with."""
TRINO: Final = VERSIONS[0]
"""The one that is meant where none is named."""
JAR: Final = "hudi-trino-connector.jar"
"""Our jar in the plugin's folder, whatever the release."""
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>hudicatalog</groupId><artifactId>plugin-libraries</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = (
    "    <dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    "{classifier}<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)


@dataclass(frozen=True)
class Library:
    """A jar that lies beside ours.

    Attributes:
        group: Maven's.
        name: its artifact.
        version: of it.
        sha256: checksum in hexadecimal.
        classifier: which of the artifact's jars, where it has several.
    """

    group: str
    name: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        """Name of the file in a Maven repository, and in the plugin's folder."""
        return "-".join(filter(None, (self.name, self.version, self.classifier))) + ".jar"

    def is_at(self, path: Path) -> bool:
        """Whether a file is this jar, byte for byte."""
        return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == self.sha256


@functools.cache
def libraries(trino: str = TRINO, *, s3: bool = False) -> tuple[Library, ...]:
    """The jars that lie beside ours, for a release of Trino; with `s3` those of its S3 file system, too."""
    listed = _listed(f"plugin-{trino}.txt")
    return listed + _listed(f"plugin-{trino}-s3.txt") if s3 else listed


def _listed(name: str) -> tuple[Library, ...]:
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    parts = ((*coordinates.split(":"), sha256) for coordinates, sha256 in rows)
    return tuple(Library(group, name, version, sha256, *more) for group, name, version, *more, sha256 in parts)


def jar_path(trino: str, folder: Path = Path(__file__).parent) -> Path:
    """Where our jar for a release of Trino is built to, in a folder that is this package's by default."""
    return folder.absolute() / f"{Path(JAR).stem}-{trino}.jar"


def connector_jar(trino: str = TRINO, folder: Path = Path(__file__).parent) -> Path:
    """Our jar.

    Args:
        trino: release that it is for.
        folder: to look in; this package's by default.

    Raises:
        ServiceError: it has not been built.
    """
    path = jar_path(trino, folder)
    if not path.is_file():
        raise ServiceError(
            f"{path} is missing: in a checkout run `make trino-jar`, which needs Maven and a JDK of version 25 or "
            "later; else install a wheel of hudi-catalog, which has it"
        )
    return path


def release_of(home: Path) -> str:
    """The release of an installation of Trino.

    Raises:
        ServiceError: it is none, or its release is none of `VERSIONS`.
    """
    if not (home / "plugin").is_dir():
        raise ServiceError(f"{home} is no installation of Trino: it has no folder plugin")
    names = (path.name for folder in ("lib", "plugin/*") for path in home.glob(f"{folder}/*trino-*.jar"))
    releases = {match[1] for name in names if (match := re.search(r"trino-(?:spi|parquet)-(\d+)\.jar$", name))}
    known = " and ".join(VERSIONS)
    if len(releases) != 1:
        raise ServiceError(
            f"{home} does not say which Trino it is: its folders lib and plugin have a trino-spi or trino-parquet "
            f"of {' and '.join(sorted(releases)) or 'no release'}. The connector is built for {known}"
        )
    (release,) = releases
    if release not in VERSIONS:
        raise ServiceError(f"{home} is Trino {release}, and the connector is built for {known}")
    return release


def lay_out(target: Path, trino: Path | None = None, version: str = TRINO, *, s3: bool = False) -> int:
    """Make the plugin's folder.

    Args:
        target: the folder; one that an earlier call made is replaced.
        trino: folder of an installation of Trino whose jars are taken; None to take them from Maven's local repository,
            and to have Maven fetch those that are not there.
        version: release of Trino, one of `VERSIONS`.
        s3: with Trino's S3 file system.

    Returns:
        Bytes in the folder.

    Raises:
        ServiceError: the target holds other files; our jar is not built; or a library is missing or another than that
            the connector was tested with.
    """
    jar = connector_jar(version)
    if target.exists() and not (target.is_dir() and ((target / JAR).exists() or not any(target.iterdir()))):
        raise ServiceError(f"{target} is there already, and no folder of this plugin: name another folder, or empty it")
    wanted = libraries(version, s3=s3)
    sources = _of_maven(wanted, version) if trino is None else _of_installation(wanted, trino, version)
    partial = target.with_name(f"{target.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for source, name in (*sources, (jar, JAR)):
        shutil.copyfile(source, partial / name)
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    return sum(file.stat().st_size for file in target.iterdir())


def _of_installation(wanted: Sequence[Library], home: Path, version: str) -> list[tuple[Path, str]]:
    """Jars of a Trino server, whose plugins have them under names such as `io.trino_trino-parquet-476.jar`."""
    release = release_of(home)
    if release != version:
        raise ServiceError(f"{home} is Trino {release}, and the plugin's folder was to be for Trino {version}")
    plugins = home / "plugin"
    jars = []
    for library in wanted:
        path = next((path for path in sorted(plugins.glob(f"*/*{library.file_name}")) if library.is_at(path)), None)
        if path is None:
            raise ServiceError(
                f"{home} is another build of Trino {version} than the one that the connector was tested with, or lacks "
                f"the plugin hive: there is no {library.file_name} of the expected checksum"
            )
        jars.append((path, library.file_name))
    return jars


def _of_maven(wanted: Sequence[Library], version: str) -> list[tuple[Path, str]]:
    repository = Path(os.environ.get("MAVEN_REPO_LOCAL") or Path.home() / ".m2/repository")
    missing = [library for library in wanted if not library.is_at(_in_repository(repository, library))]
    if missing:
        _fetch(missing, repository, version)
    return [(_in_repository(repository, library), library.file_name) for library in wanted]


def _in_repository(repository: Path, library: Library) -> Path:
    return repository.joinpath(*library.group.split("."), library.name, library.version, library.file_name)


def _fetch(missing: Sequence[Library], repository: Path, version: str) -> None:
    """Have Maven fetch jars, so that its mirrors and proxies hold."""
    maven = shutil.which("mvn")
    if maven is None:
        raise ServiceError(
            f"{missing[0].file_name} and {len(missing) - 1} other libraries of Trino are needed: name an installation "
            f"of Trino {version} by --trino, or install Maven (mvn), which fetches them"
        )
    with tempfile.TemporaryDirectory() as folder:
        dependencies = "\n".join(
            _DEPENDENCY.format(
                group=one.group,
                name=one.name,
                version=one.version,
                classifier=one.classifier and f"<classifier>{one.classifier}</classifier>",
            )
            for one in missing
        )
        pom = Path(folder) / "pom.xml"
        pom.write_text(_POM.format(dependencies=dependencies), encoding="utf-8")
        command = [maven, "-q", "-B", f"-Dmaven.repo.local={repository}", "-f", str(pom), "dependency:resolve"]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603  # Maven, as it is found
    if done.returncode:
        raise ServiceError(f"Maven could not fetch the libraries of the plugin: {done.stdout.strip()[-1000:]}")
    for library in missing:
        if not library.is_at(_in_repository(repository, library)):
            raise ServiceError(f"{library.file_name}: Maven's file is another than the one that was tested")


def catalog_lines(host: str, port: int, *, tls: bool = False, secret: bool = False) -> list[str]:
    """A catalog file of Trino for the connector.

    Args:
        host: address of the service; a wildcard address is replaced by this machine's name.
        port: of the service.
        tls: whether connections are encrypted.
        secret: whether callers need the shared secret.
    """
    lines = ["connector.name=hudi_catalog", f"hudi-catalog.service={address_for_clients(host, port)}"]
    if tls:
        lines += ["hudi-catalog.tls=true", "# if Java does not trust the authority: hudi-catalog.tls.ca=file in PEM"]
    if secret:
        lines.append(
            "# hudi-catalog.secret-file=file with the secret; else the environment's HUDI_CATALOG_SECRET counts"
        )
    return lines


def trino_plugin(
    *,
    to: Annotated[Path, typer.Option("--to", help="Folder to make, such as /usr/lib/trino/plugin/hudi_catalog.")],
    trino: Annotated[
        Path | None,
        typer.Option("--trino", help="Installation of Trino whose libraries are taken, instead of Maven's."),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(
            "--version", help=f"Release of Trino: {' or '.join(VERSIONS)}; that of --trino, else {TRINO}, by default."
        ),
    ] = None,
    s3: Annotated[bool, typer.Option("--s3", help="Add Trino's S3 file system.")] = False,
) -> None:
    """Make the folder of Trino's plugin, whose connector hudi_catalog asks `hudi-catalog serve trino`."""
    if version is not None and version not in VERSIONS:
        raise typer.BadParameter(f"the connector is built for Trino {' and '.join(VERSIONS)}, not {version}")
    release = version or (TRINO if trino is None else release_of(trino))
    size = lay_out(to, trino, release, s3=s3)
    sys.stdout.write(
        f"{to}: {len(libraries(release, s3=s3)) + 1} jars, {size / 1e6:.1f} MB, for Trino {release}"
        f"{' with S3' if s3 else ''}\n"
        f"Put it on every node as a folder of Trino's plugin.dir, and restart Trino.\n"
    )
