"""Arithmetic on columns as Spark's in ANSI mode: a result beyond its type and a division by zero are failures.

Functions take Arrow arrays of the types that `pushdown.binding.computations` has given them, and return the results,
null where an operand is, with a mask of the rows at which Spark stops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pushdown.kinds import Kind, kind_of

Mask = NDArray[np.bool_]
_LOW = (1 << 64) - 1
# The decimal places of Spark's quotients of decimals before they are rounded to those of their type.
_QUOTIENT_PLACES = 38
_BEYOND_LONG = 2.0**63


def arithmetic(name: str, left: Any, right: Any, target: pa.DataType) -> tuple[Any, Mask]:
    """``add``, ``subtract``, ``multiply``, ``divide``, ``div``, ``mod`` or ``pmod`` of two columns of numbers."""
    null = nulls(left) | nulls(right)
    if kind_of(left.type) is Kind.DECIMAL:
        values, failed = _of_decimals(name, left, right, target)
        return _decimals(values, null, target) if kind_of(target) is Kind.DECIMAL else _array(
            values, null, target
        ), failed
    a, b = numpy_of(left), numpy_of(right)
    if kind_of(left.type) is Kind.FLOAT:
        values, failed = _of_floats(name, a, b)
    else:
        values, failed = _of_whole(name, a, b)
    return _array(values, null, target), failed & ~null


def signed(name: str, values: Any) -> tuple[Any, Mask]:
    """``negative`` or ``abs`` of a column of numbers."""
    null = nulls(values)
    kind = kind_of(values.type)
    if kind is Kind.DECIMAL:
        unscaled = _unscaled(values)
        return _decimals(-unscaled if name == "negative" else abs(unscaled), null, values.type), _none(values)
    numbers = numpy_of(values)
    failed = _none(values)
    if kind is Kind.INTEGER:
        failed = (numbers == np.iinfo(numbers.dtype).min) & ~null
        numbers = np.where(failed, 0, numbers).astype(numbers.dtype)
    return _array(-numbers if name == "negative" else np.abs(numbers), null, values.type), failed


def whole(name: str, values: Any, target: pa.DataType) -> tuple[Any, Mask]:
    """``floor`` or ``ceil``: a 64-bit integer, or a decimal without places."""
    null = nulls(values)
    if kind_of(values.type) is Kind.DECIMAL:
        unit = 10**values.type.scale
        unscaled = _unscaled(values)
        return _decimals(unscaled // unit if name == "floor" else -(-unscaled // unit), null, target), _none(values)
    if kind_of(values.type) is Kind.INTEGER:
        return values, _none(values)
    numbers = np.floor(numpy_of(values)) if name == "floor" else np.ceil(numpy_of(values))
    inside = np.isnan(numbers) | (np.abs(numbers) < _BEYOND_LONG)  # NaN is 0
    longs = np.where(inside & ~np.isnan(numbers), numbers, 0.0).astype(np.int64)
    return _array(longs, null, target), ~inside & ~null


def rounded(values: Any, target: pa.DataType) -> tuple[Any, Mask]:
    """A column of decimals with the places of another type, ties away from zero."""
    own, wanted = _scale(values.type), _scale(target)
    unscaled = _unscaled(values)
    made = _half_up(unscaled, 10 ** (own - wanted)) if own > wanted else unscaled * 10 ** (wanted - own)
    return _decimals(made, nulls(values), target), _none(values)


def compared(operator: str, left: Any, right: Any) -> Any:
    """Two columns of one type compared by ``=``, ``<``, ``<=``, ``>`` or ``>=``; NaN equals itself and is greatest."""
    if operator in {">", ">="}:
        return compared({">": "<", ">=": "<="}[operator], right, left)
    if kind_of(left.type) is Kind.FLOAT:
        a, b = numpy_of(left), numpy_of(right)
        a_nan, b_nan = np.isnan(a), np.isnan(b)
        below, equal = (a < b) | (~a_nan & b_nan), (a == b) | (a_nan & b_nan)
        truths = {"=": equal, "<": below, "<=": below | equal}[operator]
        return _array(truths, nulls(left) | nulls(right), pa.bool_())
    if pa.types.is_boolean(left.type):
        left, right = left.cast(pa.uint8()), right.cast(pa.uint8())
    return {"=": pc.equal, "<": pc.less, "<=": pc.less_equal}[operator](left, right)


def nulls(values: Any) -> Mask:
    """Where a column is null."""
    mask: Mask = pc.is_null(values).to_numpy(zero_copy_only=False)
    return mask


def numpy_of(values: Any) -> Any:
    """A column of integers or floats; zero where it is null."""
    return pc.fill_null(values, pa.scalar(0, values.type)).to_numpy(zero_copy_only=False)


def _array(values: Any, null: Mask, target: pa.DataType) -> Any:
    dtype = target.to_pandas_dtype()
    return pa.array(np.asarray(values).astype(dtype), target, mask=null)


def _none(values: Any) -> Mask:
    return np.zeros(len(values), np.bool_)


def _scale(type_: Any) -> int:
    return int(type_.scale)


def _of_floats(name: str, a: Any, b: Any) -> tuple[Any, Mask]:
    zero = b == 0
    safe = np.where(zero, np.ones_like(b), b)
    nothing = np.zeros(len(a), np.bool_)
    with np.errstate(all="ignore"):
        if name == "divide":
            return a / safe, zero
        if name in {"mod", "pmod"}:
            rest = np.fmod(a, safe)
            return (rest if name == "mod" else np.where(rest < 0, np.fmod(rest + safe, safe), rest)), zero
        return {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}[name](a, b), nothing


def _of_whole(name: str, a: Any, b: Any) -> tuple[Any, Mask]:
    """Integers of one type; results are 64-bit, and beyond their type where that is marked."""
    zero = b == 0
    limits = np.iinfo(a.dtype)
    small = a.dtype.itemsize < 8
    with np.errstate(all="ignore"):
        if name in {"mod", "pmod"}:
            safe = np.where(zero | (b == -1), np.ones_like(b), b)  # the rest of the least number by -1 is 0
            rest = np.fmod(a, safe)
            if name == "pmod":
                rest = np.where(rest < 0, _raised(rest, safe), rest)
            return rest, zero
        if name == "div":
            least = (a == limits.min) & (b == -1)
            safe = np.where(zero | least, np.ones_like(b), b)
            return (a - np.fmod(a, safe)) // safe, zero | least
        wide_a, wide_b = a.astype(np.int64), b.astype(np.int64)
        result = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}[name](wide_a, wide_b)
        if small:
            return _marked(result, (result < limits.min) | (result > limits.max))
        if name == "add":
            failed = ((wide_a ^ result) & (wide_b ^ result)) < 0
        elif name == "subtract":
            failed = ((wide_a ^ wide_b) & (wide_a ^ result)) < 0
        else:
            safe = np.where((wide_a == 0) | (wide_a == -1), 1, wide_a)
            wrong = (np.fmod(result, safe) != 0) | (result // safe != wide_b)
            failed = np.where(wide_a == 0, False, np.where(wide_a == -1, wide_b == limits.min, wrong))
        return _marked(result, failed)


def _raised(rest: Any, divisor: Any) -> Any:
    """A negative rest as pmod's; Java adds 8- and 16-bit integers as 32-bit ones, which wrap."""
    wide = np.int32 if rest.dtype.itemsize < 4 else rest.dtype
    return np.fmod(rest.astype(wide) + divisor.astype(wide), divisor.astype(wide))


