"""Comparisons of dates and times, made to hold however an engine rounded either side of them.

Trino's Hive connector gives timestamps in milliseconds unless `hive.timestamp-precision` says otherwise, and rounds
what files hold in microseconds half up. `CAST(… AS timestamp)` rounds a literal to milliseconds too, and a literal with
a time zone is compared by the session's. So between the values for which a comparison is surely true, and those for
which it is surely false, there are some for which it is `Unknown`.
"""

from __future__ import annotations

import enum
from typing import Any, Final

import pyarrow as pa

from pushdown.expression import Constant, HudiExpression, Not, Op, Predicate, Unknown, all_of, any_of, never
from pushdown.kinds import UNITS_PER_SECOND, Kind, array_of, domain_of, kind_of

_DAY: Final = 86_400
# Members of a list that are looked at one by one; of longer ones the range that holds them all.
_MANY = 100


class Slack(enum.Enum):
    """How far a literal, moved down to a millisecond or to a day, may be from what the engine compares with."""

    NONE = "none"
    MILLISECOND = "a millisecond to either side, or a day"
    ZONE = "two days"


def rounded(predicate: Predicate, slack: Slack) -> HudiExpression:
    """The predicate, unknown where rounding decides.

    Args:
        predicate: bound; timestamps without a time zone.
        slack: of its literals.
    """
    kind = None if predicate.column_type is None else kind_of(predicate.column_type)
    if kind not in {Kind.DATE, Kind.TIMESTAMP} or predicate.op in {Op.IS_NULL, Op.NOT_NULL}:
        return predicate
    rounding = _Rounding(predicate.column, predicate.column_type, slack)
    return rounding.of(predicate.op, predicate.values) if rounding.matters else predicate


class _Rounding:
    """Comparisons of one column; numbers are those of its type, days or units of a second."""

    def __init__(self, column: str, type_: Any, slack: Slack) -> None:
        self.column = column
        self.type = type_
        is_date = kind_of(type_) is Kind.DATE
        per_second = 0 if is_date else UNITS_PER_SECOND[type_.unit]
        self.per_millisecond = 1 if is_date else max(per_second // 1000, 1)
        # What rounds to a whole millisecond is no further from it than this.
        self.half = 0 if self.per_millisecond == 1 else self.per_millisecond // 2
        wide = {
            Slack.NONE: 0,
            Slack.MILLISECOND: self.per_millisecond * (1 if is_date else 2),
            Slack.ZONE: 2 * (_DAY * per_second or 1),
        }
        self.slack = wide[slack]

    @property
    def matters(self) -> bool:
        """Whether anything is rounded."""
        return bool(self.slack or self.half)

    def of(self, op: Op, values: Any) -> HudiExpression:  # noqa: PLR0911 - one line an operator
        if op in {Op.NE, Op.NOT_IN, Op.NULL_SAFE_NE}:
            return Not(self.of(op.negated, values))
        if op in {Op.GT, Op.LE}:
            at_most = self._at_most(_number(values[0]))
            return at_most if op is Op.LE else Not(at_most)
        if op in {Op.LT, Op.GE}:
            below = self._below(_number(values[0]))
            return below if op is Op.LT else Not(below)
        if op is Op.EQ:
            return self._in([_number(values[0])])
        if op is Op.NULL_SAFE_EQ:
            present = Predicate(Op.NOT_NULL, self.column, pa.nulls(0), self.type)
            if values.null_count:
                return Not(present)
            return all_of(present, self._in([_number(values[0])]))
        if op is Op.IN:
            found = self._in([_number(value) for value in values.drop_null()])
            return any_of(found, Constant(value=None)) if values.null_count else found
        return Unknown(f"{self.column} {op.value} … is not understood")

    def _aligned(self, number: int) -> bool:
        return not self.slack and number % self.per_millisecond == 0

    def _below(self, number: int) -> HudiExpression:
        if self._aligned(number):
            return self._between_two(self._compare(Op.LT, number - self.half), self._compare(Op.LT, number))
        reach = self._reach
        return self._between_two(self._compare(Op.LT, number - reach), self._compare(Op.LE, number + reach))

    def _at_most(self, number: int) -> HudiExpression:
        if self._aligned(number):
            return self._between_two(self._compare(Op.LE, number), self._compare(Op.LE, number + self.half))
        reach = self._reach
        return self._between_two(self._compare(Op.LT, number - reach), self._compare(Op.LE, number + reach))

    def _in(self, numbers: list[int]) -> HudiExpression:
        aligned = [number for number in numbers if self._aligned(number)]
        reach = self.half if len(aligned) == len(numbers) else self._reach
        narrow = self._members(aligned)
        if not reach:
            return narrow
        spans = [(number, number) for number in numbers]
        if len(spans) > _MANY:
            spans = [(min(numbers), max(numbers))]
        wide = [all_of(self._compare(Op.GE, low - reach), self._compare(Op.LE, high + reach)) for low, high in spans]
        return self._between_two(narrow, any_of(*wide))

    @property
    def _reach(self) -> int:
        """How far apart two values may be that are equal to the engine."""
        return self.slack + max(self.half, 0 if self.slack else self.per_millisecond - 1)

    def _between_two(self, surely: HudiExpression, perhaps: HudiExpression) -> HudiExpression:
        if surely == perhaps:
            return surely
        return any_of(surely, all_of(perhaps, Unknown(f"{self.column} is compared as it was rounded")))

    def _members(self, numbers: list[int]) -> HudiExpression:
        if not numbers:
            return never(self.column, self.type)
        distinct = array_of(self.type, sorted(set(numbers)))
        return Predicate(Op.EQ if len(distinct) == 1 else Op.IN, self.column, distinct, self.type)

    def _compare(self, op: Op, number: int) -> HudiExpression:
        domain = domain_of(self.type)
        number = min(max(number, domain.first), domain.last)
        return Predicate(op, self.column, array_of(self.type, [number]), self.type)


def _number(value: Any) -> int:
    return int(value.value)
