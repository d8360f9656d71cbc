"""Collectives of several groups of ranks at once, in order on streams.

Tensor, data and pipeline parallelism run such groups side by side, over links that they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.collectives.algorithm_options import check_values
from simulator.collectives.collective import Algorithm
from simulator.schedules.schedule_builder import LANES
from simulator.steps.kinds import CALL
from simulator.steps.step_graph import Call, StepGraph, step_graph
from topologies.errors import InputError


@dataclass(frozen=True)
class GroupCall:
    """A collective that a group of ranks calls."""

    algorithm: Algorithm
    ranks: tuple[int, ...]
    """The group: its first rank plays the part of rank 0, and so on."""
    nbytes: float
    """V of the collective."""
    stream: int = 0
    """The stream of each rank. A rank enters when it has left the calls before on that stream."""
    waits: tuple[int, ...] = ()
    """Numbers of earlier calls. A rank enters when it has left those of them in which it takes
    part."""


def graph_of(calls: Sequence[GroupCall], ranks: int) -> StepGraph:
    """All calls among so many ranks as a graph, call by call with a task of each rank.

    Raises InputError for a group, a stream or a wait that makes no sense.
    """
    latest, tasks = dict[tuple[int, int], int](), dict[tuple[int, int], int]()
    after, place, row = list[list[int]](), list[int](), list[int]()
    for number, call in enumerate(calls):
        _check(call, number, ranks)
        for rank in call.ranks:
            waits = [tasks[wait, rank] for wait in call.waits if (wait, rank) in tasks]
            if (call.stream, rank) in latest:
                waits.append(latest[call.stream, rank])
            latest[call.stream, rank] = tasks[number, rank] = len(after)
            after.append(waits)
            place.append(rank)
            row.append(number)
    lane = np.array([calls[number].stream for number in row])
    return step_graph(
        np.arange(ranks),
        tuple(f"stream {stream}" for stream in range(lane.max() + 1)),
        {"place": place, "lane": lane, "call": row, "kind": np.full(len(row), CALL)},
        after,
        calls=[
            Call(str(number), call.algorithm.collective.name, call.nbytes, call.algorithm)
            for number, call in enumerate(calls)
        ],
        groups={
            str(number): np.array([call.ranks], dtype=np.int32) for number, call in enumerate(calls)
        },
        names=[f"call {number}: {calls[number].algorithm.name}" for number in row],
    )


def _check(call: GroupCall, number: int, ranks: int) -> None:
    where = f"call {number}"
    group = call.ranks
    if len(group) < 2 or len({*group}) < len(group):
        raise InputError(f"{where}: ranks {[*group][:8]}: a group has 2 or more, each once")
    if min(group) < 0 or max(group) >= ranks:
        raise InputError(f"{where}: rank {max(group)}: {ranks} ranks run from 0 to {ranks - 1}")
    if not 0 <= call.stream <= LANES:
        raise InputError(f"{where}: stream {call.stream}: streams run from 0 to {LANES}")
    if not all(0 <= wait < number for wait in call.waits):
        raise InputError(f"{where}: it waits for {[*call.waits]}: earlier calls alone")
    check_values(call.algorithm)
    if call.algorithm.servers:
        raise InputError(f"{where}: {call.algorithm.name} needs servers, which a group has not")
