"""A training run or a step of a plan as Kineto traces, a file a rank, which HolisticTraceAnalysis
reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import chain

import numpy as np

from experiments.output import provenance
from experiments.pictures.timelines.kineto_document import (
    DTYPES,
    KERNELS,
    document,
    events,
    group_record,
    job_record,
    step_event,
)
from experiments.pictures.timelines.step_spans import COPY, StepSpans
from experiments.pictures.timelines.trace_file import EVENTS
from experiments.pictures.timelines.trace_folder import kineto_name
from experiments.pictures.timelines.trace_slices import microseconds, nanoseconds
from experiments.pictures.timelines.tracks import Boxes
from experiments.trace_choice import ALL, TraceChoice
from simulator.steps.kinds import KINDS, RESTART
from simulator.training.model import WIDTHS
from topologies.errors import InputError


def kineto_files(
    step: StepSpans, device: str, parameters: Mapping[str, object], choice: TraceChoice = ALL
) -> dict[str, bytes]:
    """The trace of each chosen rank by its name, gzipped JSON.

    A computation or communication is a kernel on a stream. It is launched when it begins, within
    the steps of its worker, and the launch has no duration. A restart is no kernel. A message of a
    pipeline is a kernel of both ranks. Steps are `ProfilerStep#n`. Communications have the args
    that Kineto gives NCCL's kernels. Times are microseconds, on a grid of nanoseconds. Raises
    InputError if the traces have more than a million kernels.
    """
    chosen, boxes = choice.of(len(step.worker_of)), _kernels(step)
    each = np.bincount(boxes.rank, minlength=step.workers)
    number = int(each[step.worker_of[chosen]].sum())
    if number > EVENTS:
        raise InputError(
            f"the traces have {number} kernels, at most {EVENTS}: take fewer steps, micro-batches "
            f"or GPUs, or --ranks"
        )
    about, files = json.loads(provenance()) | {"parameters": dict(parameters)}, {}
    for worker in range(step.workers):
        mine, last = boxes.take(boxes.rank == worker), float(step.ends[-1, worker])
        kernels = _about(step, mine)
        for rank in (rank for rank in chosen if step.worker_of[rank] == worker):
            named, records = dict[str, str](), list[dict[str, object]]()
            for kind, groups in step.groups.items():
                row = int(np.flatnonzero((groups == rank).any(axis=1))[0])
                # A strategy has one group for each lane, which is called by its number as in torch.
                is_lane = step.what == "rank"
                named[kind] = str(step.lanes.index(kind)) if is_lane else f"{kind} {row}"
                records.append(group_record(named[kind], kind, groups[row].tolist()))
            lines = [
                (name, kind and f'{args}, "Process Group Name": "{named.get(kind, kind)}"')
                for name, args, kind in kernels
            ]
            rank_boxes = mine._replace(rank=np.full_like(mine.rank, rank))
            files[kineto_name(rank)] = document(
                job_record(rank, len(step.worker_of), records),
                device,
                chain(_steps(step, worker, rank), events(rank_boxes, rank, last, lines)),
                about,
            )
    return {kineto_name(rank): files[kineto_name(rank)] for rank in chosen}


def _kernels(step: StepSpans) -> Boxes:
    """The kernels of all workers; a message to another worker is at both of its ends."""
    boxes = step.device_boxes
    restarts = np.array([kind == KINDS[RESTART] for kind in step.kinds])[boxes.phase]
    boxes = boxes.take((boxes.rank < step.workers) & ~restarts)
    peer = step.graph.peer[step.tasks(boxes)]
    return boxes.joined(boxes.take(peer >= 0)._replace(rank=peer[peer >= 0]))


def _about(step: StepSpans, boxes: Boxes) -> list[tuple[str, str, str]]:
    """The name, the args and the kind of group of each kernel of a worker, the first two as
    JSON."""
    graph, rows, calls = step.graph, [("", "", "")] * len(boxes.rank), dict[int, int]()
    width, tasks = WIDTHS.get(step.dtype, 1), step.tasks(boxes).tolist()
    for row in np.argsort(boxes.first, kind="stable").tolist():
        task, lane = tasks[row], int(boxes.lane[row])
        phase, number = step.names[step.phase[task]], int(step.call[task])
        collective, group = step.calls[number] if number >= 0 else COPY
        if not group:
            layer = int(graph.layer[task])
            rows[row] = json.dumps(phase + f", layer {layer}" * (layer >= 0)), "", ""
            continue
        kernel, word = KERNELS.get(collective, ("SendRecv", collective))
        args: dict[str, object] = {"phase": phase, "Collective name": word}
        if graph.call[task] >= 0:
            elements = round(float(graph.nbytes[task]) / width)
            size = step.groups[group].shape[1] if group in step.groups else 2
            args["In msg nelems"] = elements // size if kernel == "AllGather" else elements
            args["Out msg nelems"] = elements // size if kernel == "ReduceScatter" else elements
            args |= {"Group size": size, "dtype": DTYPES.get(step.dtype, step.dtype)}
        args["Process Group Description"] = group
        if collective in KERNELS and word != "send":
            args["Seq"] = calls[lane] = calls.get(lane, -1) + 1
        rows[row] = json.dumps(f"ncclDevKernel_{kernel}"), ", " + json.dumps(args)[1:-1], group
    return rows


def _steps(step: StepSpans, worker: int, rank: int) -> Iterator[str]:
    """The steps of a worker, each from the end of the step before."""
    if step.what != "rank":
        yield step_event(0, rank, 0.0, step.timeline.makespan * 1e6)
        return
    ends = nanoseconds(step.ends[:, worker])
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
    times = microseconds(starts).tolist(), ((ends - starts) / 1000).tolist()
    for number, start, length in zip(step.numbers.tolist(), *times, strict=True):
        yield step_event(number, rank, start, length)
