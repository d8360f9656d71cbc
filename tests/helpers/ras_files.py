"""What NCCL's RAS says of a job that never ran."""

import json
from pathlib import Path
from typing import Any


def answering(rank: int, calls: int = 1205, **more: Any) -> dict[str, Any]:
    """A rank that answers; `more` changes its state."""
    status = {
        "init_state": 0,
        "async_error": 0,
        "finalize_called": False,
        "destroy_flag": False,
        "abort_flag": False,
    }
    names = ("Broadcast", "Reduce", "AllGather", "ReduceScatter")
    return {
        **{"rank": rank, "host": "10.0.0.1", "pid": 42 + rank, "cuda_dev": 0, "nvml_dev": 0},
        "status": {**status, **more},
        "collective_counts": {**dict.fromkeys(names, 0), "AllReduce": calls},
    }


def silent(rank: int, unresponsive: bool = True, dead: bool = False) -> dict[str, Any]:
    """A rank that does not answer for a communicator."""
    status = {"unresponsive": unresponsive, "considered_dead": dead}
    where = {"host": "unknown", "pid": -1, "cuda_dev": 0, "nvml_dev": 0}
    return {"rank": rank, **where, "status": status}


def communicator(ranks: list[Any], missing: list[Any], **more: Any) -> dict[str, Any]:
    size = len(ranks) + len(missing)
    head = {"hash": "0x7f8c", "secondary_hash": "0x1:0x2", "size": size, "ranks_count": len(ranks)}
    body = {"missing_ranks_count": len(missing), "ranks": ranks, "missing_ranks": missing}
    return {**head, **body, **more}


def document(*communicators: Any, **more: Any) -> dict[str, Any]:
    return {
        **{"nccl_version": "2.29.2", "cuda_runtime_version": 13000, "cuda_driver_version": 13000},
        **{"timestamp": "2026-01-02 03:04:05", "communicators_count": len(communicators)},
        "communicators": list(communicators),
        "ras": {"collection_time_sec": 0.012, "timeouts_count": 0},
        **more,
    }


def written(folder: Path, content: object) -> Path:
    file = folder / "ras.json"
    file.write_text(json.dumps(content, indent=2))
    return file
