"""Walks over filter trees with their own stack: depth is limited by memory only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import pyarrow as pa

from pushdown.computation import Term
from pushdown.expression import (
    And,
    HudiExpression,
    ImageTest,
    Not,
    Or,
    Predicate,
    RowComputation,
    RowTest,
    Unknown,
    all_of,
)

_OF_COLUMNS = Predicate | RowTest | ImageTest

T = TypeVar("T")
S = TypeVar("S")


def fold(root: HudiExpression, visit: Callable[[HudiExpression, list[T]], T]) -> T:
    """Visit every node after its children; `visit` gets the node and its children's results, in their order."""
    results: list[T] = []
    pending: list[tuple[HudiExpression, bool]] = [(root, False)]
    while pending:
        node, expanded = pending.pop()
        if not expanded and node.children:
            pending.append((node, True))
            pending.extend((child, False) for child in reversed(node.children))
            continue
        count = len(node.children)
        children = results[len(results) - count :] if count else []
        del results[len(results) - count :]
        results.append(visit(node, children))
    return results[0]


@dataclass(frozen=True, slots=True)
class Branch(Generic[S, T]):
    """An inner node of an engine's tree.

    Attributes:
        children: its operands, in order.
        join: makes its result of the results of the operands.
    """

    children: Iterator[S]
    join: Callable[[list[T]], T]


def translate_tree(root: S, branch_of: Callable[[S], Branch[S, T] | None], leaf: Callable[[S], T]) -> T:
    """Translate an engine's tree of any depth.

    Args:
        root: of the tree.
        branch_of: a node's operands and how to join them; None for a leaf.
        leaf: translates a leaf.
    """
    whole: Branch[S, T] = Branch(iter([root]), lambda results: results[0])
    pending: list[tuple[Branch[S, T], list[T]]] = [(whole, [])]
    while True:
        branch, results = pending[-1]
        for node in branch.children:
            inner = branch_of(node)
            if inner is not None:
                pending.append((inner, []))
                break
            results.append(leaf(node))
        else:
            pending.pop()
            result = branch.join(results)
            if not pending:
                return result
            pending[-1][1].append(result)


@dataclass(frozen=True)
class Logic(Generic[T]):
    """How the results of leaves are joined by And, Or and Not.

    Attributes:
        leaf: the result of a leaf that is not an empty And or Or.
        both: joins two results under And.
        either: joins two results under Or.
        negate: the result under Not.
        empty_and: the result of an And without children.
        empty_or: the result of an Or without children.
    """

    leaf: Callable[[HudiExpression], T]
    both: Callable[[T, T], T]
    either: Callable[[T, T], T]
    negate: Callable[[T], T]
    empty_and: Callable[[], T]
    empty_or: Callable[[], T]


class _Frame(Generic[T]):
    __slots__ = ("node", "rest", "total")

    def __init__(self, node: HudiExpression) -> None:
        self.node = node
        # The deepest child first: then no more results wait than the tree is bushy, however deep it is.
        self.rest: Iterator[HudiExpression] = iter(sorted(node.children, key=lambda child: -child.depth))
        self.total: T | None = None


def fold_logic(root: HudiExpression, logic: Logic[T]) -> T:
    """Evaluate And / Or / Not over leaf results, joining each result as soon as it is known.

    And and Or are commutative, so children are taken in the order that keeps the fewest results alive. That matters
    when a result is a mask over 100,000 files.
    """
    if not root.children:
        return _leaf_result(root, logic)
    frames: list[_Frame[T]] = [_Frame(root)]
    while True:
        frame = frames[-1]
        child = next(frame.rest, None)
        if child is not None and child.children:
            frames.append(_Frame(child))
            continue
        if child is not None:
            _absorb(frame, _leaf_result(child, logic), logic)
            continue
        frames.pop()
        result = frame.total
        if result is None:
            raise AssertionError("a branch without children is a leaf")
        if not frames:
            return result
        _absorb(frames[-1], result, logic)


def _leaf_result(node: HudiExpression, logic: Logic[T]) -> T:
    if isinstance(node, And):
        return logic.empty_and()
    if isinstance(node, Or):
        return logic.empty_or()
    return logic.leaf(node)


