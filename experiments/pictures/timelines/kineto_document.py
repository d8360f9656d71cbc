"""Kineto's traces as text: kernels with their launches, steps, and the record of the job."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from experiments.pictures.timelines.trace_slices import microseconds, nanoseconds
from experiments.pictures.timelines.tracks import Boxes

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


def step_event(step: int, worker: int, start: float, length: float) -> str:
    """A step of a worker, in microseconds."""
    return (
        f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{step}", '
        f'"pid": {worker}, "tid": 1, "ts": {start}, "dur": {length}, "args": {{}}}}'
    )


def events(
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


def group_record(name: str, description: str, ranks: Sequence[int]) -> dict[str, object]:
    """A process group, as Kineto lists it."""
    return {
        "pg_name": name,
        "pg_desc": description,
        "pg_size": len(ranks),
        "ranks": list(ranks),
    }


def job_record(rank: int, ranks: int, groups: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Kineto's record of a rank's job."""
    return {
        "backend": "nccl",
        "rank": rank,
        "world_size": ranks,
        "pg_count": len(groups),
        "pg_config": list(groups),
    }


def document(
    job: Mapping[str, object], device: str, lines: Iterable[str], about: Mapping[str, object]
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
