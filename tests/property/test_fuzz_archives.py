"""Damage to the archived timeline of layout 1: the table's rows stay, and what needs the archive says what is wrong."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog import Table
from hudi_catalog.table import create_table, open_table
from table_format.errors import CorruptFileError, HudiError
from table_format.log.blocks import BlockType, HeaderKey
from table_format.storage import Storage
from table_writer.encoding.log_blocks import write_log_block
from tests.support.archived_tables import SHORT

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
OPTIONS = {**SHORT, "hoodie.archive.merge.files.batch.size": "3", "hoodie.clean.commits.retained": "2"}
PLACES = st.floats(0, 1, exclude_max=True)
FOREIGN = [kind for kind in BlockType if kind not in (BlockType.AVRO_DATA, BlockType.CORRUPT)]
Model = dict[str, int]


@dataclass(frozen=True)
class Archived:
    path: Path
    rows: Model
    history: list[str]
    replaced: Any

    @property
    def files(self) -> list[Path]:
        return sorted((self.path / ".hoodie/archived").glob(".commits_.archive.*"))


def rows_of(path: Path) -> Model:
    return {row["id"]: row["v"] for row in Table.open(str(path)).scan(columns=["id", "v"]).to_arrow().to_pylist()}


def history_of(path: Path) -> list[str]:
    return [entry.instant for entry in Table.open(str(path)).history()]


@pytest.fixture(scope="module")
def archived(tmp_path_factory: pytest.TempPathFactory) -> Archived:
    path, model = tmp_path_factory.mktemp("archived") / "t", {}
    table = create_table(path, SCHEMA, record_key="id", partition_by="p", buckets=1, options=OPTIONS)
    for number in range(12):
        rows = [{"id": f"k{number % 5}", "p": "a", "v": number}]
        if number == 3:
            table.insert_overwrite(pa.Table.from_pylist(rows, SCHEMA))
            model = {}
        else:
            table.upsert(pa.Table.from_pylist(rows, SCHEMA))
        model |= {row["id"]: row["v"] for row in rows}
    whole = Archived(path, model, history_of(path), Table.open(str(path)).snapshot().timeline.archive.replaced)
    assert len(whole.files) > 1
    assert len(whole.replaced) == 1
    assert rows_of(path) == model
    return whole


def with_damage(archived: Archived, file: Path, data: bytes, look: Callable[[], Any]) -> Any:
    """What is seen while a file has other content; an error instead of raising it. The rows are there in any case."""
    whole = file.read_bytes()
    try:
        file.write_bytes(data)
        assert rows_of(archived.path) == archived.rows
        return look()
    except HudiError as error:
        return error
    finally:
        file.write_bytes(whole)


def names_the_place(error: Any, file: Path) -> bool:
    """Whether an error is about a byte of this file."""
    return isinstance(error, CorruptFileError) and file.name in str(error) and any(map(str.isdigit, str(error)))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 1000), st.lists(st.tuples(PLACES, st.integers(1, 255)), min_size=1, max_size=3))
def test_changed_bytes(archived: Archived, number: int, flips: list[tuple[float, int]]) -> None:
    """Blocks have no checksum: what a commit says of itself may change unnoticed, but no instant goes, or turns up."""
    file = archived.files[number % len(archived.files)]
    data = file.read_bytes()
    changed = bytearray(data)
    for place, mask in flips:
        changed[int(place * len(data))] ^= mask
    seen = with_damage(archived, file, bytes(changed), lambda: history_of(archived.path))
    assert seen == archived.history or names_the_place(seen, file), seen


@pytest.mark.parametrize(
    "text", ["commitTime", "actionState", "hoodieCommitMetadata", "COMPLETED", "INFLIGHT", "commit", "20"]
)
def test_each_byte_of_a_text(archived: Archived, text: str) -> None:
    """The texts that decide what an entry is: wherever a byte of one is changed, history is whole or refused."""
    refused = 0
    for file in archived.files:
        data = file.read_bytes()
        places = [found.start() for found in re.finditer(text.encode(), data)]
        for at in places[:: max(1, len(places) // 6)]:
            for byte in range(at, at + min(len(text) if text != "20" else 17, 20), 3):
                changed = bytearray(data)
                changed[byte] ^= 1  # of a digit another digit
                seen = with_damage(archived, file, bytes(changed), lambda: history_of(archived.path))
                assert seen == archived.history or names_the_place(seen, file), (file.name, byte, seen)
                refused += seen != archived.history
    assert refused


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 1000), PLACES)
def test_files_that_are_cut_off(archived: Archived, number: int, end: float) -> None:
    file = archived.files[number % len(archived.files)]
    data = file.read_bytes()
    seen = with_damage(archived, file, data[: max(1, int(end * len(data)))], lambda: history_of(archived.path))
    assert names_the_place(seen, file)


@pytest.mark.parametrize("kind", FOREIGN, ids=[kind.name for kind in FOREIGN])
@pytest.mark.parametrize("before", [True, False])
def test_blocks_that_do_not_belong_there(archived: Archived, kind: BlockType, before: bool) -> None:
    file = archived.files[-1]
    foreign = write_log_block(kind, {HeaderKey.INSTANT_TIME: "20240101000000000"}, b"\0" * 20)
    parts = [foreign, file.read_bytes()] if before else [file.read_bytes(), foreign]
    seen = with_damage(archived, file, b"".join(parts), lambda: history_of(archived.path))
    assert names_the_place(seen, file)


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 1000), PLACES)
@pytest.mark.slow
def test_writes_go_on_beside_a_damaged_archive(
    archived: Archived, tmp_path_factory: pytest.TempPathFactory, number: int, end: float
) -> None:
    path = shutil.copytree(archived.path, tmp_path_factory.mktemp("copies") / "t")
    here = Archived(path, archived.rows, archived.history, archived.replaced)
    file = here.files[number % len(here.files)]
    file.write_bytes(file.read_bytes()[: int(end * file.stat().st_size)])
    logging.disable(logging.WARNING)
    try:
        for value in range(100, 108):
            open_table(path, options=OPTIONS).upsert(pa.Table.from_pylist([{"id": "k0", "p": "a", "v": value}], SCHEMA))
    finally:
        logging.disable(logging.NOTSET)
    assert rows_of(path) == {**archived.rows, "k0": 107}
    assert sum(1 for entry in Storage(str(path)).list(".hoodie") if entry.name.endswith(".commit")) < 5
