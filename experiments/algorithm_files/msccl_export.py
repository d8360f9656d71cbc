"""A schedule of simctl as an MSCCL program."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from experiments.algorithm_files.msccl_program import (
    BLOCKS_OF_CHANNEL,
    MOST_BLOCKS,
    MOST_CHANNELS,
    MOST_COUNT,
    MOST_STEPS,
    BlockStep,
    Chunks,
    Gpu,
    MscclProgram,
    ThreadBlock,
)
from simulator.collectives import Algorithm
from simulator.engines import simulate
from simulator.schedules.schedule import COMPUTE, Schedule
from topologies.errors import InputError
from topologies.shapes import star
from topologies.topology import Topology

COLLECTIVES = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "all_to_all": "alltoall",
}
"""MSCCL's words. The root is rank 0."""


class TooManySteps(InputError):
    """A thread block would have more steps than MSCCL takes."""


class _Lane(NamedTuple):
    """What tells the thread blocks of a GPU apart."""

    channel: int
    send: int
    receive: int


_Place = tuple[_Lane, int]
"""A step of a GPU: its thread block, and its place among the steps of that."""


@dataclass
class _Draft:
    """A GPU's steps, and the places that each waits for."""

    lanes: dict[_Lane, list[tuple[BlockStep, list[_Place]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    adders: dict[int, _Place] = field(default_factory=dict)
    """The step that last added to a chunk."""


def program_of(
    algorithm: Algorithm, schedule: Schedule, machine: Topology | None = None
) -> MscclProgram:
    """The program of a schedule of an algorithm, in place.

    Every thread block sends to one peer or receives from one peer, or works locally. Its steps are
    in the order in which they start on the machine, by default a switch. So no number of FIFO slots
    makes the program stuck.

    Raises InputError if MSCCL cannot say what the schedule says.
    """
    ranks = schedule.workers
    _check(algorithm, schedule)
    collective = COLLECTIVES[algorithm.collective.name]
    order = _in_time(schedule, machine or star(max(2, schedule.ranks), bandwidth=1.0))
    drafts = _drafts(schedule, order, "o" if collective == "allgather" else "i")
    share = schedule.buffer // ranks
    inputs = share if collective == "allgather" else schedule.buffer
    outputs = {"allgather": schedule.buffer, "reduce_scatter": share}.get(collective, 0)
    scratch = schedule.slots - schedule.buffer
    gpus = tuple(
        Gpu(inputs, outputs, scratch, _blocks(algorithm, draft, rank))
        for rank, draft in enumerate(drafts)
    )
    channels = 1 + max((block.channel for gpu in gpus for block in gpu.blocks), default=0)
    if channels > MOST_CHANNELS:
        raise InputError(
            f"{algorithm.name} on {ranks} ranks needs {channels} channels: MSCCL has "
            f"{MOST_CHANNELS}, take fewer ranks"
        )
    return MscclProgram(
        algorithm.name[:63],
        collective,
        "Simple",
        schedule.buffer,
        channels,
        True,
        gpus,
        0,
        2**39,  # bytes: for any size
    )


def _check(algorithm: Algorithm, schedule: Schedule) -> None:
    reason, collective = "", algorithm.collective
    if collective.name not in COLLECTIVES or (collective.root or 0) != 0:
        root = f" from rank {collective.root}" if collective.root else ""
        reason = f"MSCCL has no {collective.name}{root}, it has {', '.join(COLLECTIVES.values())}"
    elif schedule.switches:
        reason = "switches reduce in it, MSCCL has GPUs alone"
    elif schedule.ranks > schedule.workers:
        reason = "it has a server besides the GPUs of the collective"
    elif (schedule.kind == COMPUTE).any() or (schedule.source[schedule.remote] < 0).any():
        reason = "it computes, or sends messages without data"
    elif not np.allclose(schedule.shares, schedule.shares.ravel()[0]):
        reason = "its slots are of several sizes"
    elif not len(schedule):
        reason = "it does nothing"
    if reason:
        raise InputError(f"{algorithm.name} cannot be an MSCCL program: {reason}")
    _check_messages(algorithm, schedule)


def _check_messages(algorithm: Algorithm, schedule: Schedule) -> None:
    """Refuse a long program before its steps are written: each message is a step of its sender."""
    where = schedule.remote
    ends = schedule.rank[where].astype(np.int64) * schedule.ranks + schedule.peer[where]
    lanes, messages = np.unique(ends * schedule.lanes + schedule.lane[where], return_counts=True)
    if len(lanes):
        most = np.argmax(messages)
        rank = lanes[most] // (schedule.ranks * schedule.lanes)
        _check_steps(algorithm, int(messages[most]), int(rank))


def _check_steps(algorithm: Algorithm, steps: int, rank: int) -> None:
    if steps > MOST_STEPS:
        raise TooManySteps(
            f"{algorithm.name} needs {steps} steps of a thread block on gpu {rank}: MSCCL has "
            f"{MOST_STEPS}, take fewer ranks or segments"
        )


def _drafts(schedule: Schedule, order: list[int], buffer: str) -> list[_Draft]:
    drafts = [_Draft() for _ in range(schedule.ranks)]
    steps: dict[int, dict[int, list[_Place]]] = {}
    columns = [
        column.tolist()
        for column in (
            schedule.rank,
            schedule.peer,
            schedule.source,
            schedule.target,
            schedule.count,
            schedule.reduces,
            schedule.lane,
        )
    ]

    def chunks(slot: int) -> Chunks:
        inside = slot < schedule.buffer
        return Chunks(buffer if inside else "s", slot if inside else slot - schedule.buffer)

    for number in order:
        rank, peer, source, target, count, reduces, lane = (each[number] for each in columns)
        earlier = schedule.predecessors(number).tolist()
        waits = {end: [p for q in earlier for p in steps[q].get(end, ())] for end in (rank, peer)}
        if any(not {rank, peer} & set(steps[q]) for q in earlier):
            raise InputError(
                f"operation {number} from rank {rank} to {peer} waits for an operation of other "
                f"ranks: MSCCL waits within a GPU alone"
            )
        if source < 0:  # a rank waits for several operations at once
            steps[number] = {rank: waits[rank]}
            continue
        added: dict[int, list[_Place]] = {rank: [], peer: []}
        for first in range(0, count, MOST_COUNT):
            size = min(MOST_COUNT, count - first)
            ends = chunks(source + first), chunks(target + first)
            for end, key, step in _steps(rank, peer, lane, schedule, ends, size, bool(reduces)):
                draft, needed = drafts[end], list(waits[end])
                if end == peer and reduces:
                    needed += _one_adder(draft, target + first, size)
                place = key, len(draft.lanes[key])
                draft.lanes[key].append((step, needed))
                added[end].append(place)
                if end == peer and step.kind != "s":
                    for slot in range(target + first, target + first + size):
                        draft.adders[slot] = place
        steps[number] = added
    return drafts


def _in_time(schedule: Schedule, machine: Topology) -> list[int]:
    """The operations as they start on a machine: a thread block does not hold up a message that is
    ready by one that is not."""
    start = simulate(schedule, machine).start
    return [int(number) for number in np.lexsort((np.arange(len(schedule)), start))]


def _steps(
    rank: int,
    peer: int,
    channel: int,
    schedule: Schedule,
    ends: tuple[Chunks, Chunks],
    size: int,
    reduces: bool,
) -> list[tuple[int, _Lane, BlockStep]]:
    source, target = ends
    if rank == peer:
        return [(rank, _Lane(channel, -1, -1), BlockStep("re" if reduces else "cpy", *ends, size))]
    ranks = schedule.ranks
    more = ((peer - rank) % ranks - 1) // BLOCKS_OF_CHANNEL
    channel += schedule.lanes * more
    return [
        (rank, _Lane(channel, peer, -1), BlockStep("s", source, source, size)),
        (
            peer,
            _Lane(channel, -1, rank),
            BlockStep("rrc" if reduces else "r", target, target, size),
        ),
    ]


def _one_adder(draft: _Draft, slot: int, size: int) -> list[_Place]:
    """The steps that add to the same chunks before: two at a time would lose a contribution."""
    return [draft.adders[each] for each in range(slot, slot + size) if each in draft.adders]


def _blocks(algorithm: Algorithm, draft: _Draft, rank: int) -> tuple[ThreadBlock, ...]:
    order = {lane: number for number, lane in enumerate(draft.lanes)}
    if len(order) > MOST_BLOCKS:
        raise InputError(
            f"{algorithm.name} needs {len(order)} thread blocks on gpu {rank}: MSCCL has "
            f"{MOST_BLOCKS}, take fewer ranks"
        )
    needed = {
        lane: [_needed(lane, waits) for _, waits in steps] for lane, steps in draft.lanes.items()
    }
    numbers = {
        lane: (np.cumsum([max(1, len(waits)) for waits in several]) - 1).tolist()
        for lane, several in needed.items()
    }
    raised = {place for several in needed.values() for waits in several for place in waits}
    blocks = []
    for lane in order:
        _check_steps(algorithm, numbers[lane][-1] + 1, rank)
        steps = tuple(
            replace(
                step,
                waits=tuple(
                    (order[other], numbers[other][place]) for other, place in needed[lane][number]
                ),
                flag=(lane, number) in raised,
                number=numbers[lane][number],
            )
            for number, (step, _) in enumerate(draft.lanes[lane])
        )
        blocks.append(ThreadBlock(lane.send, lane.receive, lane.channel, steps))
    return tuple(blocks)


def _needed(lane: _Lane, waits: list[_Place]) -> list[_Place]:
    """The last step of each other thread block: its earlier steps and those of the same block are
    done by then."""
    last: dict[_Lane, int] = {}
    for other, number in waits:
        if other != lane:
            last[other] = max(number, last.get(other, number))
    return sorted(last.items())
