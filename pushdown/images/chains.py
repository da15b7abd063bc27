"""The images of functions by name, and of functions of functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from pushdown.functions import Function
from pushdown.images import numbers, texts, times
from pushdown.images.image import Image
from pushdown.kinds import Kind, kind_of

_Maker = Callable[[pa.DataType, tuple[Any, ...]], Image | None]

_MAKERS: dict[str, _Maker] = {
    "add": numbers.add,
    "multiply": numbers.multiply,
    "mod": numbers.remainder,
    "pmod": numbers.positive_remainder,
    "div": numbers.quotient,
    "negative": numbers.negative,
    "abs": numbers.absolute,
    "lower": texts.lowered,
    "upper": texts.raised,
    "trim": texts.trimmed,
    "ltrim": texts.trimmed,
    "rtrim": texts.trimmed,
    "substring": texts.substring,
    "prefix": texts.beginning,
    "prefix16": texts.beginning,
    "length": texts.length,
    "add_days": times.days_later,
    "±": times.near,
}

# Arithmetic whose results may be longer than the literal and the column.
_OF_INTEGERS = frozenset({"add", "multiply", "negative", "abs"})


def image_of(function: Function, type_: pa.DataType, time_zone: str) -> Image | None:
    """The image of a function, through the functions of its argument; None if one is not known for its type.

    Args:
        function: of a column.
        type_: the column's.
        time_zone: the session's.
    """
    images: list[Image] = []
    for step in reversed(list(function.chain())):
        image = _step(step, type_, time_zone)
        if image is None:
            return None
        images.append(image)
        type_ = image.output
    return images[0] if len(images) == 1 else Image(type_, partial(_through, images))


def widest_output(function: Function, type_: pa.DataType, time_zone: str) -> pa.DataType | None:
    """The type of a function's results where a literal's type is not kept: ``BIGINT '1'`` and 1 are both the number 1.

    So arithmetic of integers may give any integer. The image has bounds only within the narrowest type that the results
    may be of, beyond which an engine may wrap around.

    Returns:
        The type; None where the function, applied to any integer in place of such a result, has no image.
    """
    for step in reversed(list(function.chain())):
        image = _step(step, type_, time_zone)
        if image is None:
            return None
        of_integers = step.name in _OF_INTEGERS and kind_of(image.output) is Kind.INTEGER
        type_ = pa.int64() if of_integers else image.output
    return type_


def _through(images: list[Image], bounds: Any) -> Any:
    for image in images:
        bounds = image.of(bounds)
    return bounds


def _step(step: Function, type_: pa.DataType, time_zone: str) -> Image | None:
    if step.name in times.PARTS:
        return None if step.arguments else times.part(step.name, type_, time_zone)
    if step.name in {"cast", "try_cast"}:
        to = step.arguments[0] if len(step.arguments) == 1 else None
        if not isinstance(to, pa.DataType):
            return None
        if to == type_:
            return Image(to, lambda bounds: bounds)
        if pa.types.is_date32(to):
            return times.to_date(type_, time_zone)
        return numbers.cast(type_, to)
    make = _MAKERS.get(step.name)
    return None if make is None else make(type_, step.arguments)
