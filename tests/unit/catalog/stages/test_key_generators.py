"""Keys that a generator of the user's own made are never computed from columns."""

from collections import Counter
from collections.abc import Callable

import pytest

from catalog import Table
from tests.unit.conftest import GoldenTable

# As tables look whose writer's own class makes a key of something else than the text of its fields.
BY_CLASS = {"hoodie.table.keygenerator.class": "com.example.Mine"}
BY_TYPE = {**BY_CLASS, "hoodie.table.keygenerator.type": "USER_PROVIDED"}
GENERATORS = {"v6_0150__bkt_hive": BY_CLASS, "v9_1200__bkt_hive": BY_TYPE, "v6_1200__rli_part": BY_TYPE}


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERATORS)
def test_rows_are_found_by_the_fields_of_such_keys(
    golden: Callable[[str], GoldenTable], copied: Callable[..., str], name: str
) -> None:
    rows = golden(name).rows
    table = Table.open(copied(name, {**GENERATORS[name], "hoodie.table.recordkey.fields": "i"}))
    options = golden(name).scan_options
    counts = Counter(row["i"] for row in rows if row["i"] is not None)
    for value, count in [*counts.items()][:40]:
        assert table.scan(f"i = {value}", options=options).to_arrow().num_rows == count
    stages = {stage.name: stage for stage in table.scan("i = 5", options=options).plan().stages}
    for stage in ("record key", "bucket", "bloom filter"):
        assert not stages[stage].pruned, stage
    key = rows[0]["_hoodie_record_key"]
    plan = table.scan(f"_hoodie_record_key = '{key}'", options=options).plan()
    assert any(stage.pruned for stage in plan.stages if stage.name in ("record key", "bucket", "bloom filter"))
    assert rows[0]["_hoodie_file_name"] in [split.file_name for split in plan.splits]
