"""The rendezvous protocol: data leave only when the receiver has signalled that it is ready.

gloo does so with every message, and MPI with large messages. A message takes one more latency, and
the program of the receiver decides when it starts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from simulator.kernels.records import Csr
from simulator.schedules.schedule import TRANSFER, Schedule
from topologies.columns import owners, ranges
from topologies.topology import Longs


def rendezvous(schedule: Schedule) -> Schedule:
    """The same schedule with a ready signal before every transfer of slots between two ranks.

    The receiver posts its receives step by step. The step of a transfer is its place on the longest
    chain of transfers that leads to it. Receives of the first step are posted at once. A receive of
    a later step is posted when two things are done: the receives of the step before that come
    before it in the schedule, and all other operations at the receiver for which the transfer
    waits. Signals have no bytes. The number of a signal follows those of the operations that it
    waits for.

    >>> from simulator.collectives.ring_steps import shift_send_recv
    >>> plain = shift_send_recv(2, 8.0)
    >>> len(plain), len(rendezvous(plain)), rendezvous(plain).steps
    (4, 6, 2)
    """
    moved = np.flatnonzero(schedule.remote & (schedule.source >= 0))
    signal, posted = _posted(schedule, moved)
    place = np.zeros(len(moved), dtype=np.int64)
    np.maximum.at(place, signal, posted + 1)
    order = np.argsort(place, kind="stable")
    ready = np.empty_like(place)
    ready[order] = place[order] + np.arange(len(moved))
    number = np.arange(len(schedule)) + np.searchsorted(
        place[order], np.arange(len(schedule)), side="right"
    )
    waits = np.repeat(number, np.diff(schedule.indptr))
    size = len(schedule) + len(moved)
    waiting = np.concatenate((waits, number[moved], ready[signal]))
    awaited = np.concatenate((number[schedule.indices], ready, number[posted]))
    indptr, indices = Csr.of(*np.divmod(np.unique(waiting * size + awaited), size), size)
    signals = {
        "kind": TRANSFER,
        "rank": schedule.peer[moved],
        "peer": schedule.rank[moved],
        "source": -1,
        "target": -1,
    }
    signals |= dict.fromkeys(("count", "reduces", "nbytes", "seconds", "lane"), 0)
    signals["phase"] = schedule.phase[moved]
    columns: dict[str, Any] = {
        name: np.insert(getattr(schedule, name), place, np.asarray(each))
        for name, each in signals.items()
    }
    return replace(schedule, indptr=indptr, indices=indices, **columns)


def _posted(schedule: Schedule, moved: Longs) -> tuple[Longs, Longs]:
    """Pairs of a signal and an operation that it waits for: signal k is that of the transfer
    `moved[k]`."""
    waits = owners(schedule.indptr)
    local = np.isin(waits, moved) & (schedule.peer[waits] == schedule.peer[schedule.indices])
    later, earlier = _steps(schedule, moved)
    in_order = earlier < later
    later, earlier = later[in_order], earlier[in_order]
    signal = np.searchsorted(moved, waits[local])
    return np.concatenate((signal, later)), np.concatenate(
        (schedule.indices[local], moved[earlier])
    )


def _steps(schedule: Schedule, moved: Longs) -> tuple[Longs, Longs]:
    """Pairs of transfers into one rank, of a step and of the step before, by their places in
    `moved`."""
    step = schedule.depth()[moved]
    receiver = schedule.peer[moved]
    order = np.lexsort((step, receiver))
    opens = np.diff(receiver[order], prepend=-1) != 0
    group = np.cumsum(opens | (np.diff(step[order], prepend=-1) != 0)) - 1
    begin = np.searchsorted(group, np.arange(group.max(initial=-1) + 2))
    later = np.flatnonzero(~opens[begin[group]])
    count = np.diff(begin)[group[later] - 1]
    row, before = ranges(begin[group[later] - 1], count)
    return order[later[row]], order[before]
