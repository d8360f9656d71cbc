"""The algorithms among which a recommendation chooses, and the choice of the library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.simulations.case import Case
from experiments.simulations.rules import DEFAULT, Rules
from experiments.simulations.workload import MachineBuilder
from experiments.spellings import NCCL_TUNER
from simulator.collectives import Algorithm, find, of_collective
from simulator.collectives.operation_counts import estimate
from simulator.collectives.rings import rings_of
from simulator.cost_models.nccl import COLLECTIVES, Choice, NcclJob, channels, choice
from simulator.profile import Profile
from topologies.columns import distinct
from topologies.errors import InputError
from topologies.topology import Topology

TRIED_OPERATIONS = 2.0**18
"""Operations of an algorithm that is tried, at most."""
PACKED_RANKS = 32
"""Ranks up to which trees are packed into the machine; for more that takes too long."""
OPTIONS = {
    "segments": (1, 4, 16, 64),
    "channels": (2, 4, 8),
    "trees": (1,),
    "radix": (4, 8),
}
"""The values of options that are tried besides the default."""
GENERATIONS = {"nvlink2": "volta", "nvlink3": "ampere", "nvlink4": "hopper", "nvlink5": "blackwell"}
"""NCCL's generations by the links of GPUs, as the notes of a machine name them."""
USUAL_ALGORITHMS = {
    "all_reduce": "rings",
    "all_gather": "rings_all_gather",
    "reduce_scatter": "rings_reduce_scatter",
    "broadcast": "chains_broadcast",
    "reduce": "chains_reduce",
    "all_to_all": "pairwise",
}
"""What libraries run if nothing is known of their choice."""


def cases(
    collective: str,
    ranks: int,
    machine: MachineBuilder,
    rules: Rules = DEFAULT,
    profile: Profile | None = None,
    chosen: Sequence[Algorithm] = (),
) -> tuple[list[Case], dict[str, str]]:
    """Every algorithm of a collective that fits the machine, with a few values of its options; of
    `chosen` algorithms only those. Also why each other algorithm is not tried, by name."""
    tried, untried = list[Case](), dict[str, str]()
    for algorithm in chosen or of_collective(collective):
        if algorithm.servers:
            untried[algorithm.name] = "it needs further devices"
        elif not algorithm.defined(ranks):
            untried[algorithm.name] = f"it does not exist for {ranks} ranks"
        elif algorithm.name.startswith("optimal") and ranks > PACKED_RANKS:
            untried[algorithm.name] = (
                f"packing trees for more than {PACKED_RANKS} ranks takes long: run it alone"
            )
        elif not (listed := list(variants(algorithm, ranks))):
            untried[algorithm.name] = "it has too many messages"
        else:
            for variant in listed:
                try:
                    topology = machine(ranks, 0)
                    tried.append(Case(variant, ranks, topology, rules, profile))
                except InputError as error:
                    untried[algorithm.name] = str(error)
                    break
    if not tried:
        raise InputError(f"no algorithm of {collective} runs on {ranks} ranks of this machine")
    return tried, untried


def variants(algorithm: Algorithm, ranks: int) -> Iterator[Algorithm]:
    """The algorithm, and it with another value of one of its options, without those that have too
    many messages. Of trees that are packed between many ranks it is only the values that are packed
    soon. One with options stays as it is.

    >>> [each.name for each in variants(find("chain_reduce"), 4)][:3]
    ['chain_reduce', 'chain_reduce:segments=1', 'chain_reduce:segments=4']
    """
    if algorithm.name != algorithm.listed_name:
        yield algorithm
        return
    # More trees than one a rank take seconds to pack.
    if algorithm.name.startswith("optimal") and ranks > 16:
        for values in ("trees=1", "segments=16,trees=1", "segments=4,trees=1"):
            yield find(f"{algorithm.name}:{values}")
        return
    if estimate(algorithm, ranks) <= TRIED_OPERATIONS:
        yield algorithm
    for key, value in algorithm.options.items():
        for other in OPTIONS.get(key, ()):
            variant = find(f"{algorithm.name}:{key}={other}")
            if (
                other != value
                and variant.defined(ranks)
                and estimate(variant, ranks) <= TRIED_OPERATIONS
            ):
                yield variant


def library_choice(collective: str, topology: Topology, ranks: int, nbytes: float) -> Choice | None:
    """The choice of NCCL by its own model, whose algorithm is ring or tree; None if the machine has
    no NVLinks, or the model has no such collective."""
    kinds = {note.partition(":")[0] for note in topology.notes} & GENERATIONS.keys()
    if not kinds or collective not in COLLECTIVES or ranks < 2:
        return None
    nodes = len(distinct(topology.node[topology.placement[:ranks]]))
    together = channels(GENERATIONS[min(kinds)], rings_of(topology, ranks).bandwidth)
    return choice(NcclJob(collective, ranks, nodes, together), nbytes)


def usual_name(collective: str, chosen: Choice | None) -> str:
    """Our algorithm for a choice of NCCL, or what libraries usually run.

    >>> usual_name("all_reduce", Choice(1e-6, "tree", "LL")), usual_name("broadcast", None)
    ('double_tree', 'chains_broadcast')
    """
    name = USUAL_ALGORITHMS.get(collective) or of_collective(collective)[0].name
    is_tree = chosen is not None and (collective, chosen.algorithm) == ("all_reduce", "tree")
    return "double_tree" if is_tree else name


def nccl_name(algorithm: Algorithm) -> str:
    """The name of an algorithm in NCCL's tuner; empty if NCCL does not have it.

    >>> nccl_name(find("rings:channels=2")) if "channels" in find("rings").options else "ring"
    'ring'
    """
    return NCCL_TUNER.get(algorithm.listed_name, "")
