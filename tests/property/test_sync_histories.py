"""Random histories of commits, drops and schema changes, with syncs and killed syncs between."""

import tempfile
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.metastore import Metastore
from tests.property.profile import examples
from tests.support.memory_metastore import MemoryMetastore
from tests.support.sync_histories import HISTORIES, History


@given(
    steps=HISTORIES,
    form=st.sampled_from(["apache", "apache", "handler"]),
    hive_style=st.booleans(),
    half_done=st.booleans(),
    in_files=st.booleans(),
)
@examples(16)
def test_entries_say_in_the_end_what_the_table_is(
    steps: list[tuple[str, Any]], form: str, hive_style: bool, half_done: bool, in_files: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory = MemoryMetastore()
        store: Metastore = FileMetastore(f"{folder}/metastore") if in_files else memory

        def dying(at: int) -> Metastore:
            memory.steps, memory.die_at, memory.half_done = 0, None if in_files else at, half_done
            return store

        history = History(f"{folder}/t", store, dying, form, hive_style)
        for what, of in steps:
            history.step(what, of)
            memory.die_at = None
        history.check()
