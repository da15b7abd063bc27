"""Records whose keys Hudi joins to one text are not merged into one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_catalog
from table_format.keys.key_generator import KeyGenerator, KeySpec
from table_writer.rows.key_identity import doubtful_keys, key_forms, refuse_shared_keys, shared_fields
from table_writer.slots import slot

TEXTS = ("", "x", "__null__", "__empty__", "x,b:y", ",b:", "y,c:z", "x,b:y,c:z", ",", ":", "b:", "__null__,b:y")
SURGERY = {"hoodie.catalog.write.surgery": "always"}
PAIRS = (
    (("a,b:x", "y"), ("a", "x,b:y")),
    ((None, "y"), ("__null__", "y")),
    (("", "y"), ("__empty__", "y")),
)


def test_forms_tell_apart_what_keys_do_not() -> None:
    values = list(itertools.product((None, *TEXTS), ("y", "x,c:z", None, "__null__"), ("z", "", "__empty__", "y,c:z")))
    values = [row for row in values if set(row) - {None, "", "__null__", "__empty__"}]  # others have no key
    rows = pa.table(dict(zip("abc", zip(*values, strict=True), strict=True)))
    rows = rows.cast(pa.schema({name: pa.string() for name in "abc"}))
    fields = shared_fields(rows.schema, ("a", "b", "c"))
    keys = KeyGenerator(KeySpec(("a", "b", "c"), generator="COMPLEX", partition_fields=())).record_keys(rows)
    forms: Any = key_forms(rows, fields)
    pairs = list(zip(keys.to_pylist(), forms.to_pylist(), strict=True))
    assert len(set(pairs)) == len(set(zip(*(rows[name].to_pylist() for name in "abc"), strict=True)))
    doubtful: Any = doubtful_keys(keys, fields)
    texts = keys.to_pylist()
    repeated = {number for number, text in enumerate(texts) if texts.count(text) > 1}
    assert repeated
    assert repeated <= set(doubtful.tolist()) < set(range(len(texts)))


def test_plain_keys_are_not_looked_at() -> None:
    rows = pa.table({"a": ["x", "y:z", "__x__"], "b": ["1", "b:", "x"]})
    assert key_forms(rows, ("a", "b")) is None
    assert doubtful_keys(pa.array(["a:x,b:1", "a:y:z,b:b:", "a:__x__,b:x"]), ("a", "b")) is None
    assert doubtful_keys(pa.array(["a:x,y,b:1"]), ("a", "b")) is None


def test_numbers_share_no_text() -> None:
    assert shared_fields(pa.schema([("a", pa.int64()), ("b", pa.date32())]), ("a", "b")) == ()
    assert shared_fields(pa.schema([("a", pa.string())]), ("a",)) == ()
    inner = pa.struct([("t", pa.string())])
    assert shared_fields(pa.schema([("a", pa.int64()), ("s", inner)]), ("a", "s.t")) == ("a", "s.t")


def test_rows_of_one_record_are_no_others() -> None:
    keys = pa.array(["k", "k", "l", "k"])
    refuse_shared_keys(keys, pa.array(["1", "1", None, "1"]), keys)
    with pytest.raises(hudi_catalog.HudiError, match="the same key 'k'"):
        refuse_shared_keys(keys, pa.array(["1", None, None, "1"]), keys)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX"])
@pytest.mark.parametrize("options", [SURGERY, {"hoodie.catalog.write.surgery": "never"}], ids=["surgery", "whole"])
def test_other_records_are_refused(
    tmp_path: Path, pair: tuple[tuple[Any, Any], ...], index: str, options: dict[str, str]
) -> None:
    rows = [{"a": a, "b": b, "v": number} for number, (a, b) in enumerate(pair)]
    columns = "a string, b string, v int, pad string"
    table = hudi_catalog.create_table(f"{tmp_path}/t", columns, record_key=["a", "b"], index=index, options=options)
    with pytest.raises(hudi_catalog.HudiError, match="one would replace the other"):
        table.upsert(rows)
    more = [{"a": f"k{number}", "b": "x", "v": number, "pad": f"{number}" * 50} for number in range(3000)]
    for first, second in (rows, rows[::-1]):
        table.upsert([first, *more])
        assert table.upsert([first]).rows_updated == 1
        with pytest.raises(hudi_catalog.HudiError, match="record key of another record"):
            table.upsert([second])
        with pytest.raises(hudi_catalog.HudiError, match="record key of another record"):
            table.delete([{name: second[name] for name in "ab"}])
        row = table.scan("pad IS NULL", columns=["a", "b", "v"]).to_arrow().to_pylist()
        assert row == [first]
        assert table.delete([{name: first[name] for name in "ab"}]).rows_deleted == 1


def test_inserts_that_add_keep_both(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(f"{tmp_path}/t", "a string, b string, v int", record_key=["a", "b"], buckets=1)
    rows = [{"a": a, "b": b, "v": number} for number, (a, b) in enumerate(PAIRS[0])]
    assert table.insert(rows).rows_inserted == 2
    with pytest.raises(hudi_catalog.HudiError, match="record key of another record"):
        table.upsert(rows[:1])
    policy = {"hoodie.datasource.insert.dup.policy": "drop"}
    with pytest.raises(hudi_catalog.HudiError, match="record key of another record"):
        table.insert(rows[:1], options=policy)
    assert len(table.scan().to_arrow()) == 2


def test_a_large_batch_is_tagged_in_tasks(tmp_path: Path) -> None:
    options = {"hoodie.catalog.record.index.driver.rows": "0"}
    table = hudi_catalog.create_table(
        f"{tmp_path}/t", "a string, b string", record_key=["a", "b"], index="RECORD_INDEX", options=options
    )
    with pytest.raises(hudi_catalog.HudiError, match="one would replace the other"):
        table.upsert([{"a": a, "b": b} for a, b in PAIRS[1]])


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("driver_rows", ["0", "100"])
@pytest.mark.parametrize("policy", ["insert.dup.policy=drop", "write.insert.drop.duplicates=true"])
def test_other_records_are_not_dropped(
    tmp_path: Path, pair: tuple[tuple[Any, Any], ...], driver_rows: str, policy: str
) -> None:
    options = {"hoodie.catalog.record.index.driver.rows": driver_rows}
    table = hudi_catalog.create_table(
        f"{tmp_path}/t", "a string, b string", record_key=["a", "b"], index="RECORD_INDEX", options=options
    )
    dropping = dict([f"hoodie.datasource.{policy}".split("=")])
    rows = [{"a": a, "b": b} for a, b in pair]
    plain = {"a": "k", "b": "x"}
    for first, second in (rows, rows[::-1]):
        table.upsert([first])
        with pytest.raises(hudi_catalog.HudiError, match="record key of another record"):
            table.insert([second, plain], options=dropping)
        assert table.insert([first, plain], options=dropping).rows_inserted == 1
        assert table.insert([first, plain], options=dropping).rows_inserted == 0
        assert len(table.scan().to_arrow()) == 2
        table.delete([first, plain])


def test_an_older_record_that_moves_is_no_other(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(
        f"{tmp_path}/t",
        "p string, a string, b string, ts int",
        record_key=["a", "b"],
        partition_by="p",
        ordering="ts",
        index="GLOBAL_RECORD_LEVEL_INDEX",
        options={"hoodie.record.index.update.partition.path": "true"},
    )
    first, second = ({"a": a, "b": b} for a, b in PAIRS[0])
    table.upsert([{"p": "x", "ts": 5, **first}])
    assert table.upsert([{"p": "y", "ts": 4, **first}]).rows_updated == 0
    with pytest.raises(hudi_catalog.HudiError, match="record key of another record"):
        table.upsert([{"p": "y", "ts": 4, **second}])


def test_in_a_file_beyond_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    merge = slot.merge_in_order
    monkeypatch.setattr(slot, "merge_in_order", lambda *arguments: calls.append(1) or merge(*arguments))
    options = {"hoodie.catalog.executor.memory": str(64 << 20), "hoodie.catalog.write.surgery": "never"}
    columns = pa.schema([(name, pa.string()) for name in ("a", "b", "pad")])
    table = hudi_catalog.create_table(f"{tmp_path}/t", columns, record_key=["a", "b"], buckets=1, options=options)
    count = 200_000
    values = {"a": [f"k{n}" for n in range(count)], "b": ["y"] * count, "pad": [f"{n}" * 20 for n in range(count)]}
    stored, other = [pa.table({"a": [a], "b": [b], "pad": [""]}, columns) for a, b in PAIRS[0]]
    plain = pa.table(values, columns)
    table.upsert(pa.concat_tables([plain, stored]))
    assert table.upsert(pa.concat_tables([plain, stored])).rows_updated == count + 1
    assert calls
    with pytest.raises(hudi_catalog.HudiError, match="record key of another record"):
        table.upsert(pa.concat_tables([plain, other]))
