"""The documentation against the code: options, command line, links, and what the commands print."""

import ast
import doctest
import functools
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner

import catalog
import hudi_catalog.gateway.options
import hudi_catalog.hive.options
import hudi_catalog.metastore.sync_options
import hudi_catalog.server.options
import hudi_catalog.trino.options
import hudi_catalog.trino.types
import pushdown
import spark_writer
from catalog.snapshots.scan_options import _ALIASES, _KEYS, ScanOptions
from catalog.table import KEYS as TABLE_KEYS
from catalog.table import TableOptions
from hudi_catalog.cli.main import app
from hudi_catalog.gateway.statement import Reason
from hudi_catalog.metastore import after_commit, metastore_options
from table_format.config.option_keys import (
    OUR_WRITER_KEYS,
    UNDECLARED_APACHE_KEYS,
    UNSUPPORTED_OPTIONS,
    check_writer_options,
    is_apache_key,
)
from table_format.errors import OptionError
from table_format.keys.key_generator import key_spec_of_properties
from table_format.keys.timestamp_keys import TimestampFormat
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.metadata.column_statistics import indexable_columns
from table_writer.metadata.compaction import MAX_DELTA_COMMITS_KEY, most_deltacommits
from table_writer.metadata.index_options import IndexOptions
from table_writer.plan.option import Kind, Origin
from table_writer.plan.option_registry import REGISTRY
from table_writer.plan.options import WriteOptions
from table_writer.timeline.options import ProtocolOptions
from table_writer.write_plans import _KEY_PREFIXES
from tests.support.sample_flights import make_flights
from tests.support.sample_readings import unpack_readings

ROOT = Path(__file__).parents[2]
PACKAGES = ("table_format", "pushdown", "catalog", "table_writer", "spark_writer", "hudi_catalog")
NONE = "-"
KEY = re.compile(r"hoodie(\.[a-z0-9_]+)+")
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part == "node_modules" for part in path.relative_to(ROOT).parts)
)


@dataclass(frozen=True)
class Row:
    key: str
    kind: str
    default: str
    meaning: str
    whose: str
    aliases: tuple[str, ...]


