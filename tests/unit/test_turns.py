"""Cases are shared out among releases: each runs, all releases run, and a test of one case runs with all."""

from tests.support.turns import left_out, out_of_turn

RELEASES = ("0.15.0", "1.0.2", "1.2.0")
KINDS = [f"kind{number}" for number in range(12)]


def test_each_case_meets_one_release_and_each_release_some_case() -> None:
    every = [f"a.py::test_x[{release}-{kind}]" for release in RELEASES for kind in KINDS]
    kept = [nodeid for nodeid in every if nodeid not in left_out(every)]
    assert [sum(f"-{kind}]" in nodeid for nodeid in kept) for kind in KINDS] == [1] * len(KINDS)
    assert all(any(release in nodeid for nodeid in kept) for release in RELEASES)
    # the same in another test
    others = [nodeid.replace("test_x", "test_y") for nodeid in every]
    assert [nodeid.replace("test_x", "test_y") for nodeid in kept] == [n for n in others if n not in left_out(others)]


def test_tests_of_one_case_or_of_no_release_run_as_they_are() -> None:
    assert not left_out([f"a.py::test_x[{release}]" for release in RELEASES])
    assert not left_out([f"a.py::test_x[{release}-one]" for release in RELEASES])
    assert not left_out(["a.py::test_x[0.15.0__tables]", "a.py::test_x[1.2.0__tables]", "a.py::test_y"])


def test_one_case_in_so_many_runs_of_each_test() -> None:
    for test in ("a.py::test_x", "a.py::test_y", "b.py::test_x", "c.py::test_z"):
        cases = [f"{test}[{kind}]" for kind in KINDS]
        for share in (2, 3):
            kept = [case for case in cases if case not in out_of_turn((case, share) for case in cases)]
            assert len(kept) == len(KINDS) // share
            assert {cases.index(case) % share for case in kept} == {cases.index(kept[0])}
    assert not out_of_turn((f"a.py::test_x[{kind}]", 1) for kind in KINDS)