def _marked(result: Any, failed: Any) -> tuple[Any, Mask]:
    return np.where(failed, 0, result), np.asarray(failed, np.bool_)


def _of_decimals(name: str, left: Any, right: Any, target: Any) -> tuple[Any, Mask]:
    """Unscaled results."""
    a, b = _unscaled(left), _unscaled(right)
    own, other = _scale(left.type), _scale(right.type)
    scale = max(own, other)
    if name == "multiply":
        return a * b, _none(left)
    null = nulls(left) | nulls(right)
    zero = np.asarray(b == 0, np.bool_) & ~null
    b = np.where(b == 0, 1, b) if name in {"divide", "div", "mod"} else b
    if name == "divide":
        exact = _half_up(a * 10 ** (other + _QUOTIENT_PLACES), b * 10**own)
        return _half_up(exact, 10 ** (_QUOTIENT_PLACES - _scale(target))), zero
    a, b = a * 10 ** (scale - own), b * 10 ** (scale - other)
    if name in {"div", "mod"}:
        sign = np.where(a < 0, -1, 1)
        if name == "mod":
            return abs(a) % abs(b) * sign, zero
        return abs(a) // abs(b) * sign * np.where(b < 0, -1, 1), zero
    return (a + b if name == "add" else a - b), _none(left)


def _half_up(number: Any, divisor: Any) -> Any:
    """Quotients of whole numbers, ties away from zero."""
    magnitude = (2 * abs(number) + abs(divisor)) // (2 * abs(divisor))
    return magnitude * np.where(number < 0, -1, 1) * np.where(divisor < 0, -1, 1)


def _unscaled(values: Any) -> Any:
    """The unscaled numbers of decimals, as Python's; zero where null."""
    if len(values) == 0:
        return np.zeros(0, object)
    words = np.frombuffer(values.buffers()[1], "<u8").reshape(-1, 2)[values.offset : values.offset + len(values)]
    low, high = words[:, 0].astype(object), words[:, 1].astype(np.int64).astype(object)
    return np.where(nulls(values), 0, high * (1 << 64) + low)


def _decimals(unscaled: Any, null: Mask, target: Any) -> Any:
    """Decimals by their unscaled numbers."""
    numbers = np.where(null, 0, unscaled).astype(object)
    words = np.empty((len(numbers), 2), "<u8")
    words[:, 0] = (numbers & _LOW).astype(np.uint64)
    words[:, 1] = ((numbers >> 64) & _LOW).astype(np.uint64)
    valid: Any = pa.array(~null, pa.bool_()).buffers()[1] if len(null) else None
    return pa.Array.from_buffers(target, len(numbers), [valid, pa.py_buffer(words.tobytes())])
