"""Rooted collectives from any root: rank `root` plays the part of rank 0, the next rank that of
rank 1, and so on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np

from simulator.collectives.collective import Algorithm, Collective, Fitted
from simulator.schedules.semantics import Chosen, Data, Promise
from topologies.errors import InputError
from topologies.topology import Ints, Topology


def from_root(algorithm: Algorithm, root: int) -> Algorithm:
    """The same algorithm from another root. Raises InputError if its collective has no root.

    >>> from simulator.collectives import find
    >>> from_root(find("chain_broadcast"), 2).build(4, 4096.0).sent().tolist()
    [4096.0, 0.0, 4096.0, 4096.0]
    """
    collective = algorithm.collective
    if collective.root is None:
        raise InputError(f"{algorithm.name} is {collective.name}, which has no root")
    if root < 0:
        raise InputError(f"the root is {root}: ranks run from 0")
    if root == collective.root:
        return algorithm
    if collective.root:
        raise InputError(f"{algorithm.name} starts from root {collective.root} already")
    return replace(
        algorithm,
        collective=collective_from(collective, root),
        schedule=lambda ranks, nbytes: algorithm.schedule(ranks, nbytes).renumbered(
            members(ranks, root)
        ),
        fit=partial(_fit, algorithm.fit, root) if algorithm.fit else None,
        shifts=lambda ranks: None,
        shifts_on=None,
        defined=lambda ranks: root < ranks and algorithm.defined(ranks),
        recipe=(from_root, (algorithm, root)),
    )


@cache
def collective_from(collective: Collective, root: int) -> Collective:
    """The same collective from another root. Chunks are numbered from the root's on."""
    return replace(
        collective, postcondition=partial(_promise, collective.postcondition, root), root=root
    )


def members(ranks: int, root: int) -> Ints:
    """The ranks in the order of their parts: the root comes first."""
    return ((np.arange(ranks) + root) % ranks).astype(np.int32)


def turned(topology: Topology, ranks: int, root: int) -> Topology:
    """The machine with its first `ranks` ranks counted from the root on."""
    placement = topology.placement.copy()
    placement[:ranks] = placement[members(ranks, root)]
    return replace(topology, placement=placement)


def _fit(fit: Callable[..., Fitted], root: int, topology: Topology, *sizes: float) -> Fitted:
    ranks, nbytes = int(sizes[0]), sizes[1]
    fitted = fit(turned(topology, ranks, root), ranks, nbytes)
    placement = fitted.topology.placement.copy()
    placement[:ranks] = topology.placement[:ranks]
    return fitted._replace(
        schedule=fitted.schedule.renumbered(members(ranks, root)),
        topology=replace(fitted.topology, placement=placement),
        chosen=(*fitted.chosen, "here, ranks are numbered from the root on")
        if fitted.chosen
        else (),
    )


def _promise(
    postcondition: Callable[[Data, Chosen], Promise],
    root: int,
    before: Data,
    chosen: Chosen = None,
) -> Promise:
    promised, values = postcondition(np.roll(before, -root, axis=0), chosen)
    return np.roll(promised, root, axis=0), np.roll(values, root, axis=0)
