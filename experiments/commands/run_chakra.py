"""`simctl run --chakra`: the workload of Chakra traces on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments import output
from experiments.models.accelerators import DEVICES, bandwidth, rate
from experiments.names import wait_records
from experiments.options.profile_options import SimulationOptions
from experiments.pages.reports.result import Result
from experiments.traces.chakra_workload import USUAL_ALGORITHMS, Roofline, read_workload
from simulator.analysis.critical_path import CriticalPath, critical_path, waits
from simulator.collectives import Algorithm, find
from simulator.schedules.timeline import Timeline, length, union
from simulator.steps.kinds import COMPUTATION, CPU
from simulator.steps.step_graph import StepGraph
from simulator.steps.written import Written, write
from topologies.errors import InputError

LONGEST = 5
"""Tasks of the critical path that are named."""
REMARKS = 3
"""Remarks on files that are printed."""
DTYPE = "bf16"
"""The dtype of computations that a trace gives as operations."""


def simulated(
    folder: Path, algorithms: Sequence[Algorithm], options: SimulationOptions
) -> tuple[Result, Timeline]:
    """The time of a workload and where it goes. `algorithms` are those that differ from the usual
    ones."""
    machine, rules = options.machine, options.rules
    roofline = roofline_of(DEVICES.get(machine.name))
    graph, remarks = read_workload(folder, usual_algorithms(algorithms), roofline)
    output.note(*remarks[:REMARKS])
    ranks = graph.ranks
    topology = machine.build(max(2, ranks))
    written = write(graph, topology, force=rules.force)
    result = rules.simulate(written.schedule, written.topology)
    records = _by_rank(graph, written, result)
    path = critical_path(result)
    behind = waits(result, path)
    report = {
        "time_s": result.makespan,
        "ranks": records,
        "communication": _by_kind(written, result),
        "critical_path_s": _by_phase(path, result),
        "longest": _longest(path, graph, written, result),
        "contention": wait_records(behind, result.schedule),
    }
    about = options.parameters, machine
    return Result("workload", report, records, *about, remarks=remarks), result


def roofline_of(device: str | None) -> Roofline | None:
    """Seconds of operations, and of the bytes that they read and write, on a device."""
    if device is None:
        return None
    reached, memory = rate(device, DTYPE), bandwidth(device)
    return lambda operations, nbytes: max(operations / reached, nbytes / memory)


def usual_algorithms(chosen: Sequence[Algorithm]) -> dict[str, Algorithm]:
    """The algorithm of each collective: the usual one, unless one of `chosen` is for it."""
    algorithms = {collective: find(name) for collective, name in USUAL_ALGORITHMS.items()}
    named = set[str]()
    for algorithm in chosen:
        collective = algorithm.collective.name
        if collective not in USUAL_ALGORITHMS or algorithm.servers:
            raise InputError(
                f"--algo {algorithm.name}: traces call {', '.join(USUAL_ALGORITHMS)}, without "
                f"servers"
            )
        if collective in named:
            raise InputError(f"--algo {algorithm.name}: name one algorithm of {collective}")
        named.add(collective)
        algorithms[collective] = algorithm
    return algorithms


def _by_rank(graph: StepGraph, written: Written, timeline: Timeline) -> list[output.Record]:
    """What each rank does. A rank communicates from when it enters a call until it leaves."""
    start, end = timeline.start[written.first], timeline.finish[written.last]
    ranks, kinds = graph.place, graph.kind
    records: list[output.Record] = []
    for rank in range(graph.ranks):
        mine = ranks == rank
        on_gpu, on_cpu = mine & (kinds == COMPUTATION), mine & (kinds == CPU)
        talks = mine & ~on_gpu & ~on_cpu
        computing, talking = (union(start[chosen], end[chosen]) for chosen in (on_gpu, talks))
        busy = length(union(*np.concatenate((computing, talking), axis=1)))
        records.append(
            {
                "rank": rank,
                "time_s": timeline.makespan,
                "ends_s": float(end[mine].max(initial=0.0)),
                "computing_s": length(computing),
                "hidden_s": length(computing) + length(talking) - busy,
                "exposed_s": busy - length(computing),
                "idle_s": timeline.makespan - busy,
                "cpu_s": length(union(start[on_cpu], end[on_cpu])),
            }
        )
    return records


def _by_kind(written: Written, timeline: Timeline) -> list[output.Record]:
    """The calls of each collective, and the messages: how many, their V, and how long they take
    from the first rank that enters to the last that leaves."""
    start, end = timeline.start[written.first], timeline.finish[written.last]
    rows = dict[str, list[tuple[float, float]]]()
    for call, _, tasks in written.meetings:
        if call.is_message:
            took = float(end[tasks[0]] - start[tasks[0]])
        else:
            took = float(end[tasks].max() - start[tasks].min())
        rows.setdefault("send" if call.is_message else call.collective, []).append(
            (call.nbytes, took)
        )
    return [
        {
            "collective": kind,
            "calls": len(pairs),
            "size_B": sum(size for size, _ in pairs),
            "time_s": sum(took for _, took in pairs),
            "longest_s": max(took for _, took in pairs),
        }
        for kind, pairs in rows.items()
    ]


def _by_phase(path: CriticalPath, timeline: Timeline) -> dict[str, float]:
    schedule = timeline.schedule
    seconds = np.bincount(schedule.phase[path.operation], path.seconds, len(schedule.phases))
    return {
        phase: took
        for phase, took in zip(schedule.phases, seconds.tolist(), strict=True)
        if took > 0
    }


def _longest(
    path: CriticalPath, graph: StepGraph, written: Written, timeline: Timeline
) -> list[output.Record]:
    """The tasks that the critical path spends most time in."""
    seconds = np.bincount(path.operation, path.seconds, len(timeline.schedule))
    took = np.where(np.isin(graph.kind, (COMPUTATION, CPU)), seconds[written.first], 0.0)
    return [
        {"task": graph.name(task), "rank": int(graph.place[task]), "seconds": float(took[task])}
        for task in np.argsort(-took, kind="stable")[:LONGEST].tolist()
        if took[task] > 0
    ]
