"""Traces of the ranks of a job, written by a test."""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def kernel(start: float, length: float, name: str = "gemm", **args: object) -> dict[str, Any]:
    """A kernel, in microseconds."""
    about = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "args": {"stream": 7, **args}}
    return {**about, "name": name, "ts": start, "dur": length}


def all_reduce(start: float, length: float, number: int, elements: int = 1000) -> dict[str, Any]:
    """NCCL's kernel of an all-reduce of floats."""
    args = {
        "Collective name": "allreduce",
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "dtype": "Float",
        "Group size": 2,
        "Process Group Name": "0",
        "Seq": number,
    }
    return kernel(start, length, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", **args)


def kineto(folder: Path, ranks: Sequence[Sequence[dict[str, Any]]], *skews: int) -> Path:
    """A folder with the Kineto trace of each rank, whose clocks differ by nanoseconds."""
    folder.mkdir(exist_ok=True)
    for rank, events in enumerate(ranks):
        base = 10**18 + (skews[rank] if skews else 0)
        content = {
            "baseTimeNanoseconds": base,
            "distributedInfo": {"rank": rank, "world_size": len(ranks)},
            "traceEvents": list(events),
        }
        (folder / f"trace_{rank}.json").write_text(json.dumps(content))
    return folder


def entry(
    number: int, created: int, name: str = "nccl:all_reduce", **more: object
) -> dict[str, Any]:
    """An entry of a dump: a collective of 10 x 100 floats."""
    return {
        "record_id": number,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "profiling_name": name,
        "time_created_ns": created,
        "duration_ms": None,
        "input_sizes": [[10, 100]],
        "input_dtypes": ["Float"],
        "output_sizes": [[10, 100]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "is_p2p": False,
        **more,
    }


def dump(entries: Sequence[object], ranks: str = "[0, 1]") -> dict[str, Any]:
    """A dump of the flight recorder."""
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}
    return {"version": "2.10", "pg_config": groups, "pg_status": {}, "entries": list(entries)}


def dumps(folder: Path, ranks: Sequence[Sequence[object]], how: str = "pickle") -> Path:
    """A folder with the dump of each rank."""
    folder.mkdir(exist_ok=True)
    for rank, entries in enumerate(ranks):
        content = dump(entries, str([*range(len(ranks))]))
        data = pickle.dumps(content, 2) if how == "pickle" else json.dumps(content).encode()
        ending = "" if how == "pickle" else ".json"
        (folder / f"nccl_trace_rank_{rank}{ending}").write_bytes(data)
    return folder
