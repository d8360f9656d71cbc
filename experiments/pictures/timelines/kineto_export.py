"""A training run or a step of a plan as Kineto traces, a file a rank, which HolisticTraceAnalysis
reads."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from experiments.answer_files import ALL, TraceChoice
from experiments.output import provenance
from experiments.pictures.timelines.chrome_trace import (
    EVENTS,
    Nanoseconds,
    complete_events,
    document,
    nanoseconds,
)
from experiments.pictures.timelines.spans import Columns
from experiments.pictures.timelines.step_spans import StepSpans
from experiments.pictures.timelines.timeline_file import kineto_name
from simulator.steps.kinds import RESTART
from simulator.training.model import WIDTHS
from topologies.errors import InputError
from topologies.topology import Floats

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
    parts = {worker: boxes.take(workers == worker) for worker in set(step.worker_of[chosen])}
    texts = {worker: _texts(step, part) for worker, part in parts.items()}
    for rank in chosen:
        worker, groups = step.worker_of[rank], dict[str, dict[str, object]]()
        for kind, every in step.groups.items():
            row = int(np.flatnonzero((every == rank).any(axis=1))[0])
            # A strategy has one group for each lane, which is called by its number as in torch.
            name = str(step.graph.lanes.index(kind)) if step.what == "rank" else f"{kind} {row}"
            ranks = every[row].tolist()
            groups[kind] = {"pg_name": name, "pg_desc": kind, "pg_size": len(ranks)}
            groups[kind]["ranks"] = ranks
        job = {
            "backend": "nccl",
            "rank": rank,
            "world_size": len(step.worker_of),
            "pg_count": len(groups),
            "pg_config": [*groups.values()],
        }
        names = {kind: str(group["pg_name"]) for kind, group in groups.items()}
        events = _events(step, parts[worker], worker, rank, texts[worker], names)
        files[kineto_name(rank)] = _document(job, device, events, about)
    return files


def _kernels(step: StepSpans) -> Columns:
    """The kernels of all workers; a message to another worker is at both of its ends."""
    boxes = step.device_boxes
    restarts = step.graph.kind[boxes.task] == RESTART
    boxes = boxes.take((step.places[boxes.row] < step.workers) & ~restarts)
    received = boxes.take(boxes.peer >= 0)
    row = np.searchsorted(step.places, received.peer).astype(np.int32)
    return Columns.behind(boxes, received._replace(row=row))


def _texts(step: StepSpans, boxes: Columns) -> list[tuple[str, str, str]]:
    """The name, the args and the kind of group of each kernel of a worker, the first two as
    JSON."""
    graph, rows, calls = step.graph, [("", "", "")] * len(boxes.row), dict[int, int]()
    width, tasks = WIDTHS.get(step.dtype, 1), boxes.task.tolist()
    for row in np.argsort(boxes.task, kind="stable").tolist():
        task, lane = tasks[row], int(boxes.lane[row])
        phase, (collective, group) = step.names[step.phase[task]], step.communication(task)
        if not group:
            layer = int(graph.layer[task])
            rows[row] = json.dumps(phase + f", layer {layer}" * (layer >= 0)), "", ""
            continue
        kernel, word = KERNELS.get(collective, ("SendRecv", collective))
        elements = round(float(graph.nbytes[task]) / width)
        size = step.groups[group].shape[1] if group in step.groups else 2
        args: dict[str, object] = {
            "phase": phase,
            "Collective name": word,
            "In msg nelems": elements // size if kernel == "AllGather" else elements,
            "Out msg nelems": elements // size if kernel == "ReduceScatter" else elements,
            "Group size": size,
            "dtype": DTYPES.get(step.dtype, step.dtype),
            "Process Group Description": group,
        }
        if collective in KERNELS and word != "send":
            args["Seq"] = calls[lane] = calls.get(lane, -1) + 1
        rows[row] = json.dumps(f"ncclDevKernel_{kernel}"), ", " + json.dumps(args)[1:-1], group
    return rows


def _events(
    step: StepSpans,
    boxes: Columns,
    worker: int,
    rank: int,
    texts: Sequence[tuple[str, str, str]],
    names: Mapping[str, str],
) -> list[str]:
    """The steps of a rank, each from the end of the step before, and its kernels, each after its
    launch: at its start, but before the end of the last step. A plan has a step for the whole
    run."""
    numbers = step.numbers.tolist()
    ends: Nanoseconds | Floats = nanoseconds(step.ends[:, worker])
    start, end = nanoseconds(boxes.start), nanoseconds(boxes.end)
    launch = np.minimum(start, max(0, int(ends[-1]) - 1))
    if step.what != "rank":
        numbers, ends = [0], np.array([step.timeline.makespan * 1e9])
    steps = [
        f'"cat": "user_annotation", "name": "ProfilerStep#{number}", "args": {{}}'
        for number in numbers
    ]
    launches, kernels, streams = list[str](), list[str](), boxes.lane + STREAM
    rows = zip(texts, streams.tolist(), step.first[boxes.task].tolist(), strict=True)
    for (name, args, kind), stream, number in rows:
        link = f'"correlation": {2 * number + bool(args)}'
        if args:
            args += f', "Process Group Name": "{names.get(kind, kind)}"'
        launches.append(f'"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {{{link}}}')
        about = f'"device": {rank}, "stream": {stream}, {link}{args}'
        kernels.append(f'"cat": "kernel", "name": {name}, "args": {{{about}}}')
    launched = complete_events(rank, 1, launch, launch, launches)
    run = complete_events(rank, streams, start, end, kernels)
    return [
        *complete_events(rank, 1, np.append(0, ends[:-1]), ends, steps),
        *chain(*zip(launched, run, strict=True)),
    ]


def _document(
    job: Mapping[str, object], device: str, events: Sequence[str], about: Mapping[str, object]
) -> bytes:
    """A trace of events, gzipped. HolisticTraceAnalysis looks for the text `"rank": N` within a
    line."""
    head = {
        "schemaVersion": 1,
        "distributedInfo": job,
        "deviceProperties": [{"id": job["rank"], "name": device or "GPU"}],
        "baseTimeNanoseconds": 0,
    }
    return gzip.compress(document(head, about, events).encode(), compresslevel=6, mtime=0)
