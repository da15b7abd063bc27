"""Every error of ours gets through Spark's report of it with its fields."""

import inspect
import threading

import pytest

import catalog  # noqa: F401  # with all errors of the packages
import pushdown  # noqa: F401
from spark_writer.worker_errors import _sealed, _unsealed
from table_format.errors import ConflictError, HudiError, MissingPackageError


def tree(kind: type[HudiError]) -> list[type[HudiError]]:
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in tree(child))]


def sample(kind: type[HudiError]) -> HudiError:
    """An instance with values for what its constructor names."""
    own = "__init__" in vars(kind) or any("__init__" in vars(base) for base in kind.__mro__ if base is not HudiError)
    if not own or kind.__init__ is Exception.__init__ or inspect.isbuiltin(kind.__init__):
        return kind("words:\n  at [x]")
    try:
        names = [p for p in inspect.signature(kind).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    except ValueError:
        names = []
    values = [7 if "int" in str(p.annotation) else f"{p.name}\n at [x]" for p in names]
    return kind(*values) if names else kind("words:\n  at [x]")


KINDS = [kind for kind in tree(HudiError) if not kind.__module__.startswith("tests")]


def report(text: str) -> Exception:
    return RuntimeError(f"Job aborted\nTraceback:\n  WorkerFailure: {text}\n\tat org.apache.spark.X(Y.java)\n")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_class_keeps_its_fields(kind: type[HudiError]) -> None:
    error = sample(kind)
    back = _unsealed(report(_sealed(error, "4f")), "4f")
    assert type(back) is kind
    assert (str(back), back.args, back.__dict__) == (str(error), error.args, error.__dict__)
    assert str(error) in _sealed(error, "4f"), "who reads the log sees the words"


def test_what_another_driver_or_a_row_says_is_no_error_of_ours() -> None:
    assert _unsealed(report(_sealed(HudiError("x"), "aa")), "bb") is None
    assert _unsealed(RuntimeError("table_format.errors.ConflictError: no [hudi-catalog:bb:!!]"), "bb") is None


def test_an_error_with_a_field_that_cannot_leave_its_process_keeps_its_words() -> None:
    error = ConflictError("two of them")
    error.lock = threading.Lock()
    back = _unsealed(report(_sealed(error, "4f")), "4f")
    assert str(back) == "ConflictError: two of them"


def test_notes_and_the_name_of_a_missing_package_come_along() -> None:
    error = MissingPackageError("it needs x", name="x")
    error.add_note("a note")
    back = _unsealed(report(_sealed(error, "4f")), "4f")
    assert isinstance(back, ImportError)
    assert (back.name, back.__notes__) == ("x", ["a note"])
