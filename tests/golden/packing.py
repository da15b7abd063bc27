"""What the scripts beside the archives share: a release of Apache Hudi for each table, and archives without owners and
times.

Each script runs where the engines are (`make engines`) as `python -m tests.golden.NAME [table, ...]`. With names it
makes these tables anew, and the rest of the archive stays.
"""

import gzip
import io
import json
import lzma
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.apache_hudi_client import ApacheHudi
from tests.support.paths import GOLDEN

#: Files by their names in an archive.
Members = dict[str, bytes]
#: Makes a table in a folder, which does not exist yet, and gives the files to keep, by their names below the table's.
Maker = Callable[[ApacheHudi, Path], Members]

#: The metadata table, which few tests of rows need.
METADATA_TABLE = ".hoodie/metadata/"


def files_of(folder: Path, under: str = "", without: str | None = METADATA_TABLE) -> Members:
    """The files of a folder but Hadoop's checksums, and those whose path starts with `without`."""
    members = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and path.suffix != ".crc" and not (without and name.startswith(without)):
            members[under + name] = path.read_bytes()
    return members


def parquet(rows: pa.Table) -> bytes:
    stream = io.BytesIO()
    # the archive compresses it better
    pq.write_table(rows, stream, compression="none", use_dictionary=False, write_statistics=False)
    return stream.getvalue()


def as_json(facts: Any) -> bytes:
    return json.dumps(facts, ensure_ascii=False).encode()


def below(folder: str, members: Mapping[str, bytes]) -> Members:
    """The files of an archive under the folder."""
    return {f"{folder}/{path}": data for path, data in members.items()}


def read_archive(archive: Path) -> Members:
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        return {name.removeprefix("./"): stream.read() for name, stream in files.items() if stream}


def write_archive(archive: Path, members: Mapping[str, bytes]) -> None:
    """A tar, sorted by name, without owners and times; the same members give the same bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in sorted(members.items()):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    archive.write_bytes(lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def write_gzip(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data, 9, mtime=0))


def make_tables(tables: Mapping[str, tuple[str, Maker]], names: Sequence[str]) -> dict[str, Members]:
    """Let each table's release write it.

    Args:
        tables: by name, the release and the maker.
        names: of the tables that are wanted; none for all.

    Returns:
        The files of each table.
    """
    made: dict[str, Members] = {}
    wanted = {name: tables[name] for name in names or tables}
    for release in sorted({release for release, _ in wanted.values()}):
        with tempfile.TemporaryDirectory() as scratch:
            apache = ApacheHudi(release, Path(scratch))
            try:
                for name in (name for name, (of, _) in wanted.items() if of == release):
                    folder = Path(scratch) / "tables" / name
                    made[name] = wanted[name][1](apache, folder)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                apache.close()
    return made


def remake(archive_name: str, tables: Mapping[str, tuple[str, Maker]], names: Sequence[str]) -> None:
    """Recreate tables, each a folder of an archive below `tests/golden`."""
    archive = GOLDEN / archive_name
    made = make_tables(tables, names)
    rest = read_archive(archive) if names else {}
    members = {name: data for name, data in rest.items() if name.split("/")[0] not in made}
    for table, files in made.items():
        members |= {f"{table}/{name}": data for name, data in files.items()}
    write_archive(archive, members)
