"""Statistics of tables, against what their folders hold."""

import json
from collections import defaultdict
from pathlib import Path
from statistics import median

import pytest

import hudi_catalog
from catalog.snapshots.snapshot import Snapshot
from catalog.table_stats import table_stats
from table_format.instant import Action, Instant, State, instant_epoch_ms
from table_format.storage import Storage
from table_format.table.client import TableClient
from tests.support import golden_tables

SHORT = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
    "hoodie.metadata.compact.max.delta.commits": "2",
}


@pytest.fixture
def shop(tmp_path: Path) -> hudi_catalog.Table:
    table = hudi_catalog.create_table(
        tmp_path / "shop", "id bigint, p string, v bigint", record_key="id", partition_by="p", buckets=3, options=SHORT
    )
    for value in range(9):
        table.upsert([{"id": number, "p": "ab"[number % 2], "v": value} for number in range(40)])
    return table


def test_files(shop: hudi_catalog.Table) -> None:
    stats = shop.stats(small_limit=0)
    sizes = {path.name: path.stat().st_size for path in Path(shop.client.storage.uri).glob("[ab]/*.parquet")}
    newest: dict[str, str] = {}
    for name in sorted(sizes, key=lambda name: name.rsplit("_", 1)[-1]):
        newest[name.split("_")[0]] = name
    current = [sizes[name] for name in newest.values()]
    files = stats.files
    assert (files.groups, files.files, files.bytes) == (len(current), len(current), sum(current))
    assert (files.smallest, files.largest) == (min(current), max(current))
    assert files.median == int(median(current))
    assert (files.older_files, files.older_bytes) == (len(sizes) - len(current), sum(sizes.values()) - sum(current))
    assert files.older_files > 0
    assert stats.partitions == 2
    assert files.small == 0
    assert shop.stats(small_limit=files.largest or 0).files.small == sum(1 for size in current if size < max(current))


def test_skew(shop: hudi_catalog.Table) -> None:
    by_bucket: dict[int, int] = defaultdict(int)
    for split in shop.scan().plan().splits:
        by_bucket[int(split.file_id[:8])] += split.size
    skew = shop.stats().skew
    assert skew is not None
    assert (skew.buckets, skew.largest) == (len(by_bucket), max(by_bucket.values()))
    assert by_bucket[skew.largest_bucket] == skew.largest
    assert skew.ratio == round(skew.largest * len(by_bucket) / sum(by_bucket.values()), 2)


def test_timelines_and_services(shop: hudi_catalog.Table) -> None:
    stats = shop.stats()
    history = shop.history()
    assert stats.timeline.active + stats.timeline.archived == len(history)
    assert stats.timeline.archived > 5
    assert stats.timeline.archive_files == len(list(Path(shop.client.storage.uri).glob(".hoodie/archived/.commits*")))
    assert stats.services.clean == [entry.instant for entry in history if entry.action == "clean"][-1]
    assert stats.services.archive is not None
    assert stats.metadata_timeline is not None
    assert stats.metadata_timeline.archived > 0
    compactions = Path(shop.client.storage.uri, ".hoodie/metadata/.hoodie").glob("*.commit")
    assert stats.services.metadata_compaction == max(path.name.split(".")[0] for path in compactions)
    assert stats.services.metadata_deltacommits <= 2
    assert stats.orphans is None
    saved = shop.savepoint().instant
    assert shop.stats().savepoints == (saved,)


def test_ages(shop: hudi_catalog.Table) -> None:
    client = shop.client
    last = client.timeline().instants[-1].time
    pending = Instant(f"{int(last) + 1}", Action.COMMIT, State.REQUESTED)
    client.storage.create(f".hoodie/{pending.file_name}", b"")
    zone = client.config.timeline_timezone
    now = instant_epoch_ms(pending.time, zone) / 1000 + 90
    timeline = table_stats(client, now=now).timeline
    assert (timeline.pending, timeline.oldest_pending, timeline.oldest_pending_seconds) == (1, pending.time, 90)
    assert timeline.oldest == client.timeline().instants[0].time
    assert (timeline.oldest_seconds or 0) >= 90


def test_orphans(shop: hudi_catalog.Table) -> None:
    last = shop.client.timeline().writes[-1].time
    name = f"00000009-1111-1111-1111-111111111111-0_1-9-9_{int(last) - 1}.parquet"
    (Path(shop.client.storage.uri) / "a" / name).write_bytes(b"stray")
    orphans = shop.stats(orphans=True).orphans
    assert orphans is not None
    assert (orphans.files, orphans.young, orphans.unclear) == (0, 1, 0)
    impatient = hudi_catalog.open_table(shop.client.storage.uri, options={"hoodie.catalog.repair.minutes": 0})
    orphans = impatient.stats(orphans=True).orphans
    assert orphans is not None
    assert (orphans.files, orphans.bytes, orphans.young) == (1, 5, 0)


def test_an_empty_table(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(tmp_path / "t", "id bigint", record_key="id", buckets=1)
    stats = table.stats(orphans=True)
    assert (stats.files.groups, stats.files.median, stats.partitions, stats.skew) == (0, None, 0, None)
    assert stats.timeline.oldest is None
    json.dumps(stats.to_json())


@pytest.mark.parametrize("name", golden_tables.NAMES)
def test_tables_of_apache(name: str, tmp_path: Path) -> None:
    client = TableClient.open(Storage(golden_tables.lay_out(name, str(tmp_path))))
    stats, snapshot = table_stats(client), Snapshot(client, client.timeline())
    assert stats.files.groups == len(snapshot)
    assert stats.files.bytes == snapshot.live_bytes
    assert stats.files.log_files >= int(snapshot.has_logs.sum())
    assert stats.partitions == len(snapshot.partitions)
    assert stats.files.older_files >= 0
    json.dumps(stats.to_json())
