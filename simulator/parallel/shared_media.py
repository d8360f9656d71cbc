"""What the calls of a step use of media that others may use at the same time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.kernels.rates import Usages
from simulator.parallel.group_times import GroupTimes
from simulator.steps.step_graph import Call
from topologies.columns import entries, ranges
from topologies.topology import Floats, Ints, Numbers

Use = tuple[Ints, Floats, Floats, Floats]
"""Media, the share of each phase that each is busy, its messages, and what is left of the time of
the call behind each phase."""


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
    sources, uses = dict[tuple[Call, int], int](), list[Use]()
    entries, until, first = list[tuple[int, int, Floats]](), list[float](), list[int]()
    for calls, home, lasts in zip(callers, device.tolist(), seconds.tolist(), strict=True):
        first.append(len(until))
        for call in calls:
            timed = times.timed(*call[:3])
            place = home if home in timed.laid.parts_of else min(timed.laid.parts_of)
            if (call, place) not in sources:
                sources[call, place] = len(uses)
                uses.append(timed.uses(call.nbytes, place))
            source = sources[call, place]
            ends = uses[source][-1]
            # A task of several calls keeps the mean of their use.
            parts = np.eye(len(ends)) if len(calls) == 1 else -np.diff(ends, prepend=1.0)[None]
            parts *= timed.at(times.end, place) / (lasts or 1.0)
            entries += [(first[-1] + phase, source, part) for phase, part in enumerate(parts)]
        until += ends.tolist() if len(calls) == 1 else [0.0]
    media, uses = _classes(uses, len(times.topology.medium_bandwidth) + len(times.topology.node))
    table = np.zeros((2, len(until), len(media)))
    for row, source, part in entries:
        where, *columns, _ = uses[source]
        table[:, row, where] += np.stack([part @ column for column in columns])
    # What is faster than the slowest groups of its place uses none of their media twice.
    table /= np.maximum(table[:1], 1.0)
    caller = np.repeat(np.arange(len(callers)), np.diff([*first, len(until)]))
    most = np.zeros((device.max(initial=0) + 1, lane.max(initial=0) + 1, len(media)))
    np.maximum.at(most, (device[caller], lane[caller]), table[0])
    # Lanes that together use no more of a medium than all of it, but for rounding, never wait.
    contended = most.sum(axis=(0, 1)) > 1 + 1e-9
    share, flows = table[:, :, contended]
    rows, medium = np.nonzero(share)
    using = np.bincount(caller[rows], minlength=len(callers)) > 0
    used = Usages(
        np.append(0, np.searchsorted(rows, np.arange(len(until) + 1))).astype(np.int32),
        medium.astype(np.int32),
        share[rows, medium],
        flows[rows, medium],
        np.append(0.0, until),
    )
    return used, np.where(using, 1 + np.array(first), 0).astype(np.int32), media[contended]


def repeated(
    used: Usages, usage: Ints, caller: Numbers, copy: Numbers, media: int
) -> tuple[Usages, Ints]:
    """The usage of each caller behind the empty one, on several copies of so many media.

    `usage` has the first row of each caller. A row of `caller` and `copy` says that a task of this
    caller uses this copy. Returns also the first row of each caller.
    """
    copies = int(copy.max(initial=0)) + 1
    callers, copy_of = np.divmod(np.unique(caller * copies + copy), copies)
    # The phases of a caller end with the one behind which nothing is left.
    last = np.flatnonzero(used.until == 0.0)
    counts = last[np.searchsorted(last, usage)] - usage + 1
    first = np.cumsum(counts) - counts
    pair, row = ranges(usage[callers], counts[callers])
    place, entry = entries(used.indptr, row)
    # A caller uses all its copies in each phase.
    phase = (first[callers[pair]] + row - usage[callers[pair]])[place]
    order = np.argsort(phase, kind="stable")
    sizes, entry = np.bincount(phase, minlength=int(counts.sum())), entry[order]
    again = Usages(
        np.concatenate(([0, 0], np.cumsum(sizes))).astype(np.int32),
        (used.medium[entry] + media * copy_of[pair[place[order]]]).astype(np.int32),
        used.share[entry],
        used.flows[entry],
        np.append(0.0, used.until[ranges(usage, counts)[1]]),
    )
    return again, np.where(usage > 0, 1 + first, 0).astype(np.int32)


def _classes(uses: Sequence[Use], count: int) -> tuple[Ints, list[Use]]:
    """A medium for all of `count` media that are used alike; and what uses these, by their
    numbers."""
    # Media are used alike if random mixtures of what uses them are the same.
    mixed = np.zeros(count)
    random = np.random.default_rng(0)
    for medium, *columns, _ in uses:
        mixed[medium] += sum(random.random(len(column)) @ column for column in columns)
    _, first = np.unique(mixed, return_index=True)
    media = first[mixed[first] > 0].astype(np.int32)
    number = np.full(count, -1, dtype=np.int32)
    number[media] = np.arange(len(media))
    cut = []
    for medium, share, flows, until in uses:
        chosen = number[medium] >= 0
        cut.append((number[medium[chosen]], share[:, chosen], flows[:, chosen], until))
    return media, cut
