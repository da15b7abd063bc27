"""Statistics of a file that the metadata table holds twice."""

from pathlib import Path

import hudi_catalog


def test_rows_of_a_base_file_are_counted_once(tmp_path: Path) -> None:
    """A retried task has appended its log block again."""
    table = hudi_catalog.create_table(tmp_path / "t", "id bigint, n bigint", record_key="id", buckets=1)
    table.insert([{"id": number, "n": number} for number in range(3)])
    logs = [path for path in (tmp_path / "t/.hoodie/metadata/column_stats").iterdir() if ".log." in path.name]
    for log in logs:
        if not log.name.endswith(".crc"):
            log.write_bytes(log.read_bytes() * 2)
    table = hudi_catalog.open_table(tmp_path / "t")
    assert table.scan("id >= 0").count() == 3
    assert len(table.scan("n = 7").plan().splits) == 0
