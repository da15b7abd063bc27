"""Which tables of the corpus are in which archive."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from table_format.meta_columns import META_COLUMNS
from tests.golden.corpus.metadata_tables import FACTS, NEWER_METADATA_TABLES, metadata_facts, newer_metadata_tables
from tests.golden.corpus.written import Written, plain_rows
from tests.golden.packing import Members, as_json, below, write_archive
from tests.support.catalog_tables import NAMES, NEWER_NAMES
from tests.support.paths import GOLDEN

#: Makes the files of an archive out of all tables, by name.
Packer = Callable[[Mapping[str, Written]], Members]

#: Tables of `timelines.tar.xz`, beside those with facts in other archives.
TIMELINES = (
    *sorted({*NAMES, *FACTS, *NEWER_NAMES} - {"v9_1200__bkt_evolve"}),
    *("v6_0150__archived", "v6_0150__bkt_rollback", "v6_0150__cluster", "v6_0150__overwritten"),
    *("v6_1200__bloom_replace", "v8_1020__archived", "v8_1020__bkt_restore", "v8_1020__bkt_rollback"),
    *("v8_1020__bloom_replace", "v8_1020__mor_rli", "v8_1020__overwritten", "v9_1200__archived"),
    *("v9_1200__bkt_restore", "v9_1200__bkt_rollback", "v9_1200__overwritten"),
)


# tables


def whole_tables(names: Iterable[str]) -> Packer:
    """Tables with `expected.json`: rows as Apache reads them, options of the writes, the latest file slices."""

    def pack(written: Mapping[str, Written]) -> Members:
        members: Members = {}
        for name in names:
            one = written[name]
            members |= below(f"{name}/table", one.files())
            members[f"{name}/expected.json"] = as_json(_expected(one))
        return members

    return pack


def _expected(one: Written) -> dict[str, Any]:
    return {
        "rows": plain_rows(one.rows),
        "write_options": one.options,
        "file_slices": one.slices,
        "nrows_read_optimized": one.apache.get("read_optimized", one.rows.num_rows),
    }


# timelines


def timelines(written: Mapping[str, Written]) -> Members:
    """`.hoodie` without the metadata table, and what Apache says of the timeline, slices and columns."""
    members: Members = {}
    for name in TIMELINES:
        one = written[name]
        members |= below(name, one.hoodie(without=(".hoodie/metadata/", ".hoodie/.metadata_")))
        facts = {
            "files": one.data_files(),
            "properties": one.apache["properties"],
            "timeline": one.apache["instants"],
            "slices": one.apache["slices"],
            "completion_times": one.apache["archived"],
            "columns": [column for column in one.rows.column_names if column not in META_COLUMNS],
            "commits_of_rows": sorted(set(one.texts("_hoodie_commit_time"))),
        }
        members[f"{name}/golden.json"] = as_json(facts)
    return members


#: By path below `tests/golden`: the tables that are needed, and what packs them.
ARCHIVES: dict[str, tuple[tuple[str, ...], Packer]] = {
    "timelines.tar.xz": (TIMELINES, timelines),
    "tables/tables.tar.xz": (NAMES, whole_tables(NAMES)),
    "tables/newer.tar.xz": (NEWER_NAMES, whole_tables(NEWER_NAMES)),
    "metadata_tables/facts.tar.xz": (FACTS, metadata_facts),
    "metadata_tables/newer.tar.xz": (NEWER_METADATA_TABLES, newer_metadata_tables),
}


def pack(archive: str, written: Mapping[str, Written]) -> None:
    """Write one of the archives."""
    write_archive(GOLDEN / archive, ARCHIVES[archive][1](written))
