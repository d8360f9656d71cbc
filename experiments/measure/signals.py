"""Adds messages that tell a rank when an operation between other ranks is done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from simulator.schedules.schedule import TRANSFER, Schedule
from topologies.topology import Ints


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
    before, senders, receivers, finished = zip(*tokens, strict=True)
    at = np.array(before)
    place = np.arange(len(schedule)) + np.searchsorted(at, np.arange(len(schedule)), side="right")
    sent = at + np.arange(len(tokens))
    pairs = [(place[operation[~far]], place[schedule.indices[~far]])]
    pairs += [(np.array([place[i]]), np.array([sent[number]])) for i, number in needs]
    pairs += [
        (np.repeat(own, len(done)), place[list(done)])
        for own, done in zip(sent, finished, strict=True)
    ]
    values: dict[str, Any] = {
        "kind": TRANSFER,
        "rank": senders,
        "peer": receivers,
        "source": -1,
        "target": -1,
    }
    return _inserted(schedule, values, at, *map(np.concatenate, zip(*pairs, strict=True)))


def _far(schedule: Schedule, operation: Ints, before: Ints) -> npt.NDArray[np.bool_]:
    """Whether each operation shares no rank with its predecessor."""
    ranks, ranks_before = (
        (schedule.rank[operation], schedule.peer[operation]),
        (schedule.rank[before], schedule.peer[before]),
    )
    return np.asarray(np.all([a != b for a in ranks for b in ranks_before], axis=0))


def _tokens(
    schedule: Schedule, operation: Ints, before: Ints
) -> tuple[list[tuple[int, int, int, tuple[int, ...]]], list[tuple[int, int]]]:
    """Messages that say that operations are done, and pairs of an operation and the message that it
    waits for.

    A message is the first operation that waits for it, its sender, its receiver, and the operations
    that are done. Operations that wait for the same share a message.
    """
    waits: dict[tuple[int, int], list[int]] = {}
    for i, q in zip(operation.tolist(), before.tolist(), strict=True):
        waits.setdefault((i, int(schedule.peer[q])), []).append(q)
    numbers: dict[tuple[int, int, tuple[int, ...]], int] = {}
    tokens: list[tuple[int, int, int, tuple[int, ...]]] = []
    needs = []
    for (i, sender), operations in waits.items():
        receiver = int(schedule.rank[i])
        number = numbers.setdefault((sender, receiver, tuple(operations)), len(tokens))
        if number == len(tokens):
            tokens.append((i, sender, receiver, tuple(operations)))
        needs.append((i, number))
    return tokens, needs


def _inserted(
    schedule: Schedule, values: dict[str, Any], at: Ints, waiting: Ints, before: Ints
) -> Schedule:
    """The schedule with operations before those `at`, and with these pairs of operations that wait.
    Columns without `values` are 0 there."""
    names = "kind rank peer source target count reduces nbytes seconds lane phase"
    columns: dict[str, Any] = {
        name: np.insert(getattr(schedule, name), at, values.get(name, 0)) for name in names.split()
    }
    indptr = np.zeros(len(columns["kind"]) + 1, dtype=schedule.indptr.dtype)
    np.cumsum(np.bincount(waiting, minlength=len(indptr) - 1), out=indptr[1:])
    indices = before[np.argsort(waiting, kind="stable")].astype(schedule.indices.dtype)
    return replace(schedule, indptr=indptr, indices=indices, **columns)
