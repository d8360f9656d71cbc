"""Workers that prefill for others, and the KV caches that they send to those."""

from __future__ import annotations

from contextlib import suppress
from math import ceil
from typing import NamedTuple

from experiments.serving.deployment import Deployment
from simulator.collectives.layouts import ranks_of_a_node
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.steps.step_graph import MESSAGE
from topologies.catalogue import Blueprint
from topologies.errors import InputError
from topologies.topology import Topology


class PrefillWorkers(NamedTuple):
    """Workers that prefill, and nothing else."""

    deployment: Deployment
    """That of each."""
    machine: Topology
    number: int
    decoders: int
    """Workers that decode what these prefill."""
    sent: float
    """Seconds in which the KV cache of a prompt goes to a worker that decodes."""

    @property
    def gpus(self) -> int:
        """Those of all of them."""
        return self.number * self.deployment.cut.gpus


def sent_seconds(
    prefills: Deployment, decodes: Deployment, blueprint: Blueprint, tokens: float
) -> float:
    """Seconds in which the KV cache of a prompt goes from a worker to another one, from all GPUs of
    the one at once. Workers are on nodes of their own where the machine has so many."""
    size = max(prefills.cut.gpus, decodes.cut.gpus)
    times = GroupTimes(_pair(blueprint, size), Degrees(tp=size, pp=2))
    nbytes = max(each.kv_bytes(tokens) * each.stage_share for each in (prefills, decodes))
    return times.seconds("0 to 1", MESSAGE, nbytes)


def _pair(blueprint: Blueprint, size: int) -> Topology:
    """The GPUs of two workers of `size`. Raises InputError if the machine has too few."""
    whole = blueprint.whole()
    nodes = ceil(size / ranks_of_a_node(whole, whole.ranks))
    with suppress(InputError):
        return blueprint.for_job(2 * size, 2 * nodes).build(2 * size)
    return blueprint.build(2 * size)
