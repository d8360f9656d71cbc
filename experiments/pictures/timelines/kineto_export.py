"""A training run as Kineto traces, a file a worker, which HolisticTraceAnalysis reads."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from experiments.output import provenance
from experiments.pictures.timelines.trace_file import EVENTS, microseconds, nanoseconds
from experiments.pictures.timelines.tracks import (
    Boxes,
    box_bytes,
    communications,
    computations,
    kind_of,
    lane_name,
)
from simulator.schedules.timeline import Timeline
from simulator.training.model import WIDTHS
from simulator.training.plan import RESTART, Plan
from topologies.errors import InputError

STREAM = 7
"""The CUDA stream of a worker's main lane. Lane k is stream 7 + k."""
COLLECTIVES = {
    "all-reduce": ("AllReduce", "allreduce"),
    "all-gather": ("AllGather", "_allgather_base"),
    "reduce-scatter": ("ReduceScatter", "_reduce_scatter_base"),
    "broadcast": ("Broadcast", "broadcast"),
}
"""By the first word of a phase: the word in the name of NCCL's kernel, and Kineto's collective. All
other communication is called SendRecv."""
DTYPES = {"fp64": "Double", "fp32": "Float", "fp16": "Half", "bf16": "BFloat16", "fp8": "Byte"}
"""Kineto's names of types."""


def file_name(worker: int) -> str:
    """The name of a worker's trace."""
    return f"rank{worker}.json.gz"


def kineto_files(plan: Plan, timeline: Timeline, parameters: object) -> dict[str, bytes]:
    """The trace of each worker by its name, gzipped JSON.

    A computation or communication is a kernel on a stream. It is launched when it begins, within
    the steps of its worker, and the launch has no duration. A restart is no kernel. Steps are
    `ProfilerStep#n`. Communications have the args that Kineto gives
    NCCL's kernels. Times are microseconds, on a grid of nanoseconds. Raises InputError if the
    traces have more than a million kernels.
    """
    talks, tasks = communications(plan, timeline), _kernels(plan, timeline)
    number = len(talks.rank) + len(tasks.rank)
    if number > EVENTS:
        raise InputError(
            f"the traces have {number} kernels, at most {EVENTS}: take fewer steps or workers"
        )
    about = json.loads(provenance()) | {"parameters": parameters}
    names = [json.dumps(phase) for phase in timeline.schedule.phases]
    kernels = [(names[phase], "") for phase in tasks.phase.tolist()]
    args, last = _collectives(plan, timeline, talks), timeline.finish[plan.ends[-1]].tolist()
    return {
        file_name(worker): _trace(
            plan,
            worker,
            chain(
                _steps(plan, timeline, worker),
                _events(tasks, worker, last[worker], kernels),
                _events(talks, worker, last[worker], args),
            ),
            about,
        )
        for worker in range(plan.workers)
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
        yield (
            f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{step}", '
            f'"pid": {worker}, "tid": 1, "ts": {start}, "dur": {length}, "args": {{}}}}'
        )


def _events(
    boxes: Boxes, worker: int, last: float, about: Sequence[tuple[str, str]]
) -> Iterator[str]:
    """The kernels of a worker, each after its launch: at its start, but before `last`. `about` has
    the name and args of every box."""
    chosen = np.flatnonzero(boxes.rank == worker)
    start, end = nanoseconds(boxes.start[chosen]), nanoseconds(boxes.end[chosen])
    launch = np.minimum(start, max(0, round(last * 1e9) - 1))
    for row, lane, number, launched, begin, length in zip(
        chosen.tolist(),
        boxes.lane[chosen].tolist(),
        boxes.first[chosen].tolist(),
        microseconds(launch).tolist(),
        microseconds(start).tolist(),
        ((end - start) / 1000).tolist(),
        strict=True,
    ):
        name, args = about[row]
        link = f'"correlation": {2 * number + bool(args)}'
        yield (
            f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": {worker}, '
            f'"tid": 1, "ts": {launched}, "dur": 0, "args": {{{link}}}}}'
        )
        yield (
            f'{{"ph": "X", "cat": "kernel", "name": {name}, "pid": {worker}, '
            f'"tid": {STREAM + lane}, "ts": {begin}, "dur": {length}, '
            f'"args": {{"device": {worker}, "stream": {STREAM + lane}, {link}{args}}}}}'
        )


def _trace(plan: Plan, worker: int, events: Iterator[str], about: Mapping[str, object]) -> bytes:
    """HolisticTraceAnalysis looks for the text `"rank": N` within a line."""
    lanes = sorted({*plan.spans.lane.tolist()})
    everyone = list(range(plan.workers))
    groups = [
        {
            "pg_name": str(lane),
            "pg_desc": lane_name(plan, lane),
            "pg_size": plan.workers,
            "ranks": everyone,
        }
        for lane in lanes
    ]
    job = {
        "backend": "nccl",
        "rank": worker,
        "world_size": plan.workers,
        "pg_count": len(groups),
        "pg_config": groups,
    }
    device = {"id": worker, "name": plan.model.device or "GPU"}
    lines = ",\n".join(events)
    text = (
        f'{{"schemaVersion": 1,\n"distributedInfo": {json.dumps(job)},\n'
        f'"deviceProperties": [{json.dumps(device)}],\n"displayTimeUnit": "ms",\n'
        f'"baseTimeNanoseconds": 0,\n"otherData": {json.dumps(about)},\n'
        f'"traceEvents": [\n{lines}\n]}}\n'
    )
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)
