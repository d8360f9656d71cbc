"""Parameter servers and map-reduce: workers send, servers add up."""

from __future__ import annotations

import numpy as np

from simulator.collectives.collective import ALL_REDUCE, REDUCE_SCATTER, Collective, declare
from simulator.cost_models import servers
from simulator.schedules.schedule import Schedule
from simulator.schedules.schedule_builder import ScheduleBuilder
from simulator.schedules.shifts import Shifts, SlotMove, fold, rotations
from topologies.errors import InputError


@declare("parameter_server", ALL_REDUCE, servers.PARAMETER_SERVER)
def parameter_server_all_reduce(ranks: int, nbytes: float) -> Schedule:
    """All ranks send to rank 0, which adds up and sends back."""
    server = ScheduleBuilder(ranks, nbytes, phase="push")
    workers = np.arange(1, ranks)
    server.reduce(workers, 0, slot=0)
    server.phase("pull")
    server.copy(0, workers, slot=0)
    return server.build()


@declare("parameter_server_apart", ALL_REDUCE, servers.PARAMETER_SERVER_APART, servers=1)
def parameter_server_apart_all_reduce(ranks: int, nbytes: float) -> Schedule:
    """All ranks send to a separate server, which adds up and sends back. The first push lands in
    its buffer; the others land in scratch and are added to it."""
    server = ScheduleBuilder(ranks, nbytes, scratch=ranks - 1, servers=1, phase="push")
    workers, inboxes = np.arange(ranks), np.arange(1, ranks)
    server.copy(workers, ranks, slot=0, target=workers)
    server.phase("merge")
    server.reduce(ranks, np.full(ranks - 1, ranks), slot=inboxes, target=0)
    server.phase("pull")
    server.copy(ranks, workers, slot=0)
    return server.build()


ALL = 2**20
"""As many shards as there are workers."""
SEGMENTS = 8


@declare("byteps", ALL_REDUCE, servers.byteps, servers=1)
def byteps_all_reduce(
    ranks: int, nbytes: float, *, servers: int = 1, segments: int = SEGMENTS
) -> Schedule:
    """CPU machines and workers serve, each a share that keeps all ports busy.

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


@declare(
    "sharded_parameter_server",
    ALL_REDUCE,
    servers.sharded,
    shifts=_shifts,
    operations=lambda ranks, shards=ALL: 2.0 * min(shards, ranks) * (ranks - 1),
)
def sharded_all_reduce(
    ranks: int, nbytes: float, shifts: Shifts | None = None, *, shards: int = ALL
) -> Schedule:
    """Workers serve equal shards of V to each other.

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


MICROSECOND = 1e-6


MAP_REDUCE = Collective(
    "map_reduce",
    REDUCE_SCATTER.postcondition,
    lambda p: 1.0,
    REDUCE_SCATTER.volume,
    REDUCE_SCATTER.sends,
    REDUCE_SCATTER.receives,
    even="reduce_scatter",
)


@declare("map_reduce", MAP_REDUCE, servers.map_reduce)
def map_reduce(ranks: int, nbytes: float, *, map_us: int = 0, reduce_us: int = 0) -> Schedule:
    """Every rank maps, all blocks are shuffled, every rank reduces its keys. A map and a reduce
    take so many microseconds.

    The maps of a rank end before it sends. A rank reduces when the blocks of all ranks are there.
    """
    job = ScheduleBuilder(ranks, nbytes, slots=ranks, scratch=ranks - 1, phase="map")
    rank, turn = np.arange(ranks), np.arange(1, ranks)[:, None]
    maps = job.compute(rank, map_us * MICROSECOND)
    job.phase("shuffle")
    peer, inbox = (rank + turn) % ranks, ranks + turn - 1
    senders = np.broadcast_to(rank, peer.shape)
    sent = job.copy(senders, peer, slot=peer, target=inbox, after=maps[senders.ravel(), None])
    arrived = sent.reshape(ranks - 1, ranks)[turn.T - 1, (rank[:, None] - turn.T) % ranks]
    job.phase("reduce")
    waits = np.column_stack((maps, arrived))
    merged = [
        job.reduce(rank, rank, slot=ranks + k, target=rank, after=waits) for k in range(ranks - 1)
    ]
    job.compute(rank, reduce_us * MICROSECOND, after=np.column_stack((maps, *merged)))
    return job.build()
