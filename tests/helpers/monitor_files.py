"""What NCCL's RAS and NCCL Inspector write of a job that never ran: logs of processes, metrics of
GPUs, and answers."""

import json
import random
from collections.abc import Sequence
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


SIZES = tuple(2**k for k in range(13, 31, 2))


def collective_us(size: int) -> int:
    """Whole microseconds of an all-reduce: 20 us and 100 GB/s."""
    return 20 + size // 100_000


def record(rank: int, number: int, size: int, time_us: int, /, **more: Any) -> dict[str, Any]:
    """A record of an all-reduce on 4 ranks of 2 nodes; `more` changes header, metadata or perf."""
    header = {"id": "0x7f8c", "comm_name": "DP", "rank": rank, "n_ranks": 4, "nnodes": 2}
    metadata = {
        "inspector_output_format_version": "v4.0",
        "git_rev": "synthetic",
        "rec_mechanism": "nccl_profiler_interface",
        "dump_timestamp_us": 1748030377748202 + 1000 * number,
        "hostname": f"node{1 + rank // 2}",
        "pid": 4200 + rank,
    }
    perf = {
        "coll": "AllReduce",
        "coll_sn": number,
        "coll_msg_size_bytes": size,
        "coll_exec_time_us": time_us,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 0.0,
        "coll_busbw_gbs": 0.0,
    }
    parts = (("header", header), ("metadata", metadata), ("coll_perf", perf))
    made = {
        name: {key: more.get(key, value) for key, value in part.items()} for name, part in parts
    }
    word = made["coll_perf"]["coll"]
    moved = size * (4 if word in ("AllGather", "ReduceScatter") else 1)
    if "coll_algobw_gbs" not in more:
        made["coll_perf"]["coll_algobw_gbs"] = round(moved / (time_us or 1) / 1e3, 6)
    return made


def message(rank: int, number: int, size: int, time_us: int, word: str = "Send") -> dict[str, Any]:
    """A record of a message to the next rank."""
    made = record(rank, number, size, time_us)
    perf = {name.replace("coll", "p2p"): value for name, value in made.pop("coll_perf").items()}
    return made | {"p2p_perf": {**perf, "p2p": word, "p2p_peer": (rank + 1) % 4}}


def line(made: object) -> str:
    """A record as Inspector writes it."""
    return json.dumps(made, separators=(",", ":")) + "\n"


def rank_logs(steps: int = 20, sizes: Sequence[int] = SIZES) -> list[str]:
    """The logs of four ranks. In each call another rank is the last: the others wait for it for 50
    us or longer."""
    chance = random.Random(7)
    logs = [""] * 4
    for step in range(steps):
        for place, size in enumerate(sizes):
            number, last = step * len(sizes) + place, chance.randrange(4)
            for rank in range(4):
                waits = 0 if rank == last else 50 + chance.randrange(500)
                time_us = collective_us(size) + waits + chance.randrange(2)
                logs[rank] += line(record(rank, number, size, time_us))
    return logs


def log_folder(folder: Path, logs: Sequence[str]) -> Path:
    """A folder with the logs of processes, under Inspector's names."""
    folder.mkdir(exist_ok=True)
    for rank, text in enumerate(logs):
        (folder / f"node{1 + rank // 2}-pid{4200 + rank}.log").write_text(text)
    return folder


def gauges(gpu: int, time_us: float, size: int, label: str, **more: str) -> str:
    """The two metrics of an all-reduce on a GPU."""
    labels = {
        "version": "v5.1",
        "slurm_job_id": "unknown",
        "node": f"node{1 + gpu // 2}",
        "gpu": f"GPU{gpu % 2}",
        "comm_name": "DP",
        "n_nodes": "2",
        "nranks": "4",
        "collective": "AllReduce",
        "message_size": label,
        "algo_proto": "Ring_LL",
        **more,
    }
    text = ",".join(f'{name}="{value}"' for name, value in labels.items())
    rate = 1.5 * size / time_us / 1e3
    return (
        f"nccl_bus_bandwidth_gbs{{{text}}} {rate:.6g}\n"
        f"nccl_collective_exec_time_microseconds{{{text}}} {time_us:.6g}\n"
    )
