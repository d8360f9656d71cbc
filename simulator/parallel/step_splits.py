"""Steps of a plan with more places than devices: those of ranks that differ (stragglers, noise, a
rank that fails), and all ranks with every transfer.

The order on the lanes of a rank is that of a step in which all ranks are alike, as programs do not
change theirs. Every transfer says what the step leaves out: where streams share links, they wait
for each other, and a rank goes on when its own group ends, not the mean or last of all groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from simulator.kernels.records import Csr
from simulator.parallel.passes import COMPUTE
from simulator.parallel.step import Step
from simulator.schedules.routed import route
from simulator.schedules.semantics import WrongResult
from simulator.schedules.timeline import Timeline
from simulator.steps.group_meetings import meetings
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, RESTART
from simulator.steps.place_splits import TaskCopies, classes, expand, in_order, split
from simulator.steps.step_graph import COLUMNS, StepGraph
from simulator.steps.written import Written, write
from simulator.training.conditions import Conditions
from topologies.columns import ranges
from topologies.errors import InputError
from topologies.topology import Flags, Floats, Ints, Numbers


def place_of(step: Step, conditions: Conditions, steps: int) -> Numbers:
    """The place of each rank, if ranks that differ in so many steps have places of their own.

    Raises InputError for a rank or a step that does not exist.
    """
    ranks, failure = step.graph.ranks, conditions.failure
    factors = conditions.factors(len(conditions.attempts(steps)), ranks)
    _, colour = np.unique(np.append(factors, _calls(step), axis=0), axis=1, return_inverse=True)
    if failure is not None:
        failure.check(steps, ranks)
        colour[failure.rank] = -1
    return classes(step.graph, colour)


def split_step(step: Step, place_of: Numbers) -> Step:
    """The step with other places, that of each rank in `place_of`. All are as fast as before."""
    order = np.lexsort((step.timeline.finish, step.timeline.start))
    graph = in_order(step.graph, order)
    copies = TaskCopies(graph, place_of)
    action, device = copies.each(step.device)
    turn = np.append(np.argsort(order), -1)
    every = split(graph, place_of)
    if step.work.times.usual:
        called, leader = every.call >= 0, every.leaders[every.place]
        every.seconds[called] *= _calls(step)[every.call[called], leader[called]]

    def rows(tasks: Ints) -> Ints:
        task_of = copies.of(turn[tasks[action]], device[:, None])
        return np.asarray(np.where(tasks[action] < 0, -1, task_of), dtype=np.int32)

    return replace(
        step,
        graph=every,
        entries=rows(step.entries),
        tails=rows(step.tails),
        number=step.number[action],
        device=device.astype(np.int32),
    )


def chained(step: Step, conditions: Conditions, steps: int) -> Step:
    """So many steps of split places, and those that a failure repeats, one behind the other.

    What a place does first in a step waits for all that it does in the step before. In a step that
    fails, forwards are run with all that they wait for. When the failing rank has done that, all
    wait until that is noticed, and start again.
    """
    graph, attempts, failure = step.graph, conditions.attempts(steps), conditions.failure
    factors = conditions.factors(len(attempts), graph.ranks)[:, graph.leaders]
    later, every = graph.waiting, np.ones(len(graph), dtype=np.bool_)
    parts, actions, waits = list[dict[str, Any]](), list[Sequence[Ints]](), list[Numbers]()
    size, places = 0, np.arange(graph.places, dtype=np.int32)
    last, of_last = np.zeros((2, 0), dtype=np.int32)
    for number, attempt in enumerate(attempts):
        kept = _forwards(graph) if attempt.fails else every
        first, ends = _ends(graph, kept)
        # The number of each task behind all before; -1 for those that are not run, and for none.
        task = np.append(np.where(kept, size + np.cumsum(kept) - 1, -1), -1).astype(np.int32)
        waits.append(_pairs(task[first], graph.place[first], last, of_last))
        waits.append(task[np.stack((later, graph.indices))][:, kept[later]])
        slower = np.where(graph.lane == COMPUTE, factors[number, graph.place], 1.0)
        part = {name: getattr(graph, name)[kept] for name in COLUMNS}
        parts.append(part | {"seconds": (graph.seconds * slower)[kept], "step": number})
        run = np.all((step.tails < 0) | (task[step.tails] >= 0), axis=1)
        rows = task[step.entries], task[step.tails], step.number, step.device
        actions.append([each[run] for each in rows])
        size += int(kept.sum())
        last, of_last = task[ends], graph.place[ends]
        if attempt.fails and failure is not None:
            restarts, nowhere = size + places, np.zeros_like(places)
            restart = {"place": places, "lane": COMPUTE, "kind": RESTART, "step": number}
            restart["seconds"] = failure.timeout + failure.restart
            parts.append(dict.fromkeys(COLUMNS, -1) | restart)
            failed = last[of_last == graph.place_of[failure.rank]]
            waits.append(_pairs(restarts, places, last, of_last))
            waits.append(_pairs(restarts, nowhere, failed, np.zeros_like(failed)))
            size, last, of_last = size + len(places), restarts, places
    columns: dict[str, Any] = {
        name: np.concatenate(
            [np.broadcast_to(part[name], part["place"].shape) for part in parts], dtype=kind
        )
        for name, kind in COLUMNS.items()
    }
    later, earlier = np.concatenate(waits, axis=1)
    indptr, indices = Csr.of(later, earlier, size)
    entries, tails, numbers, device = map(np.concatenate, zip(*actions, strict=True))
    whole = replace(graph, **columns, indptr=indptr, indices=indices)
    return replace(step, graph=whole, entries=entries, tails=tails, number=numbers, device=device)


def _calls(step: Step) -> Floats:
    """The share of its time that each call takes in the group of each rank, if there are slow
    links, shape (calls, ranks)."""
    calls, times = step.graph.calls if step.work.times.usual else (), step.work.times
    shares = [times.by_rank(*call[:3]) for call in calls]
    return np.reshape(shares, (len(shares), step.graph.ranks))


def _forwards(graph: StepGraph) -> Flags:
    """Which tasks are forwards, or come before one. Each comes behind those that it waits for."""
    kept = np.asarray(graph.kind == FORWARD)
    for task in range(len(graph) - 1, -1, -1):
        if kept[task]:
            kept[graph.predecessors(task)] = True
    return kept


def _ends(graph: StepGraph, kept: Flags) -> tuple[Numbers, Numbers]:
    """The tasks that wait for none of their place, and those for which none of it waits."""
    later = graph.waiting
    inside = (graph.place[later] == graph.place[graph.indices]) & kept[later]
    first, last = kept.copy(), kept.copy()
    first[later[inside]] = False
    last[graph.indices[inside]] = False
    return np.flatnonzero(first), np.flatnonzero(last)


def _pairs(later: Ints, place: Ints, earlier: Ints, other: Ints) -> Numbers:
    """Each later task with all earlier ones of the same place, shape (2, pairs)."""
    order = np.argsort(other, kind="stable")
    begin, end = (np.searchsorted(other[order], place, side) for side in ("left", "right"))
    row, entry = ranges(begin, end - begin)
    return np.stack((later[row], earlier[order[entry]]))


def ranks_of(step: Step, *, ordered: bool = False) -> StepGraph:
    """What each rank of a plan does in a step, with the fastest algorithm of each collective. If it
    is `ordered`, tasks of a stream follow each other as they start in the step."""
    times, timeline = step.work.times, step.timeline
    graph = replace(step.graph, seconds=timeline.schedule.seconds)
    if ordered:
        graph = in_order(graph, np.lexsort((timeline.finish, timeline.start)))
    return expand(graph, lambda call: times.fastest(*call[:3]))


def write_transfers(step: Step, *, force: bool = False) -> Written:
    """The step with its transfers.

    Raises InputError if it has too many, unless by `force`, if it is written by passes, or if its
    collectives run under a profile; WrongResult if a micro-batch does not pass all stages.
    """
    if not all(each.ends for each in step.passes):
        raise InputError("the step is written by passes: write it by layers")
    if step.work.times.profile is not None:
        raise InputError(
            f"{step.work.times.profile.name} gives each collective a protocol with its own links: "
            f"leave out --detail transfers, or --library and --profile"
        )
    graph = ranks_of(step, ordered=True)
    prove_flow(graph)
    topology, degrees = step.work.times.topology, step.work.times.degrees
    machine = replace(topology, placement=topology.placement[: degrees.ranks])
    return write(graph, machine, distinct=True, force=force)


def prove_flow(graph: StepGraph) -> None:
    """Raise :class:`WrongResult` unless on each rank the forward of a stage waits for those of all
    stages before, and the backward for those of all stages behind it, of the same micro-batch. In
    the graph of ranks, each task comes behind those that it waits for."""
    stages = int(graph.stage.max(initial=0)) + 1
    reached = [0] * len(graph)
    """Of each task: bits of what it waits for. A micro-batch has a bit for the forward of each
    stage, then for the backward of each."""
    sends = {int(tasks[1]): int(tasks[0]) for call, _, tasks in meetings(graph) if call.is_message}
    micro, stage, kind = graph.micro.tolist(), graph.stage.tolist(), graph.kind.tolist()
    for task in range(len(graph)):
        for before in graph.predecessors(task).tolist():
            reached[task] |= reached[before]
        if task in sends:
            reached[task] |= reached[sends[task]]
        if micro[task] < 0 or kind[task] not in (FORWARD, BACKWARD, INPUTS):
            continue
        forward, place = kind[task] == FORWARD, stage[task]
        first = 2 * stages * micro[task] + stages * (not forward)
        others = range(place) if forward else range(place + 1, stages)
        if not all(reached[task] >> first + other & 1 for other in others):
            what = "activation" if forward else "gradient"
            raise WrongResult(f"the {what} of micro-batch {micro[task]} misses stage {place}")
        reached[task] |= 1 << first + place


def simulate(step: Step, written: Written) -> Timeline:
    """The step with its transfers, by the rules of its collectives."""
    return step.work.times.run(route(written.schedule, written.topology))
