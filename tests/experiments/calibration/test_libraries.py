"""What libraries run: by collective, label and machine."""

import pytest

from experiments.calibration.libraries import MPI, NCCL
from topologies.catalogue import find

CHAINS = {"chain_broadcast": "chains_broadcast", "chain_reduce": "chains_reduce"}


def test_the_ring_of_nccl_takes_all_nics_of_a_machine() -> None:
    library = NCCL.on(find("mn5_acc:nodes=2"))
    assert library.algorithms("all_reduce", "ring") == ("rings",)
    assert library.algorithms("all_reduce") == ("rings", "double_tree")
    assert library.algorithms("all_gather", "ring_all_gather") == ("rings_all_gather",)
    assert library.algorithms("reduce_scatter") == ("rings_reduce_scatter",)
    assert library.algorithms("broadcast") == ("chains_broadcast",)
    assert library.algorithms("reduce", "chain_reduce") == ("chains_reduce",)
    assert library.algorithms("all_reduce", "tree") == NCCL.algorithms("all_reduce", "tree")


@pytest.mark.parametrize("machine", ["nodes:per_node=4", "star", None])
def test_a_node_with_a_port_has_one_ring(machine: str | None) -> None:
    assert NCCL.on(find(machine) if machine else None) == NCCL


@pytest.mark.parametrize("one", CHAINS)
def test_chains_over_all_nics_cost_what_a_chain_does(one: str) -> None:
    several = CHAINS[one]
    assert NCCL.pieces[several] == NCCL.pieces[one]
    for prior in NCCL.protocols:
        assert prior.factors.get(several) == prior.factors.get(one)


def test_the_ring_of_mpi_takes_one_nic() -> None:
    assert MPI.on(find("mn5_acc:nodes=2")).algorithms("all_reduce", "ring") == ("ring",)
