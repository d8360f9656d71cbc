"""Adds messages that tell a rank when an operation between other ranks is done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.schedules.schedule import TRANSFER, Schedule
from topologies.topology import Ints


class Token(NamedTuple):
    """A message that says that operations are done."""

    before: int
    """The operation that waits for it."""
    rank: int
    """The sender."""
    peer: int
    """The receiver."""
    done: tuple[int, ...]
    """The operations that are done."""


def with_signals(schedule: Schedule) -> Schedule:
    """The schedule, with a message wherever an operation waits for one between other ranks.

    A rank knows only the operations that it takes part in. Barriers wait for others, transfers of
    data do not.
    """
    operation = np.repeat(np.arange(len(schedule), dtype=np.int32), np.diff(schedule.indptr))
    far = _far(schedule, operation, schedule.indices)
    if not far.any():
        return schedule
    tokens, needs = _tokens(schedule, operation[far], schedule.indices[far])
    at = np.array([token.before for token in tokens])
    place = np.arange(len(schedule)) + np.searchsorted(at, np.arange(len(schedule)), side="right")
    sent = at + np.arange(len(tokens))
    pairs = [(place[operation[~far]], place[schedule.indices[~far]])]
    pairs += [(np.array([place[i]]), np.array([sent[number]])) for i, number in needs]
    pairs += [
        (np.repeat(sent[k], len(token.done)), place[list(token.done)])
        for k, token in enumerate(tokens)
    ]
    return _inserted(schedule, tokens, at, *map(np.concatenate, zip(*pairs, strict=True)))


def _far(schedule: Schedule, operation: Ints, before: Ints) -> npt.NDArray[np.bool_]:
    """Whether each operation shares no rank with its predecessor."""
    ranks, ranks_before = (
        (schedule.rank[operation], schedule.peer[operation]),
        (schedule.rank[before], schedule.peer[before]),
    )
    return np.asarray(np.all([a != b for a in ranks for b in ranks_before], axis=0))


def _tokens(
    schedule: Schedule, operation: Ints, before: Ints
) -> tuple[list[Token], list[tuple[int, int]]]:
    """The messages, and pairs of an operation and the message that it waits for.

    Operations that wait for the same share a message.
    """
    waits: dict[tuple[int, int], list[int]] = {}
    for i, q in zip(operation.tolist(), before.tolist(), strict=True):
        waits.setdefault((i, int(schedule.peer[q])), []).append(q)
    numbers: dict[tuple[int, int, tuple[int, ...]], int] = {}
    tokens: list[Token] = []
    needs = []
    for (i, sender), operations in waits.items():
        receiver = int(schedule.rank[i])
        number = numbers.setdefault((sender, receiver, tuple(operations)), len(tokens))
        if number == len(tokens):
            tokens.append(Token(i, sender, receiver, tuple(operations)))
        needs.append((i, number))
    return tokens, needs


def _inserted(
    schedule: Schedule, tokens: list[Token], at: Ints, waiting: Ints, before: Ints
) -> Schedule:
    values: dict[str, list[int] | int] = {
        "kind": TRANSFER,
        "rank": [token.rank for token in tokens],
        "peer": [token.peer for token in tokens],
        "source": -1,
        "target": -1,
    }
    names = (
        "kind",
        "rank",
        "peer",
        "source",
        "target",
        "count",
        "reduces",
        "nbytes",
        "seconds",
        "lane",
        "phase",
    )
    columns: dict[str, Any] = {
        name: np.insert(getattr(schedule, name), at, values.get(name, 0)) for name in names
    }
    indptr = np.zeros(len(columns["kind"]) + 1, dtype=schedule.indptr.dtype)
    np.cumsum(np.bincount(waiting, minlength=len(indptr) - 1), out=indptr[1:])
    indices = before[np.argsort(waiting, kind="stable")].astype(schedule.indices.dtype)
    return replace(schedule, indptr=indptr, indices=indices, **columns)
