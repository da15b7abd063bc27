"""Tables that three releases of Apache Hudi wrote: we read the same rows, and prune as well without losing a row."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pushdown import HudiExpression
from pushdown.expression import Op, Predicate
from pushdown.walk import columns_of, leaves
from tests.engines.apache_tables import ApacheTable, Write, apache_tables
from tests.engines.model import comparable
from tests.engines.written_table import Written
from tests.support.apache_hudi_client import ALL_VERSIONS

pytestmark = [pytest.mark.engine]
TABLES = apache_tables()
CASES = [(version, name) for version in ALL_VERSIONS for name in TABLES if version in TABLES[name].releases]
FILTERS = 120
READ_EVERY = 10
COMPARED = 30


@pytest.mark.parametrize(("version", "name"), CASES)
def test_we_read_what_apache_reads(written: Callable[[str, str], Written], version: str, name: str) -> None:
    table = written(version, name)
    names = [column for column in table.ours.column_names if column not in table.spec.formatted_columns]
    assert sorted(table.ours.column_names) == sorted(table.theirs.column_names)
    assert comparable(table.ours.to_pylist(), names) == comparable(table.theirs.to_pylist(), names)


def file_groups(rows: pa.Table) -> set[str]:
    """The file groups of some rows; in a log, the name may lack all but the file id."""
    return {name.split("_")[0] for name in pc.unique(rows["_hoodie_file_name"]).to_pylist()}


@pytest.mark.parametrize(("version", "name"), CASES)
def test_pruning_loses_no_row(written: Callable[[str, str], Written], version: str, name: str) -> None:
    table = written(version, name)
    pruned = 0
    for number, expression in enumerate(table.filters(FILTERS)):
        scan = table.table.scan(expression, options=table.spec.read_options)
        plan = scan.plan()
        pruned += len(plan) < plan.files_total
        wanted = table.matching(expression)
        assert file_groups(wanted) <= {split.file_id for split in plan.splits}, expression
        # reading is most of the time, and filters its rows by the same function
        if number % READ_EVERY == 0:
            names = wanted.column_names
            assert comparable(scan.to_arrow().to_pylist(), names) == comparable(wanted.to_pylist(), names), expression
    assert pruned or len(table.table.scan().plan()) == 1, "no filter dropped a file, so nothing was shown"


@pytest.mark.parametrize(("version", "name"), [case for case in CASES if case[1].startswith("cow")])
def test_verdicts_beside_apaches(written: Callable[[str, str], Written], version: str, name: str) -> None:
    table = written(version, name)
    expressions = table.filters(COMPARED)
    planned = table.engine.planned_files(table.path, [expression.to_sql() for expression in expressions])
    answered = [
        (expression, files) for expression, files in zip(expressions, planned, strict=True) if files is not None
    ]
    assert len(answered) > COMPARED / 2
    gaps, lost = [], []
    for expression, theirs in answered:
        needed = set(pc.unique(table.matching(expression)["_hoodie_file_name"]).to_pylist())
        scan = table.table.scan(expression, options=table.spec.read_options)
        ours = {split.file_name for split in scan.plan().splits}
        assert needed <= ours, expression
        known = apaches_defect(expression, table.spec)
        if not needed <= set(theirs) and not known:
            lost.append(expression.to_sql())
        elif ours - set(theirs) and not known and not we_keep_more(expression, table.spec):
            gaps.append(expression.to_sql())
    assert not gaps, f"Apache {version} soundly drops files that we keep: {gaps[:5]} ({len(gaps)})"
    assert not lost, f"Apache {version} drops files with matching rows: {lost[:5]} ({len(lost)})"


def apaches_defect(expression: HudiExpression, spec: ApacheTable) -> bool:
    """Whether the filter is of a kind for which docs/apache-defects.md says that Apache loses rows."""
    predicates = [leaf for leaf in leaves(expression) if isinstance(leaf, Predicate)]
    beginnings = any(leaf.op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH) for leaf in predicates)
    # Apache compares what the partition path says of these columns
    formatted = any(leaf.column in spec.formatted_columns for leaf in predicates)
    return beginnings or formatted or spec.name in ("cow_edges", "cow_row_groups")


def we_keep_more(expression: HudiExpression, spec: ApacheTable) -> bool:
    """Whether the filter is on columns whose bounds we do not believe in full, as the page on pruning explains."""
    types = {field.name: field.type for field in spec.schema}
    beyond = {
        name
        for name, kind in types.items()
        if pa.types.is_binary(kind) or (pa.types.is_string(kind) and _sorts_otherwise(name, spec))
    }
    predicates = [leaf for leaf in leaves(expression) if isinstance(leaf, Predicate)]
    # engines differ on whether -0.0 is less than 0.0
    zeros = any(value == 0 for leaf in predicates for value in leaf.values if isinstance(value, float))
    return zeros or any(column in beyond for column in columns_of(expression))


def _sorts_otherwise(name: str, spec: ApacheTable) -> bool:
    """Whether a text column has characters that sort otherwise in UTF-16 than in UTF-8."""
    rows = [row for write in spec.writes if isinstance(write, Write) for row in write.rows]
    return any(character >= "\ud800" for row in rows for character in row.get(name) or "")
