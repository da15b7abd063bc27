"""Choosing between the versions of each record: numpy over all keys at once, one round a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from table_format.codecs.arrow_numpy import Mask
from table_format.codecs.byte_spans import Positions
from table_format.merge.rules import MergeRules


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of records, one a row: those of the logs in merge order, behind them the base file's.

    Attributes:
        ranks: by ordering value.
        deleted: the version removes its key.
        natural: it does so whatever the ordering values are.
        by_block: it comes from a delete block rather than from a record that is marked as deleted.
        present: for columns that a version may leave as they were: where it has a value of its own.
    """

    ranks: Positions
    deleted: Mask
    natural: Mask
    by_block: Mask
    present: Mapping[str, Mask]


@dataclass(slots=True)
class Chosen:
    """For each key the row that it has in the end.

    Attributes:
        head: row of the version that won; -1 before the first.
        sources: by column, for those that may come from other versions than the winning one.
    """

    head: Positions
    sources: dict[str, Positions]


def choose_logs(keys: Positions, count: int, versions: Versions, rules: MergeRules) -> Chosen:
    """Reduce the log records of each key to one.

    Args:
        keys: number of the key of each log row, in merge order.
        count: how many keys there are.
        versions: log rows first.
        rules: of the table.
    """
    chosen = Chosen(np.full(count, -1, np.int64), {name: np.full(count, -1, np.int64) for name in versions.present})
    order = np.argsort(keys, kind="stable")
    first = np.searchsorted(keys[order], np.arange(count))
    rounds = np.arange(len(keys)) - first[keys[order]]
    by_round = np.argsort(rounds, kind="stable")
    ends = np.cumsum(np.bincount(rounds)) if len(keys) else np.empty(0, np.int64)
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=False):
        rows = order[by_round[start:end]]
        _apply(chosen, keys[rows], rows, versions, rules)
    return chosen


def _apply(chosen: Chosen, keys: Positions, rows: Positions, versions: Versions, rules: MergeRules) -> None:
    held = chosen.head[keys]
    if held.size and held[0] < 0:  # the first round, in which every key has its first version
        chosen.head[keys] = rows
        for source in chosen.sources.values():
            source[keys] = rows
        return
    wins = np.ones(len(rows), dtype=np.bool_)
    if rules.logs_by_ordering:
        wins = (versions.ranks[rows] >= versions.ranks[held]) | versions.natural[rows]
        wins |= versions.natural[held]
        if rules.deletes_forget:
            wins |= versions.by_block[held]
        else:
            # a natural delete stays one when a delete with an ordering value follows
            wins &= ~(versions.natural[held] & versions.by_block[rows])
    _merge(chosen, keys, rows, wins, versions)


def choose_with_base(chosen: Chosen, keys: Positions, rows: Positions, versions: Versions, rules: MergeRules) -> None:
    """Merge what the logs came to over the base file's rows, in place.

    Args:
        chosen: of the logs.
        keys: those that the base file has.
        rows: their rows among the versions.
        versions: of logs and base file.
        rules: of the table.
    """
    held = chosen.head[keys]
    stays = np.zeros(len(rows), dtype=np.bool_)
    if rules.base_by_ordering:
        stays = (versions.ranks[rows] > versions.ranks[held]) & ~versions.natural[held]
        if rules.deletes_forget:
            stays &= ~versions.by_block[held]
    _merge(chosen, keys, rows, stays, versions)


def _merge(chosen: Chosen, keys: Positions, rows: Positions, wins: Mask, versions: Versions) -> None:
    """Put rows in place of the chosen ones where they win, and fill what the winner leaves open from the loser."""
    held = chosen.head[keys]
    chosen.head[keys] = np.where(wins, rows, held)
    whole = versions.deleted[rows] | versions.deleted[held]
    for name, source in chosen.sources.items():
        present = versions.present[name]
        before = source[keys]
        high, low = np.where(wins, rows, before), np.where(wins, before, rows)
        source[keys] = np.where(present[high] | whole, high, low)