def _absorb(frame: _Frame[T], result: T, logic: Logic[T]) -> None:
    if isinstance(frame.node, Not):
        frame.total = logic.negate(result)
    elif frame.total is None:
        frame.total = result
    elif isinstance(frame.node, And):
        frame.total = logic.both(frame.total, result)
    else:
        frame.total = logic.either(frame.total, result)


def leaves(root: HudiExpression) -> Iterator[HudiExpression]:
    """All nodes without children, from left to right."""
    pending = [root]
    while pending:
        node = pending.pop()
        if node.children:
            pending.extend(reversed(node.children))
        else:
            yield node


def rebuilt(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
    """The same node with other children; the node itself if they are the same objects."""
    if all(a is b for a, b in zip(node.children, children, strict=True)):
        return node
    if isinstance(node, Not):
        return Not(children[0])
    return And(children) if isinstance(node, And) else Or(children)


def columns_of(expression: HudiExpression) -> tuple[str, ...]:
    """The columns of the filter's predicates, each once, in the order of the text; not those of computations."""
    return tuple(dict.fromkeys(leaf.column for leaf in leaves(expression) if isinstance(leaf, _OF_COLUMNS)))


def column_types(expression: HudiExpression) -> dict[str, pa.DataType]:
    """The columns that a bound filter compares by statistics, and their types."""
    types: dict[str, pa.DataType] = {}
    for leaf in leaves(expression):
        if isinstance(leaf, Predicate | ImageTest) and leaf.column_type is not None:
            types.setdefault(leaf.column, leaf.column_type)
    return types


def parts_by_columns(expression: HudiExpression) -> list[tuple[tuple[str, ...], HudiExpression]]:
    """The parts of a conjunction by the sorted columns that they name; those that name none are left out."""
    of_columns: dict[tuple[str, ...], list[HudiExpression]] = {}
    for part in expression.children if isinstance(expression, And) else [expression]:
        of_columns.setdefault(tuple(sorted(columns_of(part))), []).append(part)
    return [(columns, all_of(*group)) for columns, group in of_columns.items() if columns]


def reasons_of(expression: HudiExpression) -> tuple[str, ...]:
    """Why parts of the filter are unknown, each reason once; empty when values of statistics decide all of it."""
    unknown = (leaf for leaf in leaves(expression) if isinstance(leaf, Unknown))
    return tuple(
        dict.fromkeys(leaf.reason for leaf in unknown if not isinstance(leaf, ImageTest) or leaf.result_type is None)
    )


def inexact_part(expression: HudiExpression) -> str | None:
    """Why rows cannot be selected by a filter; None if they can."""
    unknown = (leaf for leaf in leaves(expression) if isinstance(leaf, Unknown))
    return next((leaf.reason for leaf in unknown if computed_condition(leaf) is None), None)


def computed_condition(leaf: HudiExpression) -> Term | None:
    """What decides rows of a bound leaf that statistics narrow at most; None if nothing does."""
    if isinstance(leaf, ImageTest):
        return leaf.condition
    return leaf.condition if isinstance(leaf, RowComputation) and leaf.time_zone is not None else None


def columns_read(expression: HudiExpression) -> tuple[str, ...]:
    """The columns that rows need to be selected by a filter: those of `columns_of`, and those of computations."""
    computed = (leaf for leaf in leaves(expression) if isinstance(leaf, RowComputation))
    others = (name for leaf in computed for name in leaf.condition.columns())
    return tuple(dict.fromkeys([*columns_of(expression), *others]))


def without_computations(expression: HudiExpression) -> HudiExpression:
    """The filter with `Unknown` for what is computed for rows: for engines that select rows themselves."""

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if children:
            return rebuilt(node, children)
        if isinstance(node, RowComputation):
            return Unknown(node.reason)
        return replace(node, condition=None) if isinstance(node, Predicate | ImageTest) else node

    return fold(expression, visit)


def restrict(expression: HudiExpression, columns: Collection[str]) -> HudiExpression:
    """A weaker filter that mentions only these columns: predicates on others become `Unknown`.

    A row that makes the filter true can always make the restricted filter true, under any nesting of Not.
    """
    names = frozenset(columns)

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if isinstance(node, _OF_COLUMNS) and node.column not in names:
            return Unknown(f"{node.column} is not among the columns looked at")
        return rebuilt(node, children) if children else node

    return fold(expression, visit)
