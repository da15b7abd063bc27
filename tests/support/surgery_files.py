"""Slots written twice, by row-group surgery and as a whole, to compare the results."""

from __future__ import annotations

import dataclasses
import io
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from table_format.base_file.footer import footer
from table_format.base_file.reader import read_base_file
from table_format.codecs.avro_schema import schema_text
from table_format.meta_columns import META_FIELDS, PARTITION_PATH, RECORD_KEY
from table_format.schema.evolution import storage_schema
from table_format.storage import Storage
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.encoding.meta_columns import constant
from table_writer.files.file_change import WrittenFile
from table_writer.metadata.column_statistics import indexable_columns
from table_writer.plan.plan import BUCKET_COLUMN, CURRENT_SCHEMA, FilePlan, ListedFiles, TaskIdentity
from table_writer.slots.slot import groups_of_rows, write_groups

ALWAYS = {"hoodie.catalog.write.surgery": "always"}
NEVER = {"hoodie.catalog.write.surgery": "never"}


@contextmanager
def rows_per_group(count: int) -> Iterator[None]:
    """Files get row groups of so many rows, far fewer than the options allow."""
    with mock.patch.object(BaseFileOptions, "rows_per_group", return_value=count):
        yield


class Slot:
    """One file group of a table."""

    def __init__(self, folder: Path, schema: pa.Schema, **plan: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.storage = Storage(str(folder))
        self.schema = schema
        self.current = CURRENT_SCHEMA.empty_table()
        self.plan: Mapping[str, Any] = plan
        self.partition = ""
        self.steps = 0

    @classmethod
    def of_file(cls, folder: Path, name: str, data: bytes, **plan: Any) -> Slot:
        """A table whose only file is there already."""
        slot = cls(folder, pa.schema([]), **plan)
        schema = pq.read_schema(io.BytesIO(data))
        slot.schema = storage_schema(schema.remove_metadata())
        slot.partition = pq.read_table(io.BytesIO(data), columns=[PARTITION_PATH])[PARTITION_PATH][0].as_py()
        path = f"{slot.partition}/{name}" if slot.partition else name
        slot.storage.create(path, data)
        row = {"partition": slot.partition, "bucket": 0, "file_id": "f", "instant": "20200101000000000", "path": path}
        slot.current = pa.Table.from_pylist([row], CURRENT_SCHEMA)
        return slot

    def write(self, rows: pa.Table, options: Mapping[str, str], **plan: Any) -> WrittenFile | None:
        """Write rows (with their record keys, or a column `id` that is it) and take the file for the current one."""
        self.steps += 1
        keyed = rows
        if RECORD_KEY not in rows.column_names:
            keyed = rows.append_column(RECORD_KEY, rows["id"].cast(pa.string()))
        keyed = keyed.append_column(BUCKET_COLUMN, pa.array(np.zeros(len(rows), np.int32)))
        keyed = keyed.select([RECORD_KEY, BUCKET_COLUMN]) if plan.get("delete") else keyed
        if self.partition:
            keyed = keyed.append_column(PARTITION_PATH, constant(self.partition, len(rows)))
        schema = plan.pop("schema", self.schema)
        self.schema = schema
        made = FilePlan(
            storage=self.storage,
            instant=f"2026112200000{self.steps:04d}",
            schema=schema,
            footer_schema=schema_text(schema, "t", meta_fields=True),
            current=ListedFiles(self.current),
            unique=True,
            indexed=tuple(indexable_columns(schema)),
            file_options={**options},
        )
        made = dataclasses.replace(made, **{**self.plan, **plan})
        written = list(write_groups(made, groups_of_rows(keyed.combine_chunks()), TaskIdentity(3, f"3-0-{self.steps}")))
        if not written:
            return None
        stat = written[0].stat
        row = {
            "partition": self.partition,
            "bucket": 0,
            "file_id": stat.file_id,
            "instant": made.instant,
            "path": stat.path,
        }
        self.current = pa.Table.from_pylist([row], CURRENT_SCHEMA)
        return written[0]

    def copy(self, folder: Path) -> Slot:
        """The same table in another folder."""
        shutil.copytree(self.folder, folder)
        other = Slot(folder, self.schema, **self.plan)
        other.current, other.steps = self.current, self.steps
        return other

    @property
    def path(self) -> str:
        """Of the current file."""
        path: str = self.current["path"][0].as_py()
        return path

    def rows(self) -> list[str]:
        """All rows as texts (NaN and -0.0 included), sorted."""
        schema = pa.schema([*META_FIELDS, *self.schema])
        return sorted(map(repr, read_base_file(self.storage, self.path, schema=schema).to_pylist()))

    def parquet(self) -> Any:
        """The current file's footer."""
        return pq.read_metadata(self.folder / self.path)

    def group_rows(self) -> list[int]:
        """Rows of each row group."""
        file = self.parquet()
        return [file.row_group(number).num_rows for number in range(file.num_row_groups)]

    def chunks(self) -> dict[tuple[int, str], bytes]:
        """The bytes of the pages of each column chunk, by row group and path."""
        file, data = self.parquet(), (self.folder / self.path).read_bytes()
        chunks = {}
        for number in range(file.num_row_groups):
            for index in range(file.num_columns):
                chunk = file.row_group(number).column(index)
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                chunks[number, chunk.path_in_schema] = data[start : start + chunk.total_compressed_size]
        return chunks


def differences(left: tuple[Slot, WrittenFile], right: tuple[Slot, WrittenFile], *, schemas: bool = True) -> list[str]:
    """The differences between two versions of a file, bytes and row groups left out.

    Args:
        left: one version.
        right: the other.
        schemas: compare the files' schemas as well.
    """
    different = []
    (one, made), (other, whole) = left, right
    if one.rows() != other.rows():
        different.append(f"rows {one.rows()} and {other.rows()}")
    names = ("num_writes", "num_deletes", "num_update_writes", "num_inserts", "file_id", "prev_commit", "path")
    of_stat = [(name, getattr(made.stat, name), getattr(whole.stat, name)) for name in names]
    different += [f"{name} {ours} and {theirs}" for name, ours, theirs in of_stat if ours != theirs]
    if (made.statistics is None) != (whole.statistics is None):
        different.append("one of them has statistics")
    elif made.statistics is not None and whole.statistics is not None:
        compared = [name for name in made.statistics.column_names if "size" not in name]
        pairs = zip(*(t.select(compared).to_pylist() for t in (made.statistics, whole.statistics)), strict=True)
        different += [f"statistics {ours} and {theirs}" for ours, theirs in pairs if ours != theirs]
    ours, theirs = footer(one.storage, one.path), footer(other.storage, other.path)
    if (ours.min_key, ours.max_key) != (theirs.min_key, theirs.max_key):
        different.append(f"keys {ours.min_key, ours.max_key} and {theirs.min_key, theirs.max_key}")
    keys = read_base_file(one.storage, one.path, [RECORD_KEY])[RECORD_KEY].combine_chunks()
    if ours.bloom is None or (len(keys) and not ours.bloom.may_contain(keys).all()):
        different.append("the bloom filter lacks keys")
    same_texts = {name: text for name, text in theirs.key_values.items() if not _of_keys(name)}
    if schemas and same_texts != {name: text for name, text in ours.key_values.items() if not _of_keys(name)}:
        different.append(f"footer texts {ours.key_values.keys()} and {theirs.key_values.keys()}")
    if schemas and ours.schema != theirs.schema:
        different.append(f"schema {ours.schema} and {theirs.schema}")
    return different


def _of_keys(name: str) -> bool:
    return "bloom" in name or "record_key" in name
