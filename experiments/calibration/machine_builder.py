"""The machine of a fit for any number of ranks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from experiments.calibration.known_paths import as_nodes
from topologies.catalogue import Blueprint
from topologies.topology import Topology


def machine_for(machine: Blueprint | None) -> Callable[[int, int], Topology]:
    """From numbers of ranks and of ranks a node to the machine, with the nodes of the job. The
    default is nodes with a port each."""
    if machine is None or machine.name == "nodes":
        return as_nodes
    return partial(_built, machine)


def _built(machine: Blueprint, ranks: int, per_node: int) -> Topology:
    return machine.for_job(ranks, -(-ranks // per_node)).build(ranks)
