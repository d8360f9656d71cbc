"""A step of a plan with every transfer of all ranks.

It says what the step leaves out: where streams share links, they wait for each other, and a rank
goes on when its own group ends, not the last of all groups.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulator.parallel.step import Step
from simulator.schedules.routed import route
from simulator.schedules.semantics import WrongResult
from simulator.schedules.timeline import Timeline
from simulator.steps.group_meetings import meetings
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS
from simulator.steps.place_splits import expand, in_order
from simulator.steps.step_graph import StepGraph
from simulator.steps.written import Written, write
from topologies.errors import InputError


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
