"""Steps that repeat: once a run is in a state in which it was before, whole periods are skipped.

A state is what decides how a run goes on: the events to come, until when media and lanes are held,
and when operations are ready that still wait. Its times count from the next event, and its
operations from those that are done. If two states are equal, and the operations that follow are
alike, then so are their times. This is exact only where all durations are whole ticks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.kernels.events import ROOM, Runs
from simulator.kernels.records import Csr, Flags, Floats, Index, Ints, Times, Turns, Work

NEVER = 2**62
PART, NEXT, ROWS = 0, 1, 2
"""Places in `Steps.at`: the part of the run, after how many operations to look at the state next,
and the number of states that are kept."""
HEAD = 2
"""A state begins with the number of operations that are done, and the time of the next event. The
holder of each medium and lane follows. The rest is compared."""


APART = 4
"""There are so many times as many operations from state to state as there are lanes and media."""
MOST_ROWS, MOST_NUMBERS = 2**12, 2**19
"""So many states of a part are kept, with so many numbers in all."""


class Parts(NamedTuple):
    """Parts of a run in which each operation is like that `width` operations later: it has the same
    route and bytes. What waits for it in the part is alike too."""

    begin: Ints
    end: Ints
    width: Ints
    reach: Ints
    """Within a part, an operation waits for others at most so many operations before it."""
    lanes: Ints
    """The lanes that the run uses."""

    @classmethod
    def none(cls) -> Parts:
        """Nothing repeats."""
        return cls(*(np.zeros(0, np.int32) for _ in cls._fields))


class Steps(NamedTuple):
    """:class:`Parts`, and the states in which a run was within a part."""

    begin: Ints
    end: Ints
    width: Ints
    reach: Ints
    lanes: Ints
    every: Ints
    """After how many operations to look at the state again: a multiple of the width."""
    fills: bool
    """Whether to fill in the times of operations that are skipped."""
    at: npt.NDArray[np.int64]
    """How far the search is."""
    rows: npt.NDArray[np.int64]
    """Where each state begins in `states`, and where the last one ends."""
    states: Floats
    hop: Flags
    """1 more than the hop of each operation with an event, else 0. All are 0 between searches."""
    time: Floats
    """When the event of each operation happens."""

    @classmethod
    def of(cls, parts: Parts, operations: int, media: int, fills: bool) -> Steps:
        """Nothing is known of these parts yet, in a run with so many operations and media."""
        width, places = parts.width.astype(np.int64), len(parts.lanes) + media
        rounds = np.ceil(np.log2(np.maximum(1.0, APART * places / width)))
        return cls(
            *parts,
            (width * 2**rounds).astype(np.int32),
            fills,
            np.array([0, 0 if len(width) else NEVER, 0]),
            np.zeros(MOST_ROWS if len(width) else 1, np.int64),
            np.empty(MOST_NUMBERS if len(width) else 0),
            np.zeros(operations if len(width) else 0, np.int8),
            np.empty(operations if len(width) else 0),
        )


class Moment(NamedTuple):
    """A run that is not over."""

    work: Work
    waiting: Ints
    successors: Csr
    times: Times
    media: Turns
    lanes: Turns
    runs: Runs


class Period(NamedTuple):
    """Operations to skip: `count` periods, each of `shift` operations and `nodes` nodes, which
    takes `seconds`."""

    low: Index
    """No operation before has an event."""
    high: Index
    """No operation behind has an event or is done."""
    shift: Index
    seconds: float
    nodes: Index
    count: Index  # type: ignore[assignment]


def skip(moment: Moment, steps: Steps, done: Index, high: Index, others: Index) -> int:
    """Skip as many periods as possible; returns how many operations are done thereby.

    None of the `done` operations so far is behind `high`. Nothing is skipped while there are
    `others`, events in no run.
    """
    part = steps.at[PART]
    if part == len(steps.begin):
        steps.at[NEXT] = NEVER
        return 0
    steps.at[NEXT] = done + steps.every[part]
    if others > 0:
        return 0
    low, last, now = pending(moment.runs)
    high = max(high, last)
    if low < steps.begin[part] and high < steps.end[part]:
        return 0
    skipped, goes_on = 0, False
    if high < steps.end[part]:
        mark(moment, steps)
        until = min(high + steps.reach[part] + 1, steps.end[part])
        earlier = -1
        if describe(moment, steps, low, until, done, now):
            earlier = equal_state(steps, len(moment.media.free) + len(steps.lanes))
            goes_on = earlier < 0
        if earlier >= 0:
            period = period_of(moment, steps, earlier, low, high)
            if period.count > 0:
                advance(moment, steps, period, earlier)
                skipped = period.count * period.shift
        for i in range(low, until):
            steps.hop[i] = 0
    if not goes_on:
        steps.at[PART], steps.at[NEXT], steps.at[ROWS] = part + 1, done + skipped + 1, 0
    return int(skipped)


def pending(runs: Runs) -> tuple[Index, Index, float]:
    """The first and the last operation with an event, and the time of the first event."""
    low, high, now = NEVER, -1, np.inf
    for run in range(runs.used[0]):
        for place in range(runs.ends[run, 0], runs.ends[run, 1]):
            i = runs.operation[run, place & (ROOM - 1)]
            low, high = min(low, i), max(high, i)
        now = min(now, runs.heads[run])
    return low, high, now


def mark(moment: Moment, steps: Steps) -> None:
    """Note the hop and the time of each event at its operation."""
    runs, nodes = moment.runs, moment.work.routes.nodes
    for run in range(runs.used[0]):
        for place in range(runs.ends[run, 0], runs.ends[run, 1]):
            k = place & (ROOM - 1)
            i = runs.operation[run, k]
            steps.hop[i], steps.time[i] = runs.node[run, k] - nodes[i] + 1, runs.time[run, k]


def describe(
    moment: Moment, steps: Steps, low: Index, until: Index, done: Index, now: float
) -> bool:
    """Append the state to those that are kept; returns whether there is room."""
    states, times, row, width = steps.states, moment.times, steps.at[ROWS], steps.width
    media, lanes, places = moment.media, moment.lanes, len(moment.media.free) + len(steps.lanes)
    at = steps.rows[row]
    if row + 2 > len(steps.rows) or at + HEAD + 3 * places > len(states):
        return False
    states[at], states[at + 1] = done, now
    rounds = done // width[steps.at[PART]]
    node = rounds * nodes_of(moment, steps)
    at += HEAD
    for k in range(len(media.free)):
        describe_turn(media, k, states, at + k, places, now, node)
    at += len(media.free)
    for k in range(len(steps.lanes)):
        describe_turn(lanes, steps.lanes[k], states, at + k, places, now, node)
    at += len(steps.lanes) + 2 * places
    for i in range(low, until):
        hop, ready = steps.hop[i], times.ready[i]
        if hop == 0 and (moment.waiting[i] == 0 or ready <= now):
            continue
        if at + 5 > len(states):
            return False
        states[at], states[at + 1] = i - rounds * width[steps.at[PART]], hop
        states[at + 2] = ready - now
        states[at + 3] = steps.time[i] - now if hop > 0 else 0.0
        states[at + 4] = times.finish[i] - now if hop > 1 else 0.0
        at += 5
    steps.rows[row + 1] = at
    steps.at[ROWS] = row + 1
    return True


def nodes_of(moment: Moment, steps: Steps) -> Index:
    """The nodes of as many operations as the part is wide."""
    nodes, begin = moment.work.routes.nodes, steps.begin[steps.at[PART]]
    return nodes[begin + steps.width[steps.at[PART]]] - nodes[begin]


def describe_turn(
    turns: Turns, k: Index, states: Floats, at: Index, places: Index, now: float, node: Index
) -> None:
    """Write the holder of a medium or lane, how long it is held, and then by whom, as seen from
    `node`."""
    left = max(turns.free[k] - now, 0.0)
    states[at], states[at + places] = turns.holder[k], left
    states[at + 2 * places] = turns.holder[k] - node if left > 0.0 else 0.0


def equal_state(steps: Steps, places: Index) -> int:
    """The latest state that is equal to the last one, or -1."""
    states, last = steps.states, steps.at[ROWS] - 1
    begin, end = steps.rows[last] + HEAD + places, steps.rows[last + 1]
    for row in range(last - 1, -1, -1):
        behind = steps.rows[last] - steps.rows[row]
        if end - behind != steps.rows[row + 1]:
            continue
        # From the end, where events are, since most media are free.
        k = end - 1
        while k >= begin and states[k] == states[k - behind]:
            k -= 1
        if k < begin:
            return int(row)
    return -1


def period_of(moment: Moment, steps: Steps, earlier: Index, low: Index, high: Index) -> Period:
    """The period from an earlier state to the last, as often as it fits into the part."""
    part, first = steps.at[PART], steps.rows[earlier]
    last, width = steps.rows[steps.at[ROWS] - 1], steps.width[part]
    shift = np.int64(steps.states[last] - steps.states[first])
    seconds = steps.states[last + 1] - steps.states[first + 1]
    nodes = shift // width * nodes_of(moment, steps)
    # The last operations are not skipped: what comes after the part waits for them.
    behind = high + steps.reach[part] + width
    count = (steps.end[part] - 1 - behind) // shift
    if count < 0 or count * shift <= behind - low:
        count = 0
    return Period(low, high, shift, seconds, nodes, count)


def advance(moment: Moment, steps: Steps, period: Period, earlier: Index) -> None:
    """Bring a run to where it is after the period has come again as often as it shall."""
    moved, waiting = period.count * period.shift, moment.waiting
    seconds, nodes = period.count * period.seconds, period.count * period.nodes
    for i in range(period.low, period.high + 1):
        if steps.hop[i] == 0 and waiting[i] == 0:
            steps.hop[i] = -1
    end = steps.end[steps.at[PART]]
    for i in range(max(0, period.low - period.shift), period.high + 1):
        if is_done(steps, period, i) and not is_done(steps, period, i + period.shift):
            release(moment, period, i, end)
    until = min(period.high + steps.reach[steps.at[PART]] + 1, end)
    for i in range(period.low, until):
        j = i + moved
        waiting[j] = waiting[i]
        moment.times.ready[j] = moment.times.ready[i] + seconds
        if steps.hop[i] > 1:
            moment.times.finish[j] = moment.times.finish[i] + seconds
    if steps.fills:
        fill(moment, steps, period)
    at = steps.rows[earlier] + HEAD
    for k in range(len(moment.media.free)):
        advance_turn(moment.media, k, steps.states[at + k], nodes, seconds)
    at += len(moment.media.free)
    for k in range(len(steps.lanes)):
        advance_turn(moment.lanes, steps.lanes[k], steps.states[at + k], nodes, seconds)
    runs = moment.runs
    for run in range(runs.used[0]):
        for place in range(runs.ends[run, 0], runs.ends[run, 1]):
            k = place & (ROOM - 1)
            runs.time[run, k] += seconds
            runs.node[run, k] += nodes
            runs.operation[run, k] += moved
        runs.heads[run] += seconds
        runs.tails[run] += seconds


def is_done(steps: Steps, period: Period, i: Index) -> bool:
    """Whether an operation is done before anything is skipped."""
    return bool(i < period.low or (i <= period.high and steps.hop[i] < 0))


def release(moment: Moment, period: Period, i: Index, end: Index) -> None:
    """Let operations behind a part wait no more for those in the place of `i` in each period."""
    indptr, indices = moment.successors
    for times in range(1, period.count + 1):
        row, finish = i + times * period.shift, moment.times.finish[i] + times * period.seconds
        for k in range(indptr[row], indptr[row + 1]):
            j = indices[k]
            if j >= end:
                moment.waiting[j] -= 1
                moment.times.ready[j] = max(moment.times.ready[j], finish)


def advance_turn(turns: Turns, k: Index, holder: float, nodes: Index, seconds: float) -> None:
    """Move a medium or lane that has another `holder` since the last period began."""
    if turns.holder[k] != holder:
        turns.free[k] += seconds
        turns.last[k] += seconds
        turns.holder[k] += nodes


def fill(moment: Moment, steps: Steps, period: Period) -> None:
    """Fill in the times of what is skipped."""
    times, nodes, shift = moment.times, moment.work.routes.nodes, period.shift
    moved = period.count * shift
    for i in range(period.low, period.high + moved + 1):
        hop = 0
        if i <= period.high:
            if steps.hop[i] < 0:
                continue
            hop = max(0, steps.hop[i] - 1)
        until = nodes[i + 1] - nodes[i]
        if not is_done(steps, period, i - moved):
            # Its events before the next one are skipped.
            until = max(0, steps.hop[i - moved] - 1)
        else:
            times.finish[i] = times.finish[i - shift] + period.seconds
            if hop == 0 or steps.hop[i] == 0:
                times.ready[i] = times.ready[i - shift] + period.seconds
        for k in range(hop, until):
            node = nodes[i] + k
            before = node - period.nodes
            cause = times.cause[before]
            times.start[node] = times.start[before] + period.seconds
            times.cause[node] = cause + period.nodes if cause >= 0 else cause
