"""A TupleDomain as plain values, for the log of queries."""

from __future__ import annotations

import itertools
from typing import Any

_SHOWN = 19  # and a last item that tells how many more there are
_BELOW, _EXACTLY, _ABOVE = 1, 2, 3


def domain_text(domain: Any) -> Any:
    """What passes, by column: texts of ranges or values, of long lists the first ones; and whether null does.

    Args:
        domain: a ``TrinoThriftTupleDomain``, of which nothing is taken for granted.
    """
    domains = getattr(domain, "domains", None)
    if domains is None:
        return "nothing"
    return {str(name): _column(one) for name, one in itertools.islice(domains.items(), _SHOWN)}


def _column(domain: Any) -> dict[str, Any]:
    values = domain.valueSet
    told: dict[str, Any] = {}
    if values.rangeValueSet is not None:
        told["ranges"] = _list(
            [_range(one) for one in values.rangeValueSet.ranges[:_SHOWN]], values.rangeValueSet.ranges
        )
    if values.equatableValueSet is not None:
        kind = "values" if values.equatableValueSet.inclusive else "all_but"
        found = values.equatableValueSet.values
        told[kind] = _list([_value(one) for one in found[:_SHOWN]], found)
    if values.allOrNoneValueSet is not None:
        told["values"] = "all" if values.allOrNoneValueSet.all else "none"
    told["null"] = bool(domain.nullAllowed)
    return told


def _list(shown: list[str], found: list[Any]) -> list[str]:
    return [*shown, f"{len(found) - len(shown):,} more"] if len(found) > len(shown) else shown


def _range(one: Any) -> str:
    low, high = one.low, one.high
    if low.value is not None and low.bound == high.bound == _EXACTLY and low.value == high.value:
        return _value(low.value)
    begin = "(-inf" if low.value is None else ("[" if low.bound == _EXACTLY else "(") + _value(low.value)
    end = "+inf)" if high.value is None else _value(high.value) + ("]" if high.bound == _EXACTLY else ")")
    return f"{begin}, {end}"


def _value(block: Any) -> str:
    """The value of a one-row block, whichever of its fields is set."""
    for data in vars(block).values():
        if data is None:
            continue
        held = vars(data)
        if held.get("nulls") and held["nulls"][0]:
            return "null"
        if "bytes" in held:
            text = held["bytes"] or b""
            return repr(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text))
        for values in held.values():
            if isinstance(values, list) and values and values is not held.get("nulls"):
                return str(values[0])
    return "?"
