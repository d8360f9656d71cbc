"""Algorithms of groups: two levels for some ranks of several nodes, and messages in turn.

NCCL lays a ring for each NIC of a group's ranks. It enters and leaves a node by that NIC, and the
data pass to it over NVLink. Routes of a machine never pass a GPU, so such rings would go through
CPUs here. Rings inside nodes and across them move as many bytes over each NIC.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from simulator.collectives import Algorithm, find
from simulator.collectives.collective import ALL_GATHER, REDUCE_SCATTER, Fitted
from simulator.collectives.two_level import (
    fit,
    nodes_of,
    two_level_all_gather,
    two_level_reduce_scatter,
)
from simulator.cost_models.machine_formulas import two_level as two_level_formula
from simulator.kernels.records import Csr
from simulator.schedules.schedule import Schedule
from simulator.schedules.semantics import Chosen, Data, Promise
from topologies.topology import Ints, Numbers, Topology


def two_levels(collective: str, topology: Topology, group: Ints) -> list[Algorithm]:
    """The algorithm of two levels for a group that has some ranks of several nodes, equally many of
    each; else none."""
    device = topology.placement[group]
    node = topology.node[device]
    sizes = np.unique(node, return_counts=True)[1]
    if (node < 0).any() or len(sizes) == 1 or sizes.max() == 1 or np.ptp(sizes):
        return []
    kind = topology.device_kinds.codes
    alike = (topology.node == node[0]) & (kind == kind[device[0]])
    if np.count_nonzero(alike) == sizes[0]:
        return []
    two_level = find("two_level")
    if collective == "all_reduce":
        return [two_level]
    nodes = nodes_of(replace(topology, placement=topology.placement[group]), len(group))
    if collective == "reduce_scatter":
        made, promise, write = REDUCE_SCATTER, _scattered, two_level_reduce_scatter
    elif collective == "all_gather":
        made, promise, write = ALL_GATHER, _gathered, two_level_all_gather
    else:
        return []
    made = replace(made, postcondition=partial(promise, nodes))
    fitted = replace(two_level, fit=partial(fit, write, two_level_formula), operations=_operations)
    return [replace(fitted, name=f"two_level_{collective}", collective=made)]


def _operations(ranks: int) -> float:
    """At most two chunks of each rank and of each other, as there are at least two nodes."""
    return ranks * ranks / 2.0


def _owned(nodes: Numbers, slots: int) -> Ints:
    """The rank that owns each slot."""
    chunk = np.arange(slots) // (slots // nodes.size)
    return np.asarray(nodes[chunk % len(nodes), chunk // len(nodes)], dtype=np.int32)


def _scattered(nodes: Numbers, before: Data, chosen: Chosen = None) -> Promise:
    owner = _owned(nodes, before.shape[1])
    promised = owner == np.arange(len(before))[:, None]
    return promised, np.broadcast_to(before.sum(axis=0), before.shape)


def _gathered(nodes: Numbers, before: Data, chosen: Chosen = None) -> Promise:
    slots = before.shape[1]
    values = before[_owned(nodes, slots), np.arange(slots)]
    return np.ones(before.shape, dtype=np.bool_), np.broadcast_to(values, before.shape)


@cache
def in_turn(algorithm: Algorithm) -> Algorithm:
    """An algorithm in which a rank sends a message when its message before has arrived, if both are
    on the same channel to the same rank.

    Where links serve messages first come, first served, messages of a connection take turns by
    themselves. Under fair sharing they would be flows that share the link, and end together.
    """

    def schedule(*arguments: Any, **options: Any) -> Schedule:
        return _in_turn(algorithm.schedule(*arguments, **options))

    def fit(*arguments: Any, **options: Any) -> Fitted:
        assert algorithm.fit is not None
        fitted = algorithm.fit(*arguments, **options)
        return fitted._replace(schedule=_in_turn(fitted.schedule))

    recipe = in_turn, (algorithm,)
    return replace(algorithm, schedule=schedule, fit=algorithm.fit and fit, recipe=recipe)


def _in_turn(schedule: Schedule) -> Schedule:
    """The operations, of which each message waits for the one before on its connection."""
    remote = np.flatnonzero(schedule.remote)
    connection = np.stack((schedule.rank, schedule.peer, schedule.lane))[:, remote]
    order = np.lexsort((remote, *connection))
    follows = np.flatnonzero((np.diff(connection[:, order], axis=1) == 0).all(axis=0))
    waiting = np.repeat(np.arange(len(schedule)), np.diff(schedule.indptr))
    before = np.stack((remote[order[follows + 1]], remote[order[follows]]))
    waits = np.append(np.stack((waiting, schedule.indices)), before, axis=1)
    later, earlier = np.unique(waits, axis=1)
    indptr, indices = Csr.of(later, earlier, len(schedule))
    return replace(schedule, indptr=indptr, indices=indices)