def table_cells(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("| `hoodie"):
            yield [cell.strip() for cell in line.strip().strip("|").split(" | ")]


def page_parts() -> tuple[str, str, str]:
    """The parts of the page: options, what stands in tables and metastores, and options whose work is not done."""
    options, rest = (ROOT / "docs/reference/options.md").read_text().split("## Table properties\n")
    properties, unserved = rest.split("## Options whose work is not done\n")
    return options, properties, unserved


# Options of services, each with what reads it.
SERVICE_OPTIONS = {
    "service": (hudi_catalog.server.options.KEYS, hudi_catalog.server.options.ServiceOptions.parse),
    "trino": (hudi_catalog.trino.options.KEYS, hudi_catalog.trino.options.TrinoOptions.parse),
    "hive": (hudi_catalog.hive.options.SERVICE_KEYS, hudi_catalog.hive.options.HiveOptions.parse),
    "rewriting": (hudi_catalog.gateway.options.REWRITE_KEYS, hudi_catalog.gateway.options.GatewayOptions.parse),
    "renewal": (hudi_catalog.gateway.options.RENEW_KEYS, hudi_catalog.gateway.options.RenewalOptions.parse),
    "proxy": (hudi_catalog.gateway.options.PROXY_KEYS, hudi_catalog.gateway.options.ProxySettings.parse),
    "metastore": (
        metastore_options.METASTORE_KEYS,
        metastore_options.MetastoreOptions.parse,
    ),
    "sync": (hudi_catalog.metastore.sync_options.SYNC_KEYS, hudi_catalog.metastore.sync_options.SyncOptions.parse),
    "sync after a commit": (
        after_commit.WRITER_KEYS,
        after_commit.WriterSyncOptions.parse,
    ),
}
SERVICE_KEYS = {key for keys, _ in SERVICE_OPTIONS.values() for key in keys}


def documented() -> dict[str, Row]:
    rows = {}
    for cells in table_cells(page_parts()[0]):
        assert len(cells) == 5, cells
        key, kind, default, meaning, whose = cells
        assert KEY.fullmatch(key.strip("`")), key
        also = meaning.partition("Also ")[2]
        aliases = tuple(name for name in re.findall(r"`([^`]+)`", also) if KEY.fullmatch(name))
        assert key.strip("`") not in rows, f"{key} stands there twice"
        rows[key.strip("`")] = Row(key.strip("`"), kind, default.strip("`"), meaning, whose, aliases)
    return rows


DOCUMENTED = documented()
ALL_DOCUMENTED = {name for row in DOCUMENTED.values() for name in (row.key, *row.aliases)}
PROPERTIES = {cells[0].strip("`") for cells in table_cells(page_parts()[1])}


class Recorder(dict):
    """Options that remember which keys somebody asked for."""

    def __init__(self, values: Mapping[str, str] = {}) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def get(self, key, default=None):
        self.asked.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def __getitem__(self, key: str) -> str:
        self.asked.add(key)
        return super().__getitem__(key)


def asked(read, values: Mapping[str, str] = {}) -> set[str]:
    options = Recorder(values)
    read(options)
    return options.asked - set(values)


ONE_COLUMN = pa.schema([("a", pa.int32())])
NEWER = {"hoodie.table.keygenerator.type": "COMPLEX"}
KEYED = {**NEWER, "hoodie.table.recordkey.fields": "a", "hoodie.table.partition.fields": "p"}
TIMED = {"hoodie.keygen.timebased.output.dateformat": "yyyy", "hoodie.keygen.timebased.timestamp.type": "SCALAR"}
# What reads options without a registry; each gives the same for a key's default as for nothing.
READERS = {
    "protocol": ProtocolOptions.parse,
    "record index": IndexOptions.parse,
    "base files": BaseFileOptions.of,
    "compaction": most_deltacommits,
    "indexed columns": lambda options: indexable_columns(ONE_COLUMN, {**options, **NEWER}),
}


def keys_of_readers() -> set[str]:
    keys = asked(ProtocolOptions.parse) | asked(IndexOptions.parse) | asked(BaseFileOptions.of)
    keys |= asked(BaseFileOptions.of, {"hoodie.index.bloom.num_entries": "10"})
    keys |= {"hoodie.index.bloom.num_entries", MAX_DELTA_COMMITS_KEY}
    keys |= {key for key in asked(lambda options: indexable_columns(ONE_COLUMN, options), NEWER) if ".metadata." in key}
    keys |= asked(TimestampFormat.from_options, TIMED) | set(TIMED)
    # of the key rules only these come from options; the others are the table's
    keys |= {key for key in asked(key_spec_of_properties, KEYED) if key.startswith(_KEY_PREFIXES)}
    return keys


def keys_of_code() -> set[str]:
    registered = {name for option in REGISTRY for name in (option.key, *option.aliases)}
    return registered | set(_KEYS) | set(TABLE_KEYS) | set(_ALIASES) | SERVICE_KEYS | keys_of_readers()


def test_every_option_is_documented_and_no_other() -> None:
    assert keys_of_code() - ALL_DOCUMENTED == set(), "not in docs/reference/options.md"
    assert ALL_DOCUMENTED - keys_of_code() == set(), "in docs/reference/options.md, but read by nothing"


@functools.cache
def literal_keys() -> set[str]:
    keys: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            # few files name a key; parsing the others would take most of the time
            for node in ast.walk(ast.parse(text)) if "hoodie" in text else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and KEY.fullmatch(node.value):
                    keys.add(node.value)
    # a file's name, and the owner of Avro names
    return keys - {"hoodie.properties"}


def test_every_key_that_the_code_names_is_documented() -> None:
    elsewhere = UNDECLARED_APACHE_KEYS | {rule.key for rule in UNSUPPORTED_OPTIONS}
    assert literal_keys() - ALL_DOCUMENTED - PROPERTIES - elsewhere == set()


def test_options_whose_work_is_not_done_are_documented() -> None:
    shown = [line for line in page_parts()[2].split("## Keys")[0].splitlines() if re.match(r"\| `\w+\.", line)]
    rows = []
    for rule in UNSUPPORTED_OPTIONS:
        nothing = " or ".join(f"`{value}`" for value in rule.harmless if value) or NONE
        verdict = "refused" if rule.refused else "warning"
        rows.append(f"| `{rule.key}` | {verdict} | {nothing} | {rule.reason} | {rule.remedy} |")
    assert shown == rows


def test_options_whose_work_is_not_done_are_apaches_and_no_other() -> None:
    for rule in UNSUPPORTED_OPTIONS:
        key = f"{rule.key}checkpoint.identifier" if rule.key.endswith(".") else rule.key
        assert key not in ALL_DOCUMENTED
        assert is_apache_key(key) or key.startswith("parquet.")


def test_writers_know_their_own_keys_and_pass_over_no_other() -> None:
    ours = {key for key in ALL_DOCUMENTED if key.startswith("hoodie.catalog.")}
    assert set(OUR_WRITER_KEYS) == ours - SERVICE_KEYS - set(_KEYS) - set(TABLE_KEYS)


@pytest.mark.parametrize("key", sorted({name for option in REGISTRY for name in option.aliases} | keys_of_readers()))
def test_what_writers_read_is_no_unknown_key(key: str) -> None:
    check_writer_options({key: ""})  # a warning is an error here


def test_every_documented_property_is_in_the_code() -> None:
    assert PROPERTIES - literal_keys() == set()


@pytest.mark.parametrize("option", REGISTRY, ids=lambda option: option.key)
def test_write_options_agree_with_their_registry(option) -> None:
    row = DOCUMENTED[option.key]
    assert row.default == (NONE if option.default in (None, "") else option.default)
    assert set(option.aliases) <= set(row.aliases)
    assert row.whose == ("ours" if option.origin is Origin.OURS else "Apache")
    kinds = {
        Kind.NUMBER: "number",
        Kind.COUNT: "number",
        Kind.FLAG: "flag",
        Kind.LIST: "list",
        Kind.TEXT: "text",
        Kind.CHOICE: "choice",
    }
    assert row.kind == kinds[option.kind]
    if option.kind is Kind.CHOICE:
        assert all(f"`{choice}`" in row.meaning for choice in option.choices)
    if option.default is not None:
        WriteOptions.of({option.key: row.default if row.default != NONE else ""})


@pytest.mark.parametrize("name", READERS)
def test_documented_defaults_are_those_of_the_code(name: str) -> None:
    read = READERS[name]
    for key in asked(read) & ALL_DOCUMENTED:
        row = next(row for row in DOCUMENTED.values() if key in (row.key, *row.aliases))
        if row.default == NONE:
            continue
        assert read({key: row.default}) == read({}), key
        if row.kind == "number":
            assert read({key: str(int(row.default) + 1)}) != read({}) or name == "indexed columns", key
        if row.kind == "flag" and key not in ("hoodie.clean.async.enabled", "hoodie.clean.async"):
            other = "false" if row.default == "true" else "true"
            assert read({key: other}) != read({}), key


def test_defaults_of_scan_options() -> None:
    for key in _KEYS:
        row = DOCUMENTED[key]
        if key.startswith("hoodie.catalog."):
            default = None if row.default == NONE else row.default
            assert ScanOptions.parse({} if default is None else {key: default}) == ScanOptions()
            other = "1/2" if row.kind == "text" else str(int(default or 0) + 1) if default != "false" else "true"
            assert ScanOptions.parse({key: other}) != ScanOptions()


def test_defaults_of_table_options() -> None:
    for key in TABLE_KEYS:
        assert TableOptions.parse({key: DOCUMENTED[key].default}) == TableOptions()
        assert TableOptions.parse({key: str(int(DOCUMENTED[key].default) + 1)}) != TableOptions()


def another(row: Row) -> str:
    """A value that is not the default."""
    if row.kind == "choice":
        return next(word for word in re.findall(r"`(\w+)`", row.meaning) if word != row.default)
    if row.kind == "flag":
        return "true" if row.default == "false" else "false"
    if row.kind == "fraction":
        return str(float(row.default) / 2)
    if row.kind in ("number", "seconds"):
        return str(int(row.default) + 1)
    others = {
        "hoodie.catalog.gateway.trino.rules": "none",
        "hoodie.catalog.gateway.upstream": "https://trino:8443",
        "hoodie.catalog.hive.locations": "file:///data=hdfs://nn:8020/data",
        "hoodie.catalog.sync.locations": "file:///data=local:///",
        "hoodie.catalog.sync.trino.hudi.name": "{table}_other",
        "hoodie.datasource.hive_sync.table_properties": "a=1",
        "hoodie.datasource.hive_sync.serde_properties": "a=1",
    }
    return others.get(row.key, "elsewhere:1")


@pytest.mark.parametrize("key", sorted(SERVICE_KEYS))
def test_defaults_of_service_options(key: str) -> None:
    row = DOCUMENTED[key]
    for keys, parse in SERVICE_OPTIONS.values():
        if key in keys:
            assert parse({} if row.default == NONE else {key: row.default}) == parse({})
            assert parse({key: another(row)}) != parse({})
            if row.kind in ("number", "seconds", "choice", "flag", "fraction"):
                with pytest.raises(OptionError, match=re.escape(key)):
                    parse({key: "no such value"})
            if row.kind == "choice":
                words = [word for word in re.findall(r"`(\w+)`", row.meaning) if word != "rewritten"]
                assert all(parse({key: word}) for word in words)


def test_choices_of_types_are_documented() -> None:
    for kind, choices in hudi_catalog.trino.types._CHOICES.items():
        meaning = DOCUMENTED[f"{hudi_catalog.trino.types.TYPE_PREFIX}{kind}"].meaning
        assert re.findall(r"`(\w+)`", meaning) == list(choices)
        guide = (ROOT / "docs/guide/trino.md").read_text()
        assert f"`{kind}`: {', '.join(f'`{choice}`' for choice in choices[:1])}" in guide


def test_reasons_of_the_gateway_are_documented() -> None:
    guide = (ROOT / "docs/guide/trino.md").read_text()
    shown = re.findall(r"(?m)^\| `([a-zA-Z ]+)` \| ", guide.split("| reason | ")[1].split("\n\n")[0])
    rewriter = {reason.value for reason in Reason}
    proxy = (ROOT / "hudi_catalog/gateway/statement_requests.py").read_text()
    assert rewriter <= set(shown)
    assert all(f'"{reason}"' in proxy for reason in set(shown) - rewriter)


def test_our_own_options_are_told_apart_by_name() -> None:
    for row in DOCUMENTED.values():
        assert (row.whose == "ours") == row.key.startswith("hoodie.catalog."), row.key


def commands(group=None, prefix: str = "") -> dict[str, set[str]]:
    """The flags of each command, by its name; `serve trino` is a command of the group `serve`."""
    flags_of = {}
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            flags_of |= commands(command, f"{prefix}{name} ")
        else:
            flags = {flag for param in command.params for flag in param.opts if flag.startswith("-")}
            flags_of[prefix + name] = flags - {"--help"}
    return flags_of


@pytest.mark.parametrize("name", commands())
def test_flags_of_each_command_are_documented(name: str) -> None:
    text = (ROOT / "docs/reference/cli.md").read_text()
    headings = re.findall(r"(?m)^## `([a-z -]+)`$", text)
    assert sorted(headings) == sorted(commands())
    section = text.split(f"## `{name}`\n")[1].split("\n## ")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `-")]
    shown = {flag for row in rows for flag in re.findall(r"--?[a-z][a-z0-9-]*", row)}
    assert shown == commands()[name]


@pytest.mark.parametrize(
    "package", [catalog, hudi_catalog, hudi_catalog.trino, pushdown, spark_writer], ids=lambda package: package.__name__
)
def test_every_public_name_is_documented(package) -> None:
    text = (ROOT / "docs/reference/python.md").read_text()
    missing = [name for name in package.__all__ if not re.search(rf"\b{name}\b", text)]
    assert missing == []


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"(?m)^#+ (.+)$", path.read_text())
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_decisions_are_numbered_one_by_one() -> None:
    pages = sorted((ROOT / "docs/adr").glob("*.md"))
    numbers = [int(page.name[:4]) for page in pages]
    assert numbers == list(range(1, len(pages) + 1))
    for number, page in zip(numbers, pages, strict=True):
        assert page.read_text().startswith(f"# {number}. "), page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_local_links_resolve(page: Path) -> None:
    text = re.sub(r"(?s)```.*?```", "", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name}: {target}"
        assert path.is_relative_to(ROOT), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(path), f"{page.name}: {target}"


def console_examples() -> Iterator[tuple[str, str, str]]:
    for page in PAGES:
        for block in re.findall(r"(?ms)^```console\n(.*?)^```", page.read_text()):
            for example in re.split(r"(?m)^(?=\$ )", block):
                command, _, output = example.partition("\n")
                if command:
                    yield str(page.relative_to(ROOT)), command.removeprefix("$ "), output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("docs")
    make_flights(made / "warehouse" / "flights")
    make_flights(made / "travel" / "flights")  # to be changed
    unpack_readings(made / "lake" / "readings")
    (made / "teas.csv").write_text("id,name,price\n1,Assam,4.20\n2,Sencha,6.90\n")
    return made


@pytest.mark.parametrize(("page", "command", "output"), [*console_examples()])
def test_commands_print_what_the_documentation_shows(
    folder: Path, monkeypatch: pytest.MonkeyPatch, page: str, command: str, output: str
) -> None:
    monkeypatch.chdir(folder)
    program, *arguments = shlex.split(command)
    assert program == "hudi-catalog"
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    if not output.strip():
        return
    assert doctest.OutputChecker().check_output(output, result.stdout, flags), f"{page}:\n{result.stdout}"
