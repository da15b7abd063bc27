"""Whether Trino's access rules treat a pinned snapshot as its table."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hudi_catalog.gateway.access_rules import AccessRules
from hudi_catalog.gateway.options import RULES, GatewayOptions
from table_format.errors import OptionError

TABLE = ("hive", "shop", "orders")
PINNED = ("hive", "shop__snapshots", "orders__20261121101500000__6f02aa0102030405")
FILTER = {"filter": "region = 'eu'", "privileges": ["SELECT"]}
ANN = {"user": "ann", "schema": "shop", "table": "orders", **FILTER}
BOTH = {"schema": "shop(__snapshots)?", "table": "orders(__.*)?"}
EVERYBODY = {"privileges": ["SELECT"]}


def written(path: Path, *rules: dict[str, Any]) -> AccessRules:
    path.write_text(json.dumps({"catalogs": [{"allow": "all"}], "tables": [*rules]}))
    return AccessRules([str(path)])


@pytest.mark.parametrize(
    ("rules", "same"),
    [
        ([], True),
        ([EVERYBODY], True),
        ([ANN, EVERYBODY], False),
        ([{**ANN, "privileges": []}, EVERYBODY], False),
        ([{**ANN, **BOTH}, EVERYBODY], True),
        ([ANN, {**ANN, "schema": "shop__snapshots", "table": "orders__.*"}, EVERYBODY], True),
        ([ANN, {**ANN, "schema": "shop__snapshots", "table": "orders__.*", "filter": "true"}, EVERYBODY], False),
        ([ANN, {"user": "bob", **EVERYBODY, **BOTH}, {**ANN, **BOTH, "table": "orders__.*"}], False),
        ([{**ANN, "schema": ".*"}, EVERYBODY], False),
        ([{**ANN, "schema": ".*", "table": ".*"}, EVERYBODY], True),
        ([{**BOTH, **EVERYBODY}, ANN], True),
        ([{**BOTH, **EVERYBODY, "user": ".*"}, ANN], True),
        ([{**BOTH, **EVERYBODY, "group": "staff"}, ANN], False),
        ([{**BOTH, **EVERYBODY, "some_day": 1}, ANN], False),
        ([{**ANN, "catalog": "lake"}, EVERYBODY], True),
        ([{**ANN, "catalog": "h.*"}, EVERYBODY], False),
        ([{"schema": "other", "privileges": []}, EVERYBODY], True),
    ],
)
def test_the_same_rules_match_both(tmp_path: Path, rules: list[dict[str, Any]], same: bool) -> None:
    assert written(tmp_path / "rules.json", *rules).same(TABLE, PINNED) is same


def test_every_file_counts_and_changes_are_seen(tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    written(one, EVERYBODY)
    written(other, ANN, EVERYBODY)
    assert AccessRules([str(one)]).same(TABLE, PINNED)
    rules = AccessRules([str(one), str(other)])
    assert not rules.same(TABLE, PINNED)
    written(other, {**ANN, **BOTH}, EVERYBODY)
    assert rules.same(TABLE, PINNED)
    one.write_text("{")
    with pytest.raises(OptionError, match=r"one\.json are not understood"):
        rules.same(TABLE, PINNED)
    os.remove(one)
    with pytest.raises(OptionError, match=r"one\.json: No such file"):
        rules.same(TABLE, PINNED)


@pytest.mark.parametrize("pattern", ["[a-z&&[^x]]", "\\p{Lower}", "(", 5])
def test_patterns_that_java_alone_understands_are_refused(tmp_path: Path, pattern: Any) -> None:
    with pytest.raises(OptionError, match=r"rules\.json are not understood"):
        written(tmp_path / "rules.json", {"schema": pattern})


def test_the_option(tmp_path: Path) -> None:
    assert GatewayOptions.parse({}).rules is None
    assert GatewayOptions.parse({RULES: "none"}).rules is not None
    for wrong in ("", str(tmp_path / "absent"), f"none,{tmp_path}/absent"):
        with pytest.raises(OptionError, match="access rules"):
            GatewayOptions.parse({RULES: wrong})
