"""Evaluation of computations over the columns of rows.

A row fails where Spark stops with an error, and only if its result depends on the value: not where another operand is
null or decides, nor in a branch of CASE that is not taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pushdown.binding.casts import cast_values
from pushdown.binding.computations import literal_array
from pushdown.computation import COLUMN, LITERAL, Term
from pushdown.computed import numbers, texts
from pushdown.computed.numbers import nulls
from pushdown.kinds import Kind, kind_of
from pushdown.like import like

Mask = NDArray[np.bool_]
_Operands = list[Any]
_ARITHMETIC = frozenset({"add", "subtract", "multiply", "divide", "div", "mod", "pmod"})
_COMPARISONS = frozenset({"=", "<", "<=", ">", ">="})
_TEXTS = frozenset({"lower", "upper", "length", "trim", "ltrim", "rtrim", "substring", "reverse", "replace"})


@dataclass(frozen=True, eq=False)
class Computed:
    """A column of results.

    Attributes:
        values: an Arrow array.
        failed: rows whose value is an error.
    """

    values: Any
    failed: Mask

    def is_null(self) -> Mask:
        """Where the result is null for sure."""
        null: Mask = nulls(self.values) & ~self.failed
        return null

    def is_truth(self, truth: bool) -> Mask:
        """Where a condition has this truth value for sure."""
        mask: Mask = pc.fill_null(pc.equal(self.values, truth), False).to_numpy(zero_copy_only=False)
        return mask & ~self.failed


class Computations:
    """Results of terms over some rows; equal terms are computed once.

    Args:
        column: gives a column's values by its bound name.
        count: of the rows.
        time_zone: the session's.
    """

    def __init__(self, column: Callable[[str], Any], count: int, time_zone: str) -> None:
        self._column = column
        self._count = count
        self._zone = time_zone
        self._results: dict[Term, Computed] = {}
        # all else is null where an operand is
        self._forms: dict[str, Callable[[Term], Computed]] = {
            COLUMN: self._named,
            LITERAL: self._literal,
            "not": self._negated,
            "is_null": self._null_test,
            "and": self._logical,
            "or": self._logical,
            "<=>": self._null_safe,
            "in": self._member,
            "case": self._case,
            "coalesce": self._coalesce,
            "greatest": self._extreme,
            "least": self._extreme,
        }

    def of(self, term: Term) -> Computed:
        """The results of a term."""
        if term not in self._results:
            self._results[term] = self._make(term)
        return self._results[term]

    def _make(self, term: Term) -> Computed:
        return self._forms.get(term.name, self._strict)(term)

    def _named(self, term: Term) -> Computed:
        return Computed(self._column(term.value).cast(term.type), self._nothing())

    def _literal(self, term: Term) -> Computed:
        type_: Any = term.type
        literal = literal_array(term.value, type_, self._zone)
        return Computed(pa.repeat(literal[0], self._count), self._nothing())

    def _negated(self, term: Term) -> Computed:
        of = self.of(term.arguments[0])
        return Computed(pc.invert(of.values), of.failed)

    def _null_test(self, term: Term) -> Computed:
        of = self.of(term.arguments[0])
        return Computed(pc.is_null(of.values), of.failed)

    def _nothing(self) -> Mask:
        return np.zeros(self._count, np.bool_)

    def _strict(self, term: Term) -> Computed:
        """A function that is null where an operand is."""
        operands = [self.of(argument) for argument in term.arguments]
        null = reduce(np.logical_or, (one.is_null() for one in operands), self._nothing())
        failed = reduce(np.logical_or, (one.failed for one in operands), self._nothing())
        values, own = self._applied(term, [one.values for one in operands])
        return Computed(values, (failed | own) & ~null)

    def _applied(self, term: Term, operands: _Operands) -> tuple[Any, Mask]:  # noqa: PLR0911 - one line a form
        type_: Any = term.type
        if term.name in _COMPARISONS:
            return numbers.compared(term.name, operands[0], operands[1]), self._nothing()
        if term.name in _ARITHMETIC:
            return numbers.arithmetic(term.name, operands[0], operands[1], type_)
        if term.name in {"negative", "abs"}:
            return numbers.signed(term.name, operands[0])
        if term.name in {"floor", "ceil"}:
            return numbers.whole(term.name, operands[0], type_)
        if term.name == "round":
            return numbers.rounded(operands[0], type_)
        if term.name in {"coerce", "cast", "try_cast"}:
            return self._cast(operands[0], type_, lenient=term.name == "try_cast")
        if term.name == "concat":
            return texts.joined(operands), self._nothing()
        if term.name == "like":
            return like(operands[0], term.arguments[1].value), self._nothing()
        if term.name in _TEXTS:
            return texts.text_function(term.name, operands[0], term.value or ())
        return texts.part_of_time(term.name, operands[0], self._zone), self._nothing()

    def _cast(self, values: Any, target: pa.DataType, *, lenient: bool) -> tuple[Any, Mask]:
        source = values.type
        kinds = kind_of(source), kind_of(target)
        plain = kinds[0] is Kind.INTEGER and (kinds[1] is Kind.FLOAT or _is_wider(source, target))
        if plain or pa.types.is_null(source) or kinds == (Kind.FLOAT, Kind.FLOAT):
            return values.cast(target, safe=False), self._nothing()
        return cast_values(values, target, self._zone, lenient=lenient)

    def _logical(self, term: Term) -> Computed:
        left, right = (self.of(argument) for argument in term.arguments)
        decisive = term.name == "or"
        join = pc.or_kleene if decisive else pc.and_kleene
        decided = left.is_truth(decisive) | right.is_truth(decisive)
        return Computed(join(left.values, right.values), (left.failed | right.failed) & ~decided)

    def _null_safe(self, term: Term) -> Computed:
        left, right = (self.of(argument) for argument in term.arguments)
        equal = pc.fill_null(numbers.compared("=", left.values, right.values), False)
        both = pc.and_(pc.is_null(left.values), pc.is_null(right.values))
        return Computed(pc.or_(equal, both), left.failed | right.failed)

    def _member(self, term: Term) -> Computed:
        of, *members = term.arguments
        operand = self.of(of)
        if not any(True for member in members for _ in member.columns()):
            return self._listed(operand, members)
        total: Computed | None = None
        for member in members:
            one = self.of(member)
            equal = numbers.compared("=", operand.values, one.values)
            failed = (operand.failed | one.failed) & ~(operand.is_null() | one.is_null())
            part = Computed(equal, failed)
            if total is None:
                total = part
            else:
                decided = total.is_truth(True) | part.is_truth(True)
                both = (total.failed | part.failed) & ~decided
                total = Computed(pc.or_kleene(total.values, part.values), both)
        if total is None:
            raise ValueError("a list without members")
        return total

    def _listed(self, operand: Computed, members: list[Term]) -> Computed:
        """Membership in a list of constants."""
        constants = Computations(self._column, 1, self._zone)
        results = [constants.of(member) for member in members]
        if any(one.failed.any() for one in results):
            return Computed(pa.nulls(self._count, pa.bool_()), ~operand.is_null())
        values: Any = pa.concat_arrays([one.values for one in results])
        wanted = values.drop_null()
        if kind_of(values.type) is Kind.FLOAT:
            own, listed = numbers.numpy_of(operand.values), numbers.numpy_of(wanted)
            hits = pa.array(np.isin(own, listed) | (np.isnan(own) & np.isnan(listed).any()))
        else:
            hits = pc.is_in(operand.values, value_set=wanted)
        if values.null_count:
            hits = pc.if_else(hits, hits, pa.scalar(None, pa.bool_()))
        return Computed(pc.if_else(pc.is_valid(operand.values), hits, pa.scalar(None, pa.bool_())), operand.failed)

    def _case(self, term: Term) -> Computed:
        tests, results = term.arguments[:-1:2], [*term.arguments[1:-1:2], term.arguments[-1]]
        last = self.of(results[-1])
        values, failed = last.values, last.failed
        for test, result in zip(reversed(tests), reversed(results[:-1]), strict=True):
            condition, made = self.of(test), self.of(result)
            taken = condition.is_truth(True)
            values = pc.if_else(pa.array(taken), made.values, values)
            failed = condition.failed | np.where(taken, made.failed, failed)
        return Computed(values, failed)

    def _coalesce(self, term: Term) -> Computed:
        first, *rest = (self.of(argument) for argument in term.arguments)
        values, failed = first.values, first.failed
        for one in rest:
            open_ = nulls(values) & ~failed
            values = pc.if_else(pa.array(open_), one.values, values)
            failed = failed | (open_ & one.failed)
        return Computed(values, failed)

    def _extreme(self, term: Term) -> Computed:
        first, *rest = (self.of(argument) for argument in term.arguments)
        values, failed = first.values, first.failed
        for one in rest:
            better = numbers.compared(">" if term.name == "greatest" else "<", one.values, values)
            taken = pc.or_(pc.fill_null(better, False), pc.is_null(values))
            values = pc.if_else(pc.and_(taken, pc.is_valid(one.values)), one.values, values)
            failed = failed | one.failed
        return Computed(values, failed)


def _is_wider(source: Any, target: Any) -> bool:
    """Whether Arrow casts all integers of a type to another one: an integer, or a decimal with enough digits."""
    if kind_of(target) is Kind.INTEGER:
        return bool(target.bit_width >= source.bit_width)
    return kind_of(target) is Kind.DECIMAL and bool(target.precision - target.scale >= 19)
