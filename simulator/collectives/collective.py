"""What a collective promises, and how an algorithm for it is declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.cost_models import CostModel
from simulator.schedules.schedule import Schedule
from simulator.schedules.semantics import Data, Promise
from topologies.topology import Topology

Bytes = Callable[[int], float]
"""From the number of ranks to bytes, in units of V."""


@dataclass(frozen=True)
class Collective:
    """`postcondition` takes the workers' buffers before, shape (workers, slots), and returns which
    slots are promised and what they hold after: torch.distributed's conventions, the root is rank
    0.

    `busbw` is nccl-tests' factor from algbw to busbw. No schedule without in-network reduction
    moves less than `volume` in all, no rank sends less than `sends` or receives less than
    `receives` (a rank that is not the root). Sizes follow nccl-tests: V is the output of an
    all-gather, the input of a reduce-scatter, the root's buffer in a gather or scatter, a rank's
    send buffer else.
    """

    name: str
    postcondition: Callable[[Data], Promise]
    busbw: Bytes
    volume: Bytes
    sends: Bytes
    receives: Bytes


class Fitted(NamedTuple):
    """A schedule made for a machine; the machine with the switches that take part as further ranks;
    the closed form that goes with it; and what was chosen, in words."""

    schedule: Schedule
    topology: Topology
    cost: CostModel
    chosen: tuple[str, ...]


@dataclass(frozen=True)
class Algorithm:
    """One declaration, read by the command line, the docs and the tests.

    `build(ranks, nbytes)` writes the schedule for `ranks` workers, which needs `servers` devices
    besides. An algorithm that is made for the machine has `fit(topology, ranks, nbytes)` as well,
    which chooses what `build` leaves plain.
    """

    name: str
    collective: Collective
    build: Callable[[int, float], Schedule]
    cost: CostModel
    summary: str
    servers: int = 0
    fit: Callable[[Topology, int, float], Fitted] | None = None


def _everywhere(values: Data, ranks: int) -> Promise:
    promised = np.ones((ranks, values.shape[-1]), dtype=np.bool_)
    return promised, np.broadcast_to(values, promised.shape)


def _only(rank: int, values: Data, ranks: int) -> Promise:
    promised = np.zeros((ranks, values.shape[-1]), dtype=np.bool_)
    promised[rank] = True
    return promised, np.broadcast_to(values, promised.shape)


def _owned(before: Data) -> npt.NDArray[np.bool_]:
    """Which slots belong to the chunk that each rank owns, shape (ranks, slots)."""
    ranks, slots = before.shape
    if slots % ranks:
        raise ValueError(f"{slots} slots do not cut into {ranks} chunks: make them a multiple")
    owner = np.arange(slots) // (slots // ranks)
    return np.asarray(owner == np.arange(ranks)[:, None], dtype=np.bool_)


def _all_reduce(before: Data) -> Promise:
    return _everywhere(before.sum(axis=0), len(before))


def _reduce_scatter(before: Data) -> Promise:
    return _owned(before), np.broadcast_to(before.sum(axis=0), before.shape)


def _all_gather(before: Data) -> Promise:
    return _everywhere(np.where(_owned(before), before, np.uint64(0)).sum(axis=0), len(before))


def _reduce(before: Data) -> Promise:
    return _only(0, before.sum(axis=0), len(before))


def _broadcast(before: Data) -> Promise:
    return _everywhere(before[0], len(before))


def _gather(before: Data) -> Promise:
    return _only(0, _all_gather(before)[1][0], len(before))


def _scatter(before: Data) -> Promise:
    return _owned(before), np.broadcast_to(before[0], before.shape)


def _all_to_all(before: Data) -> Promise:
    ranks, slots = before.shape
    _owned(before)
    blocks = before.reshape(ranks, ranks, slots // ranks)
    return np.ones(before.shape, dtype=np.bool_), blocks.transpose(1, 0, 2).reshape(before.shape)


def _send_recv(before: Data) -> Promise:
    return np.ones(before.shape, dtype=np.bool_), np.roll(before, 1, axis=0)


def _rest(ranks: int) -> float:
    return (ranks - 1) / ranks


def _others(ranks: int) -> float:
    return ranks - 1.0


def _one(ranks: int) -> float:
    return 1.0


def _share(ranks: int) -> float:
    return 1 / ranks


def _none(ranks: int) -> float:
    return 0.0


ALL_REDUCE = Collective(
    "all_reduce", _all_reduce, lambda p: 2 * _rest(p), lambda p: 2 * _others(p), _one, _one
)
REDUCE_SCATTER = Collective("reduce_scatter", _reduce_scatter, _rest, _others, _rest, _share)
ALL_GATHER = Collective("all_gather", _all_gather, _rest, _others, _share, _rest)
REDUCE = Collective("reduce", _reduce, _one, _others, _one, _none)
BROADCAST = Collective("broadcast", _broadcast, _one, _others, _none, _one)
GATHER = Collective("gather", _gather, _rest, _rest, _share, _none)
SCATTER = Collective("scatter", _scatter, _rest, _rest, _none, _share)
ALL_TO_ALL = Collective("all_to_all", _all_to_all, _rest, _others, _rest, _rest)
SEND_RECV = Collective("send_recv", _send_recv, _one, float, _one, _one)
