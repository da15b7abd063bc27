"""Tables that Apache Hudi wrote, of all kinds, each in a folder of its own where it is called `t`."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.support.paths import GOLDEN

#: Archive, table, and what it is there for.
TABLES = {
    "logs of layout 1": ("tables/newer.tar.xz", "v6_0150__mor_pending/table"),
    "logs of version 8": ("tables/newer.tar.xz", "v8_1020__mor_log/table"),
    "logs of version 9": ("tables/newer.tar.xz", "v9_1200__mor_bkt/table"),
    "logs and a record index": ("tables/newer.tar.xz", "v9_1200__mor_rli/table"),
    "columns added and widened": ("tables/newer.tar.xz", "v9_1200__bkt_evolve/table"),
    "columns renamed and dropped": ("schema_on_read.tar.xz", "v9_1200"),
    "columns renamed in structs": ("schema_on_read.tar.xz", "v6_0150"),
    "partial updates": ("merge_on_read.tar.xz", "1.2.0__mor_partial/table"),
    "nested columns in logs": ("merge_on_read.tar.xz", "1.2.0__mor_types/table"),
    "duplicate keys": ("merge_on_read.tar.xz", "1.2.0__mor_duplicates/table"),
    "required fields": ("hudi_types.tar.xz", "blb_mor"),
    "bloom filters": ("tables/indexes.tar.xz", "v6_blooms"),
    "consistent hashing": ("tables/indexes.tar.xz", "v9_ring"),
    "times in paths": ("timestamp_keys.tar.xz", "1.2.0__unix_mor_9/table"),
}


def lay_out(folder: Path) -> dict[str, Path]:
    """Unpack all of them; the folder above each table, by what it is there for."""
    archives: dict[str, list[tuple[str, str]]] = {}
    for what, (archive, name) in TABLES.items():
        archives.setdefault(archive, []).append((what, name))
    made = {}
    for archive, tables in archives.items():
        with tarfile.open(GOLDEN / archive) as tar:
            tar.extractall(folder / archive, filter="data")
        for what, name in tables:
            made[what] = folder / what.replace(" ", "_")
            made[what].mkdir()
            (folder / archive / name).rename(made[what] / "t")
    return made
