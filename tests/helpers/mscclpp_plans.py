"""Small MSCCL++ plans, of the shapes that published ones have."""

import json
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]


def span(buffer: str | int, first: int | str = 0, size: int = 1) -> Json:
    """Chunks of a buffer of the GPU, or of a buffer of another by its number."""
    key = "type" if isinstance(buffer, str) else "buffer_id"
    return {key: buffer, "index": first, "size": size}


def op(name: str, source: Sequence[Json] = (), target: Sequence[Json] = (), **more: Any) -> Json:
    buffers = {"src_buff": list(source), "dst_buff": list(target)}
    return {"name": name, "channel_type": "memory", **buffers, **more}


SIGNAL = {"name": "signal", "channel_type": "memory", "channel_ids": [0]}
WAIT = {"name": "wait", "channel_type": "memory", "channel_ids": [0]}
NOP = {"name": "nop"}


def plan(
    collective: str, chunks: tuple[int, int, int], *blocks: Sequence[Json], **top: Any
) -> Json:
    """Two GPUs with the same thread blocks. Buffers 0, 1 and 2 are i, o and s of the other."""
    gpus = []
    for rank in range(2):
        threads = [
            {
                "id": number,
                "ops": json.loads(
                    json.dumps(ops).replace('"RANK"', str(rank)).replace('"PEER"', str(1 - rank))
                ),
                "channels": [{"channel_type": "memory", "channel_ids": [number]}],
                "remote_buffer_refs": [
                    {"access_channel_type": "memory", "remote_buffer_ids": [0, 1, 2]}
                ],
            }
            for number, ops in enumerate(blocks)
        ]
        sizes = dict(zip(("input_chunks", "output_chunks", "scratch_chunks"), chunks, strict=True))
        remote = [
            {"rank": 1 - rank, "type": buffer, "access_channel_types": ["memory"]}
            for buffer in "ios"
        ]
        channels = [{"channel_type": "memory", "connected_to": [1 - rank] * len(blocks)}]
        gpus.append(
            {
                "id": rank,
                **sizes,
                "threadblocks": threads,
                "channels": channels,
                "remote_buffers": remote,
                "semaphores": [{"init_value": 0}],
            }
        )
    head = {"name": "small", "collective": collective, "protocol": "Simple", "inplace": True}
    return {**head, "gpus": gpus}


def put_and_reduce() -> Json:
    """All-reduce: put all into the scratch of the other, wait, and add."""
    put = op("put", [span("i", 0, 2)], [span(2, 0, 2)])
    add = op("re", [span("i", 0, 2), span("s", 0, 2)], [span("i", 0, 2)], reduce_op="sum")
    return plan("allreduce", (2, 2, 2), [put, SIGNAL, NOP, WAIT, add])


def read_reduce_send() -> Json:
    """All-reduce: each reads one half of the other, adds it, and writes the sum to both."""
    add = op(
        "rres",
        [span("i", "RANK"), span(0, "RANK")],
        [span("i", "RANK"), span(0, "RANK")],
    )
    return plan("allreduce", (2, 2, 0), [SIGNAL, WAIT, add, SIGNAL, WAIT])


def packets() -> Json:
    """All-reduce: packets into the scratch of the other, which waits for their flags."""
    put = op("ppkt", [span("i", 0, 2)], [span(2, 0, 2)])
    add = op("repkt", [span("i", 0, 2), span("s", 0, 2)], [span("i", 0, 2)])
    return plan("allreduce", (2, 2, 2), [put, add])


def gather_in_groups() -> Json:
    """All-gather: two thread blocks put a half each."""
    blocks = []
    for part in range(2):
        group = {"tb_id": part, "tbg_size": 2}
        put = op("pws", [span("i")], [span(1, "RANK")], channel_ids=[0], tbg_info=group)
        blocks.append([put, WAIT])
    return plan("allgather", (1, 2, 0), *blocks)


def gather_by_reading() -> Json:
    """All-gather: each reads the chunk of the other."""
    fetch = op("get", [span(0)], [span("o", "PEER")])
    return plan("allgather", (1, 2, 0), [SIGNAL, WAIT, fetch, SIGNAL, WAIT])


def barriers() -> Json:
    """All-reduce: one thread block fetches, another adds after a barrier and a semaphore."""
    meet = {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
    fetch = op("get", [span(0, 0, 2)], [span("s", 0, 2)])
    add = op("re", [span("i", 0, 2), span("s", 0, 2)], [span("i", 0, 2)])
    release = {"name": "sem_release", "semaphore_ids": [0]}
    acquire = {"name": "sem_acquire", "semaphore_ids": [0]}
    first = [SIGNAL, WAIT, fetch, SIGNAL, WAIT, meet, release]
    return plan("allreduce", (2, 2, 2), first, [meet, acquire, {"name": "pipeline", "ops": [add]}])


SHAPES = {
    "put": put_and_reduce(),
    "read": read_reduce_send(),
    "packets": packets(),
    "groups": gather_in_groups(),
    "fetched": gather_by_reading(),
    "barriers": barriers(),
}
