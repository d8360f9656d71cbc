"""A training run or a step of a plan as Kineto traces, a file a rank, which HolisticTraceAnalysis
reads."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from experiments.output import provenance
from experiments.pictures.timelines.chrome_trace import EVENTS, microseconds, nanoseconds
from experiments.pictures.timelines.spans import Columns
from experiments.pictures.timelines.step_spans import COPY, StepSpans
from experiments.pictures.timelines.timeline_file import kineto_name
from experiments.trace_choice import ALL, TraceChoice
from simulator.steps.kinds import KINDS, RESTART
from simulator.training.model import WIDTHS
from topologies.errors import InputError

STREAM = 7
"""The CUDA stream of a worker's main lane. Lane k is stream 7 + k."""
KERNELS = {
    "all_reduce": ("AllReduce", "allreduce"),
    "all_gather": ("AllGather", "_allgather_base"),
    "reduce_scatter": ("ReduceScatter", "_reduce_scatter_base"),
    "broadcast": ("Broadcast", "broadcast"),
    "shift": ("SendRecv", "send"),
    **dict.fromkeys(("all_to_all", "dispatch", "combine"), ("SendRecv", "all_to_allv")),
}
"""By collective: the word in the name of NCCL's kernel, and Kineto's collective. All other
communication is called SendRecv."""
DTYPES = {
    "": "Byte",
    "fp64": "Double",
    "fp32": "Float",
    "fp16": "Half",
    "bf16": "BFloat16",
    "fp8": "Byte",
}
"""Kineto's names of types."""


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
    workers = step.places[boxes.row]
    number = int(np.bincount(workers, minlength=step.workers)[step.worker_of[chosen]].sum())
    if number > EVENTS:
        raise InputError(
            f"the traces have {number} kernels, at most {EVENTS}: take fewer steps, micro-batches "
            f"or GPUs, or --ranks"
        )
    about, files = json.loads(provenance()) | {"parameters": dict(parameters)}, {}
    for worker in np.unique(step.worker_of[chosen]).tolist():
        mine = boxes.take(workers == worker)
        kernels = _about(step, mine)
        for rank in (rank for rank in chosen if step.worker_of[rank] == worker):
            named, groups = dict[str, str](), list[dict[str, object]]()
            for kind, every in step.groups.items():
                row = int(np.flatnonzero((every == rank).any(axis=1))[0])
                # A strategy has one group for each lane, which is called by its number as in torch.
                is_lane, ranks = step.what == "rank", every[row].tolist()
                named[kind] = str(step.lanes.index(kind)) if is_lane else f"{kind} {row}"
                record = {"pg_name": named[kind], "pg_desc": kind, "pg_size": len(ranks)}
                groups.append({**record, "ranks": ranks})
            lines = [
                (name, kind and f'{args}, "Process Group Name": "{named.get(kind, kind)}"')
                for name, args, kind in kernels
            ]
            job = {
                "backend": "nccl",
                "rank": rank,
                "world_size": len(step.worker_of),
                "pg_count": len(groups),
                "pg_config": groups,
            }
            events = *_steps(step, worker, rank), *_events(step, mine, worker, rank, lines)
            files[kineto_name(rank)] = _document(job, device, events, about)
    return {kineto_name(rank): files[kineto_name(rank)] for rank in chosen}


def _kernels(step: StepSpans) -> Columns:
    """The kernels of all workers; a message to another worker is at both of its ends."""
    boxes = step.device_boxes
    restarts = np.array([kind == KINDS[RESTART] for kind in step.kinds])[boxes.name]
    boxes = boxes.take((step.places[boxes.row] < step.workers) & ~restarts)
    received = boxes.take(boxes.peer >= 0)
    row = np.searchsorted(step.places, received.peer).astype(np.int32)
    return Columns.behind(boxes, received._replace(row=row))


def _about(step: StepSpans, boxes: Columns) -> list[tuple[str, str, str]]:
    """The name, the args and the kind of group of each kernel of a worker, the first two as
    JSON."""
    graph, rows, calls = step.graph, [("", "", "")] * len(boxes.row), dict[int, int]()
    width, tasks = WIDTHS.get(step.dtype, 1), boxes.task.tolist()
    for row in np.argsort(boxes.task, kind="stable").tolist():
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
    """The steps of a worker, each from the end of the step before; of a plan one that lasts for
    the whole run."""
    numbers, ends = step.numbers.tolist(), nanoseconds(step.ends[:, worker])
    starts = np.append(0, ends[:-1])
    times = microseconds(starts).tolist(), ((ends - starts) / 1000).tolist()
    if step.what != "rank":
        numbers, times = [0], ([0.0], [step.timeline.makespan * 1e6])
    for number, start, length in zip(numbers, *times, strict=True):
        yield (
            f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{number}", '
            f'"pid": {rank}, "tid": 1, "ts": {start}, "dur": {length}, "args": {{}}}}'
        )


def _events(
    step: StepSpans, boxes: Columns, worker: int, rank: int, about: Sequence[tuple[str, str]]
) -> Iterator[str]:
    """The kernels of a rank, each after its launch: at its start, but before the end of the last
    step. `about` has the name and args of every kernel."""
    start, end = nanoseconds(boxes.start), nanoseconds(boxes.end)
    launch = np.minimum(start, max(0, round(float(step.ends[-1, worker]) * 1e9) - 1))
    times = microseconds(launch), microseconds(start), (end - start) / 1000
    columns = boxes.lane + STREAM, step.first[boxes.task], *times
    rows = zip(about, *(column.tolist() for column in columns), strict=True)
    for (name, args), stream, number, launched, begin, length in rows:
        link = f'"correlation": {2 * number + bool(args)}'
        yield (
            f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": {rank}, '
            f'"tid": 1, "ts": {launched}, "dur": 0, "args": {{{link}}}}}'
        )
        yield (
            f'{{"ph": "X", "cat": "kernel", "name": {name}, "pid": {rank}, '
            f'"tid": {stream}, "ts": {begin}, "dur": {length}, '
            f'"args": {{"device": {rank}, "stream": {stream}, {link}{args}}}}}'
        )


def _document(
    job: Mapping[str, object], device: str, lines: Sequence[str], about: Mapping[str, object]
) -> bytes:
    """A trace of events, gzipped. HolisticTraceAnalysis looks for the text `"rank": N` within a
    line."""
    properties = {"id": job["rank"], "name": device or "GPU"}
    listed = ",\n".join(lines)
    text = (
        f'{{"schemaVersion": 1,\n"distributedInfo": {json.dumps(job)},\n'
        f'"deviceProperties": [{json.dumps(properties)}],\n"displayTimeUnit": "ms",\n'
        f'"baseTimeNanoseconds": 0,\n"otherData": {json.dumps(about)},\n'
        f'"traceEvents": [\n{listed}\n]}}\n'
    )
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)
