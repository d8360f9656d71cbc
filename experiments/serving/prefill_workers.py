"""Workers that prefill for others, and the KV caches that they send to those."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from experiments.serving.deployment import Deployment
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.steps.step_graph import MESSAGE
from topologies.topology import Topology

LARGEST = 64
"""GPUs of a node at most."""


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
    prefills: Deployment, decodes: Deployment, machine: Callable[[int], Topology], tokens: float
) -> float:
    """Seconds in which the KV cache of a prompt goes from a worker to another one on other nodes.
    All GPUs of these nodes send at once."""
    size = max(prefills.cut.gpus, decodes.cut.gpus)
    while size < LARGEST and not _apart(machine(2 * size), size):
        size *= 2
    times = GroupTimes(machine(2 * size), Degrees(tp=size, pp=2))
    nbytes = max(each.kv_bytes(tokens) / each.cut.pp for each in (prefills, decodes))
    return times.seconds("0 to 1", MESSAGE, nbytes)


def _apart(machine: Topology, size: int) -> bool:
    """Whether the first so many ranks are on other nodes than those behind them."""
    node = machine.node[machine.placement]
    return bool(node[size - 1] != node[size])
