"""A training run as Kineto traces, a file a worker, which HolisticTraceAnalysis reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain

import numpy as np

from experiments.output import provenance
from experiments.pictures.timelines.kineto_document import (
    COLLECTIVES,
    DTYPES,
    document,
    events,
    group_record,
    job_record,
    step_event,
)
from experiments.pictures.timelines.trace_file import EVENTS
from experiments.pictures.timelines.trace_folder import kineto_name
from experiments.pictures.timelines.trace_slices import microseconds, nanoseconds
from experiments.pictures.timelines.tracks import (
    Boxes,
    box_bytes,
    communications,
    computations,
    kind_of,
    lane_name,
)
from experiments.trace_choice import ALL, TraceChoice
from simulator.schedules.timeline import Timeline
from simulator.training.model import WIDTHS
from simulator.training.plan import RESTART, Plan
from topologies.errors import InputError


def kineto_files(
    plan: Plan, timeline: Timeline, parameters: object, choice: TraceChoice = ALL
) -> dict[str, bytes]:
    """The trace of each chosen worker by its name, gzipped JSON.

    A computation or communication is a kernel on a stream. It is launched when it begins, within
    the steps of its worker, and the launch has no duration. A restart is no kernel. Steps are
    `ProfilerStep#n`. Communications have the args that Kineto gives
    NCCL's kernels. Times are microseconds, on a grid of nanoseconds. Raises InputError if the
    traces have more than a million kernels.
    """
    chosen = choice.of(plan.workers, "workers")
    talks, tasks = communications(plan, timeline), _kernels(plan, timeline)
    talks, tasks = (boxes.take(np.isin(boxes.rank, chosen)) for boxes in (talks, tasks))
    number = len(talks.rank) + len(tasks.rank)
    if number > EVENTS:
        raise InputError(
            f"the traces have {number} kernels, at most {EVENTS}: take fewer steps or workers"
        )
    about = json.loads(provenance()) | {"parameters": parameters}
    names = [json.dumps(phase) for phase in timeline.schedule.phases]
    kernels = [(names[phase], "") for phase in tasks.phase.tolist()]
    args, last = _collectives(plan, timeline, talks), timeline.finish[plan.ends[-1]].tolist()
    everyone = [*range(plan.workers)]
    lanes = sorted({*plan.spans.lane.tolist()})
    groups = [group_record(str(lane), lane_name(plan, lane), everyone) for lane in lanes]
    return {
        kineto_name(worker): document(
            job_record(worker, plan.workers, groups),
            plan.model.device,
            chain(
                _steps(plan, timeline, worker),
                events(tasks, worker, last[worker], kernels),
                events(talks, worker, last[worker], args),
            ),
            about,
        )
        for worker in chosen
    }


def _kernels(plan: Plan, timeline: Timeline) -> Boxes:
    boxes = computations(plan, timeline)
    phases = timeline.schedule.phases
    kept = [
        rank < plan.workers and phases[phase] != RESTART
        for rank, phase in zip(boxes.rank.tolist(), boxes.phase.tolist(), strict=True)
    ]
    return boxes.take(np.array(kept, dtype=np.bool_))


def _collectives(plan: Plan, timeline: Timeline, talks: Boxes) -> list[tuple[str, str]]:
    """The name of each communication's kernel, and its args, as JSON."""
    dtype, numbers = plan.model.gradient_dtype, _numbers(plan)
    rows = []
    for lane, phase, first, size in zip(
        talks.lane.tolist(),
        talks.phase.tolist(),
        talks.first.tolist(),
        box_bytes(timeline.schedule, talks),
        strict=True,
    ):
        name = timeline.schedule.phases[phase]
        kernel, collective = COLLECTIVES.get(kind_of(name), ("SendRecv", kind_of(name)))
        args: dict[str, object] = {"phase": name, "Collective name": collective}
        if size is not None:
            elements = round(size / WIDTHS[dtype])
            share = elements // plan.workers
            args["In msg nelems"] = share if kernel == "AllGather" else elements
            args["Out msg nelems"] = share if kernel == "ReduceScatter" else elements
            args |= {"Group size": plan.workers, "dtype": DTYPES.get(dtype, dtype)}
        args |= {
            "Process Group Name": str(lane),
            "Process Group Description": lane_name(plan, lane),
        }
        if kernel != "SendRecv":
            args["Seq"] = numbers[first]
        rows.append((json.dumps(f"ncclDevKernel_{kernel}"), ", " + json.dumps(args)[1:-1]))
    return rows


def _numbers(plan: Plan) -> dict[int, int]:
    """By the first operation of a communication: how many of its rank and lane come before it."""
    rank, lane, first, _ = plan.spans
    order = np.lexsort((first, lane, rank))
    begins = np.flatnonzero(
        (np.diff(rank[order], prepend=-1) != 0) | (np.diff(lane[order], prepend=-1) != 0)
    )
    numbers = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    return dict(zip(first[order].tolist(), numbers.tolist(), strict=True))


def _steps(plan: Plan, timeline: Timeline, worker: int) -> Iterator[str]:
    """The steps of a worker, each from the end of the step before."""
    ends = nanoseconds(timeline.finish[plan.ends[:, worker]])
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
    for step, start, length in zip(
        plan.numbers.tolist(),
        microseconds(starts).tolist(),
        ((ends - starts) / 1000).tolist(),
        strict=True,
    ):
        yield step_event(step, worker, start, length)
