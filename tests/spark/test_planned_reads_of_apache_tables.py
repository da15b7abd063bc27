"""Tables that Apache Hudi wrote, read by Spark: states, filters and joins, against the Python scan and a full read.

`HUDI_CATALOG_TABLE_FILTERS` says how many filters in all. From 1,000 on, as nightly, they are of every state of each
table; in CI each table takes one of its states.
"""

import json
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from tests.support import golden_renames, golden_slices
from tests.support.catalog_tables import NAMES, NEWER_NAMES
from tests.support.paths import GOLDEN
from tests.support.read_sweep import Sweep, states

pytestmark = pytest.mark.spark
_NIGHTLY = settings.get_current_profile_name() == "nightly"
COUNT = int(os.environ.get("HUDI_CATALOG_TABLE_FILTERS", "2000" if _NIGHTLY else "150"))
FIRST = int(os.environ.get("HUDI_CATALOG_FIRST_FILTER", "0"))
EVERY_STATE = COUNT >= 1000
#: The archive of each table, and its folder in there.
TABLES = {
    **{name: ("tables/tables.tar.xz", f"{name}/table") for name in NAMES},
    **{name: ("tables/newer.tar.xz", f"{name}/table") for name in NEWER_NAMES},
    **{name: ("merge_on_read.tar.xz", f"{name}/table") for name in golden_slices.NAMES},
    **{f"{name}__renamed": ("schema_on_read.tar.xz", name) for name in golden_renames.RELEASES},
}
#: About as many states as are swept.
STATES = len(TABLES) * (3 if EVERY_STATE else 1)
BUCKETS = ("hoodie.bucket.index.num.buckets", "hoodie.bucket.index.hash.field")


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {}
    for name in dict.fromkeys(name for name, _ in TABLES.values()):
        folders[name] = Path(tmp_path_factory.mktemp("apache"))
        with tarfile.open(GOLDEN / name) as archive:
            archive.extractall(folders[name], filter="data")
    return folders


def bucket_options(path: Path) -> dict[str, str]:
    """What the writer knew of the buckets, which its tables do not record."""
    expected = path.parent / "expected.json"
    written = json.loads(expected.read_text())["write_options"] if expected.exists() else {}
    return {key: written[key] for key in BUCKETS if key in written and written["hoodie.index.type"] == "BUCKET"}


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("name", TABLES)
def test_reads(spark: SparkSession, archives: dict[str, Path], tmp_path: Path, name: str) -> None:
    archive, inside = TABLES[name]
    path, number = archives[archive] / inside, [*TABLES].index(name)
    every = states(str(path))
    each = -(-COUNT // STATES)
    for at, state in enumerate(every if EVERY_STATE else [every[number % len(every)]]):
        folder = tmp_path / str(at)
        folder.mkdir()
        sweep = Sweep(spark, str(path), folder, bucket_options(path), state)
        sweep.check_all_rows()
        first = FIRST + (number * 4 + at) * each
        sweep.check_filters(range(first, first + each))
        if EVERY_STATE or number % 4 == 0:
            sweep.check_joins(range(first, first + 1))
        assert sweep.asked + sweep.refused == each
