"""How tests are shared out among processes."""

from tests.support.scheduling import group_of, next_unit, unit_of

TRINO = [f"tests/engines/test_trino_{name}.py" for name in ("faults", "golden", "sync")]
PLAIN = ["tests/spark/test_columns.py", "tests/spark/test_guide.py"]


def test_a_release_of_apache_is_a_server_of_its_own() -> None:
    file = "tests/engines/test_apache_interop.py"
    units = [unit_of(f"{file}::test_x[{case}]") for case in ("0.15.0", "types-1.2.0", "1.2.0-types", "no release")]
    assert units == [f"{file}@0.15.0", f"{file}@1.2.0", f"{file}@1.2.0", file]
    assert [group_of(unit) for unit in units] == ["apache@0.15.0", "apache@1.2.0", "apache@1.2.0", "apache"]


def test_other_tests_go_by_their_module() -> None:
    for unit in (*TRINO, *PLAIN):
        assert unit_of(f"{unit}::test_x[1.2.0]") == unit
    assert {group_of(unit) for unit in TRINO} == {"trino"}
    assert {group_of(unit) for unit in PLAIN} == {None}


def test_a_process_stays_with_the_servers_that_it_has_started() -> None:
    units = [PLAIN[0], *TRINO]
    assert next_unit(units, "one", {"trino": "one"}, ["one", "two"]) == TRINO[0]
    assert next_unit(units, "two", {"trino": "one"}, ["one", "two"]) == PLAIN[0]


def test_servers_are_started_in_the_order_of_the_tests() -> None:
    assert next_unit([*TRINO, *PLAIN], "two", {"hive": "one"}, ["one", "two"]) == TRINO[0]


def test_at_the_end_no_process_waits_for_another() -> None:
    assert next_unit(TRINO, "two", {"trino": "one"}, ["one", "two"]) == TRINO[-1]


def test_servers_of_a_process_that_died_are_nobodys() -> None:
    assert next_unit([*TRINO, *PLAIN], "two", {"trino": "one"}, ["two"]) == TRINO[0]
