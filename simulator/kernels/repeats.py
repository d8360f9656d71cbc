"""Steps that repeat: once a run is in a state in which it was before, whole periods are skipped.

A state is what decides how a run goes on: the events to come, until when media and lanes are held,
and when operations are ready that still wait. Its times count from the next event, and its
operations from those that are done. If two states are equal, and the operations that follow are
alike, then so are their times. This is exact only where all durations are whole ticks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.kernels.events import ROOM, Runs
from simulator.kernels.records import Csr, Flags, Floats, Index, Ints, Longs, Times, Turns, Work

NEVER = 2**62
PART, NEXT, ROWS = 0, 1, 2
"""Places in `Steps.at`: the part of the run, after how many operations to look at the state next,
and the number of states that are kept."""
DONE, NOW, LOW, HIGH, HEAD = range(5)
"""A state begins with the number of operations that are done, the time of the next event, the first
operation with an event, and the last that has begun. The holders of media and lanes follow, until
when they are held, and the last arrivals there. The rest is compared. States are of any length, and
are compared number by number: so they lie in one array."""
OPERATION, HOP, READY, EVENT, FINISH, ENTRY = range(6)
"""Numbers of each operation with an event, and of each that is partly ready: times count from the
next event."""
STATE_SPACING = 4
"""There are so many times as many operations from state to state as there are lanes and media."""


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
    """The states in which a run was within a part."""

    parts: Parts
    every: Ints
    """After how many operations to look at the state again: a multiple of the width."""
    fills: bool
    """Whether to fill in the times of operations that are skipped."""
    at: Longs
    """How far the search is."""
    rows: Longs
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
        rounds = np.ceil(np.log2(np.maximum(1.0, STATE_SPACING * places / width)))
        return cls(
            parts,
            (width * 2**rounds).astype(np.int32),
            fills,
            np.array([0, 0 if len(width) else NEVER, 0]),
            # So many states of a part are kept, with so many numbers in all.
            np.zeros(2**12 if len(width) else 1, np.int64),
            np.empty(2**19 if len(width) else 0),
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


class Jump(NamedTuple):
    """What to skip: from the last state to where `row`, another one, comes again after so many
    periods, each of `shift` operations and `nodes` nodes, which takes `seconds`."""

    earlier: Index
    """The state that is equal to the last one."""
    row: Index
    periods: Index
    shift: Index
    seconds: float
    nodes: Index


def skip(moment: Moment, steps: Steps, done: Index, high: Index, others: Index) -> int:
    """Skip as many periods as possible; returns how many operations are done thereby.

    None of the `done` operations so far is behind `high`. Nothing is skipped while there are
    `others`, events in no run.
    """
    part = steps.at[PART]
    if part == len(steps.parts.begin):
        steps.at[NEXT] = NEVER
        return 0
    steps.at[NEXT] = done + steps.every[part]
    if others > 0:
        return 0
    low, last, now = pending(moment.runs)
    high = max(high, last)
    if low < steps.parts.begin[part] and high < steps.parts.end[part]:
        return 0
    skipped, goes_on = 0, False
    if high < steps.parts.end[part]:
        mark(moment, steps)
        until = min(high + steps.parts.reach[part] + 1, steps.parts.end[part])
        earlier = -1
        if describe(moment, steps, (low, high, until), done, now):
            earlier = equal_state(steps, len(moment.media.free) + len(steps.parts.lanes))
            goes_on = earlier < 0
        if earlier >= 0:
            jump = jump_of(moment, steps, earlier)
            if jump.periods > 0:
                skipped = advance(moment, steps, jump)
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
    moment: Moment, steps: Steps, rows: tuple[Index, Index, Index], done: Index, now: float
) -> bool:
    """Append the state to those that are kept; returns whether there is room. `rows` are the first
    operation with an event, the last that has begun, and the end of those that wait for them."""
    states, times, row = steps.states, moment.times, steps.at[ROWS]
    media, places = moment.media, len(moment.media.free) + len(steps.parts.lanes)
    low, high, until = rows
    at = steps.rows[row]
    if row + 2 > len(steps.rows) or at + HEAD + 5 * places + until - low > len(states):
        return False
    states[at + DONE], states[at + NOW] = done, now
    states[at + LOW], states[at + HIGH] = low, high
    rounds = done // steps.parts.width[steps.at[PART]]
    node, first = rounds * nodes_of(moment, steps), rounds * steps.parts.width[steps.at[PART]]
    at += HEAD
    for k in range(len(media.free)):
        describe_turn(media, k, states, at + k, places, now, node)
    for k in range(len(steps.parts.lanes)):
        place = at + len(media.free) + k
        describe_turn(moment.lanes, steps.parts.lanes[k], states, place, places, now, node)
    at += 5 * places
    for i in range(low, until):
        states[at + i - low] = moment.waiting[i] if steps.hop[i] == 0 else -1.0
    at += until - low
    for i in range(low, until):
        hop, ready = steps.hop[i], times.ready[i]
        if hop == 0 and (moment.waiting[i] == 0 or ready <= now):
            continue
        if at + ENTRY > len(states):
            return False
        states[at + OPERATION], states[at + HOP] = i - first, hop
        states[at + READY] = ready - now
        states[at + EVENT] = steps.time[i] - now if hop > 0 else 0.0
        states[at + FINISH] = times.finish[i] - now if hop > 1 else 0.0
        at += ENTRY
    steps.rows[row + 1] = at
    steps.at[ROWS] = row + 1
    return True


def nodes_of(moment: Moment, steps: Steps) -> Index:
    """The nodes of as many operations as the part is wide."""
    nodes, begin = moment.work.routes.nodes, steps.parts.begin[steps.at[PART]]
    return nodes[begin + steps.parts.width[steps.at[PART]]] - nodes[begin]


def describe_turn(
    turns: Turns, k: Index, states: Floats, at: Index, places: Index, now: float, node: Index
) -> None:
    """Write the holder of a medium or lane, until when it is held, and the last arrival; then how
    long it is held, and by whom as seen from `node`."""
    left = max(turns.free[k] - now, 0.0)
    states[at], states[at + places] = turns.holder[k], turns.free[k]
    states[at + 2 * places], states[at + 3 * places] = turns.last[k], left
    states[at + 4 * places] = turns.holder[k] - node if left > 0.0 else 0.0


def equal_state(steps: Steps, places: Index) -> int:
    """The latest state that is equal to the last one, or -1."""
    states, last = steps.states, steps.at[ROWS] - 1
    begin, end = steps.rows[last] + HEAD + 3 * places, steps.rows[last + 1]
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


def jump_of(moment: Moment, steps: Steps, earlier: Index) -> Jump:
    """The furthest way to go on within the part, given that the last state is an earlier one."""
    part, last, states = steps.at[PART], steps.at[ROWS] - 1, steps.states
    first, now, width = steps.rows[earlier], steps.rows[last], steps.parts.width[steps.at[PART]]
    shift = np.int64(states[now + DONE] - states[first + DONE])
    seconds = states[now + NOW] - states[first + NOW]
    # The last operations are not skipped: what comes after the part waits for them.
    most = steps.parts.end[part] - 1 - steps.parts.reach[part] - width
    row = last
    periods = (most - np.int64(states[now + HIGH])) // shift
    for k in range(earlier + 1, last):
        if states[steps.rows[k] + HIGH] + (periods + 1) * shift <= most:
            row = k
    if periods < 0 or steps.rows[last + 1] - now > ENTRY * ROOM // 4:  # that would take long
        row, periods = last, 0
    if row < last:
        periods += 1
    return Jump(earlier, row, periods, shift, seconds, shift // width * nodes_of(moment, steps))


def advance(moment: Moment, steps: Steps, jump: Jump) -> int:
    """Bring a run to where it is after the jump; returns how many operations are done thereby."""
    states, last = steps.states, steps.rows[steps.at[ROWS] - 1]
    low, high = np.int64(states[last + LOW]), np.int64(states[last + HIGH])
    for i in range(low, high + 1):
        if steps.hop[i] == 0 and moment.waiting[i] == 0:
            steps.hop[i] = -1
    moved, end = jump.periods * jump.shift, steps.parts.end[steps.at[PART]]
    row, until = steps.rows[jump.row], np.int64(states[steps.rows[jump.row] + HIGH]) + moved + 1
    for i in range(low, until):
        if (i > high or steps.hop[i] >= 0) and is_done(moment, steps, jump, i - moved):
            moment.times.finish[i] = moment.times.finish[i - jump.shift] + jump.seconds
            release(moment, i, end)
            if steps.fills:
                if steps.hop[i] < 2:
                    ready = moment.times.ready[i - jump.shift] + jump.seconds
                    moment.times.ready[i] = ready
                nodes = moment.work.routes.nodes[i + 1] - moment.work.routes.nodes[i]
                fill(moment, jump, i, max(0, steps.hop[i] - 1), nodes)
    media, count = moment.media, len(moment.media.free)
    places = count + len(steps.parts.lanes)
    for k in range(count):
        advance_turn(media, k, steps, jump, k, places)
    for k in range(len(steps.parts.lanes)):
        advance_turn(moment.lanes, steps.parts.lanes[k], steps, jump, count + k, places)
    restore(moment, steps, jump)
    return int(states[row + DONE] - states[last + DONE] + moved)


def waiting_of(moment: Moment, steps: Steps, row: Index) -> Index:
    """Where a state has for how many operations others wait."""
    return steps.rows[row] + HEAD + 5 * (len(moment.media.free) + len(steps.parts.lanes))


def is_done(moment: Moment, steps: Steps, jump: Jump, i: Index) -> bool:
    """Whether an operation is done in the state to which the jump leads."""
    low = np.int64(steps.states[steps.rows[jump.row] + LOW])
    if i < low:
        return True
    return bool(steps.states[waiting_of(moment, steps, jump.row) + i - low] == 0.0)


def release(moment: Moment, i: Index, end: Index) -> None:
    """Let operations behind a part wait no more for an operation of it."""
    for k in range(moment.successors.indptr[i], moment.successors.indptr[i + 1]):
        j = moment.successors.indices[k]
        if j >= end:
            moment.waiting[j] -= 1
            moment.times.ready[j] = max(moment.times.ready[j], moment.times.finish[i])


def fill(moment: Moment, jump: Jump, i: Index, hop: Index, until: Index) -> None:
    """Fill in when nodes of an operation start, from one hop to another."""
    times, first = moment.times, moment.work.routes.nodes[i]
    for node in range(first + hop, first + until):
        cause = times.cause[node - jump.nodes]
        times.start[node] = times.start[node - jump.nodes] + jump.seconds
        times.cause[node] = cause + jump.nodes if cause >= 0 else cause


def advance_turn(
    turns: Turns, k: Index, steps: Steps, jump: Jump, place: Index, places: Index
) -> None:
    """Bring a medium or lane, which states have at a place, to where it is after the jump."""
    last = steps.at[ROWS] - 1
    earlier = steps.states[steps.rows[jump.earlier] + HEAD + place]
    row, periods = jump.row, jump.periods
    if row < last and steps.states[steps.rows[row] + HEAD + place] == earlier:
        # It is as at the end of the period before.
        row, periods = last, periods - 1
    at = steps.rows[row] + HEAD + place
    if steps.states[at] != earlier:
        turns.holder[k] = np.int64(steps.states[at]) + periods * jump.nodes
        turns.free[k] = steps.states[at + places] + periods * jump.seconds
        turns.last[k] = steps.states[at + 2 * places] + periods * jump.seconds


def restore(moment: Moment, steps: Steps, jump: Jump) -> None:
    """Let operations wait, and events come, as in the state to which the jump leads."""
    states, times, runs = steps.states, moment.times, moment.runs
    row, part, at = steps.rows[jump.row], steps.at[PART], waiting_of(moment, steps, jump.row)
    low, moved = np.int64(states[row + LOW]), jump.periods * jump.shift
    until = min(np.int64(states[row + HIGH]) + steps.parts.reach[part] + 1, steps.parts.end[part])
    for i in range(low, until):
        moment.waiting[i + moved] = max(0.0, states[at + i - low])
    for run in range(runs.used[0]):
        runs.ends[run, 0], runs.ends[run, 1] = 0, 0
        runs.heads[run], runs.tails[run] = np.inf, -np.inf
    now = states[row + NOW] + jump.periods * jump.seconds
    first = (
        np.int64(states[row + DONE]) // steps.parts.width[part] * steps.parts.width[part] + moved
    )
    for place in range(at + until - low, steps.rows[jump.row + 1], ENTRY):
        i, hop = np.int64(states[place + OPERATION]) + first, np.int64(states[place + HOP])
        times.ready[i] = now + states[place + READY]
        if hop > 1:
            times.finish[i] = now + states[place + FINISH]
            if steps.fills:
                fill(moment, jump, i, max(0, steps.hop[i] - 1), hop - 1)
        if hop > 0:
            node = moment.work.routes.nodes[i] + hop - 1
            insert(runs, now + states[place + EVENT], node, i)


def insert(runs: Runs, time: float, node: Index, operation: Index) -> None:
    """Insert an event into the first run."""
    place = runs.ends[0, 1]
    while place > 0 and (
        runs.time[0, place - 1] > time
        or (runs.time[0, place - 1] == time and runs.node[0, place - 1] > node)
    ):
        runs.time[0, place], runs.node[0, place] = runs.time[0, place - 1], runs.node[0, place - 1]
        runs.operation[0, place] = runs.operation[0, place - 1]
        place -= 1
    runs.time[0, place], runs.node[0, place] = time, node
    runs.operation[0, place] = operation
    runs.ends[0, 1] += 1
    runs.heads[0], runs.tails[0] = runs.time[0, 0], runs.time[0, runs.ends[0, 1] - 1]
