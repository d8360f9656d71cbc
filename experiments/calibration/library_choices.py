"""What a library can run on a machine, and what it takes of that."""

from __future__ import annotations

from dataclasses import replace

from experiments.calibration.decisions import NAMES
from experiments.calibration.libraries import FUJITSU, MPI, NCCL
from experiments.calibration.library import ELEMENT, Library
from experiments.spellings import MPI_RUNS, NCCL_TUNER
from simulator.effects.jobs import used_nodes
from topologies.topology import Topology

OF_MPI = {
    name.partition(":")[0]
    for names in (*MPI_RUNS.values(), *(words.values() for words in NAMES.values()))
    for name in names
}
FORCED = {NCCL.name: NCCL_TUNER.keys(), MPI.name: OF_MPI, FUJITSU.name: OF_MPI}
"""The algorithms that a library runs where they are forced, besides its own choices."""


def choices(
    library: Library, version: str, collective: str, topology: Topology, nbytes: float
) -> tuple[str, ...]:
    """The algorithms of which a job on all ranks of a machine runs the fastest, whatever their
    pieces. If this version of the library has a published rule, the one by that."""
    ranks = topology.ranks
    rule = library.rule(collective, ranks, version, int(used_nodes(topology)))
    names = (rule(nbytes),) if rule else library.algorithms_on(topology, collective)
    return replace(library, pieces={}).running(names, nbytes / ELEMENT, ranks)


def runs(library: Library, name: str, topology: Topology) -> bool:
    """Whether a library can run an algorithm in a job on all ranks of a machine. NCCL has NVLS on
    several nodes only if switches between them reduce, NVLSTree only on several nodes, and PAT only
    with one rank on each (src/graph/tuning.cc)."""
    forced = name in FORCED.get(library.name, ()) and name not in library.over_nics
    if not forced and name not in library.known:
        return False
    nodes = used_nodes(topology)
    if name == "nvls":
        return nodes == 1 or bool((topology.in_network & (topology.node < 0)).any())
    if name == "nvls_tree":
        return nodes > 1
    return nodes == topology.ranks or not name.startswith("pat_")
