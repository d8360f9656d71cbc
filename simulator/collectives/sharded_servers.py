"""Parameter servers that share V: some of the workers serve, or CPU machines and workers as in
BytePS."""

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, Algorithm
from simulator.cost_models import servers
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, SlotMove, fold, rotations
from topologies.errors import InputError

ALL = 2**20
"""As many shards as there are workers."""
SEGMENTS = 8


def sharded_all_reduce(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, shards: int = ALL
) -> Schedule:
    """Worker j adds up shard j of V for all, and sends it back.

    >>> sharded_all_reduce(4, 4096.0, shards=2).sent().tolist()
    [8192.0, 8192.0, 4096.0, 4096.0]
    """
    count = min(shards, ranks)
    moves = fold(ranks, shifts, SlotMove(axis=0, first=0, inner=1, end=ranks))
    server = ScheduleBuilder(moves, nbytes, slots=count, phase="push")
    for turn in range(1, count + 1):
        worker = server.each()
        shard = (worker + turn) % count
        pushing = worker[shard != worker]
        server.reduce(pushing, shard[shard != worker], slot=shard[shard != worker])
    server.phase("pull")
    serving = server.each(np.arange(count))
    for turn in range(1, ranks):
        server.copy(serving, (serving + turn) % ranks, slot=serving)
    return server.build()


def byteps_all_reduce(
    ranks: int, nbytes: float, *, servers: int = 1, segments: int = SEGMENTS
) -> Schedule:
    """Each CPU machine and each worker adds up a part of V, such that all ports are equally busy.

    With n workers and k CPU machines a machine has 2(n-1) and a worker n-k parts of n²+kn-2k.
    """
    shares = cpu_and_worker_shares(ranks, servers)
    count = [servers, ranks if shares[1] else 0]
    slots = np.repeat(shares, np.array(count) * segments) / segments
    inbox = np.full((ranks - 1) * segments, shares[0] / segments)
    split = ScheduleBuilder(
        ranks, nbytes, slots=slots.tolist(), scratch=inbox.tolist(), servers=servers
    )
    cpu, worker = ranks + np.arange(servers), np.arange(ranks)
    first = servers * segments
    for segment in range(segments):
        split.phase("push")
        for turn in range(max(servers, ranks)):
            if turn < servers:
                to = (worker + turn) % servers
                slot = to * segments + segment
                box = len(slots) + (worker - 1) * segments + segment
                split.copy(worker, cpu[to], slot=slot, target=np.where(worker, box, slot))
            if shares[1] and 0 < turn < ranks:
                peer = (worker + turn) % ranks
                split.reduce(worker, peer, slot=first + peer * segments + segment)
        split.phase("merge")
        boxes = len(slots) + np.arange(ranks - 1)[:, None] * segments + segment
        target = np.arange(servers) * segments + segment
        split.reduce(cpu, cpu, slot=boxes, target=target, steps=True)
        split.phase("pull")
        for turn in range(ranks):
            split.copy(cpu, (np.arange(servers) + turn) % ranks, slot=target)
            if shares[1] and turn:
                split.copy(
                    worker, (worker + turn) % ranks, slot=first + worker * segments + segment
                )
    return split.build()


def cpu_and_worker_shares(workers: int, servers: int) -> tuple[float, float]:
    """The shares of V that each CPU machine and each worker adds up.

    >>> cpu_and_worker_shares(4, 4), cpu_and_worker_shares(4, 2)
    ((0.25, 0.0), (0.3, 0.1))
    """
    if servers > workers:
        raise InputError(f"servers is {servers}: at most as many as the {workers} workers")
    if servers == workers:
        return 1 / servers, 0.0
    parts = workers**2 + servers * workers - 2 * servers
    return 2 * (workers - 1) / parts, (workers - servers) / parts


def _shifts(ranks: int, shards: int = ALL) -> Shifts | None:
    return rotations(ranks) if shards >= ranks else None


ALGORITHMS = (
    Algorithm(
        "sharded_parameter_server",
        ALL_REDUCE,
        sharded_all_reduce,
        servers.sharded,
        "workers serve equal shards of V to each other",
        shifts=_shifts,
        operations=lambda ranks, shards=ALL: 2.0 * min(shards, ranks) * (ranks - 1),
    ),
    Algorithm(
        "byteps",
        ALL_REDUCE,
        byteps_all_reduce,
        servers.byteps,
        "CPU machines and workers serve, each a share that keeps all ports busy",
        servers=1,
    ),
)
