"""What the calls of a step use of media that others may use at the same time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.kernels.rates import Usages
from simulator.parallel.group_times import GroupTimes
from simulator.steps.step_graph import Call, Numbers, ranges
from topologies.topology import Floats, Ints

ROUNDING = 1e-9
"""Lanes that together use no more of a medium than all of it, up to this, never wait there."""


def usages(
    callers: Sequence[Sequence[Call]],
    device: Numbers,
    lane: Numbers,
    seconds: Floats,
    times: GroupTimes,
) -> tuple[Usages, Ints, Ints]:
    """What each caller uses of media, without those that have room for all lanes at any time.

    A caller is a task on a lane of a device that does nothing but calls, one after the other, and
    takes so many seconds alone. Returns the usages, of which the first is empty; that of each
    caller; and a medium of the machine for each number of a medium there: it stands for all that
    are used alike.
    """
    sources, entries = dict[tuple[Call, int], int](), list[tuple[int, int, float]]()
    uses = list[tuple[Ints, Floats, Floats]]()
    for number, (calls, home) in enumerate(zip(callers, device.tolist(), strict=True)):
        for call in calls:
            timed = times.timed(*call[:3])
            place = home if home in timed.laid.parts_of else min(timed.laid.parts_of)
            if (call, place) not in sources:
                sources[call, place] = len(uses)
                uses.append(timed.uses(call.nbytes, place))
            weight = timed.at(times.end, place) / (float(seconds[number]) or 1.0)
            entries.append((number, sources[call, place], weight))
    media, uses = _classes(uses, len(times.topology.medium_bandwidth) + len(times.topology.node))
    table = np.zeros((2, len(callers), len(media)))
    for number, source, weight in entries:
        where, *columns = uses[source]
        table[:, number, where] += weight * np.stack(columns)
    # What is faster than the slowest groups of its place uses none of their media twice.
    table /= np.maximum(table[:1], 1.0)
    most = np.zeros((device.max(initial=0) + 1, lane.max(initial=0) + 1, len(media)))
    np.maximum.at(most, (device, lane), table[0])
    contended = most.sum(axis=(0, 1)) > 1 + ROUNDING
    table = table[:, :, contended]
    row, medium = np.nonzero(table[0])
    using, counts = np.unique(row, return_counts=True)
    of_caller = np.zeros(len(callers), dtype=np.int32)
    of_caller[using] = 1 + np.arange(len(using))
    indptr = np.concatenate(([0, 0], np.cumsum(counts))).astype(np.int32)
    share, flows = np.ascontiguousarray(table[:, row, medium])
    return Usages(indptr, medium.astype(np.int32), share, flows), of_caller, media[contended]


def repeated(used: Usages, usage: Ints, caller: Numbers, copy: Numbers, media: int) -> Usages:
    """The usage of each caller behind the empty one, on several copies of so many media.

    `usage` has the row of each caller. A row of `caller` and `copy` says that a task of this caller
    uses this copy.
    """
    copies = int(copy.max(initial=0)) + 1
    callers, copy_of = np.divmod(np.unique(caller * copies + copy), copies)
    begins = used.indptr[usage[callers]]
    row, entry = ranges(begins, used.indptr[usage[callers] + 1] - begins)
    sizes = np.bincount(callers[row], minlength=len(usage))
    return Usages(
        np.concatenate(([0, 0], np.cumsum(sizes))).astype(np.int32),
        (used.medium[entry] + media * copy_of[row]).astype(np.int32),
        used.share[entry],
        used.flows[entry],
    )


def _classes(
    uses: Sequence[tuple[Ints, Floats, Floats]], count: int
) -> tuple[Ints, list[tuple[Ints, Floats, Floats]]]:
    """A medium for all of `count` media that are used alike; and what uses these, by their
    numbers."""
    # Media are used alike if random mixtures of what uses them are the same.
    mixed = np.zeros(count)
    for (medium, *columns), weights in zip(
        uses, np.random.default_rng(0).random((len(uses), 2)), strict=True
    ):
        mixed[medium] += weights @ columns
    _, first = np.unique(mixed, return_index=True)
    media = first[mixed[first] > 0].astype(np.int32)
    number = np.full(count, -1, dtype=np.int32)
    number[media] = np.arange(len(media))
    cut = []
    for medium, share, flows in uses:
        chosen = number[medium] >= 0
        cut.append((number[medium[chosen]], share[chosen], flows[chosen]))
    return media, cut
