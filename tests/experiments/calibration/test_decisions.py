"""The published rules by which MPI libraries choose an algorithm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.calibration.decisions import rules
from experiments.calibration.libraries import MPI
from grouped_cases import each_case
from simulator.collectives import find


@pytest.mark.parametrize("library", ["Open MPI", "Open MPI 4.0", "MPICH"])
@given(ranks=st.integers(2, 5000), power=st.floats(0, 31))
def test_a_rule_names_an_algorithm_of_its_collective(
    library: str, ranks: int, power: float
) -> None:
    known = rules(library)
    assert known is not None
    for collective, rule in known.items():
        algorithm = find(rule(ranks, 2.0**power))
        assert algorithm.collective.name == collective
        assert algorithm.defined(ranks), algorithm.name


@each_case(
    ("version", "collective", "ranks", "nbytes", "algorithm"),
    [
        ("OpenMPI 4.1.6", "all_reduce", 128, 65536, "tree"),
        ("OpenMPI 4.1.6", "all_reduce", 128, 131072, "recursive_doubling"),
        ("OpenMPI 4.1.6", "all_reduce", 128, 262144, "halving_doubling"),
        ("Open MPI 5.0.7", "all_gather", 32, 32 * 1023, "recursive_doubling_all_gather"),
        ("Open MPI 5.0.7", "all_gather", 32, 32 * 1024, "neighbor_exchange"),
        ("Open MPI 5.0.7", "all_gather", 33, 33 * 1024, "ring_all_gather"),
        ("Open MPI", "all_to_all", 256, 256 * 1023, "bruck_all_to_all"),
        ("Open MPI", "all_to_all", 256, 256 * 32768, "pairwise_sync"),
        ("OpenMPI 4.0.5, UCX, OMB 5.7", "all_reduce", 8, 9999, "recursive_doubling"),
        ("OpenMPI 4.0.5, UCX, OMB 5.7", "all_reduce", 8, 10000, "ring"),
        ("openmpi 3.1.6", "broadcast", 8, 2047, "tree_broadcast"),
        ("openmpi 3.1.6", "broadcast", 8, 2048, "split_binary_broadcast:segments=1"),
        ("openmpi 3.1.6", "broadcast", 4, 2**23, "chain_broadcast:segments=64"),
        ("Cray MPICH 8.1.29", "all_reduce", 16, 2048, "recursive_doubling"),
        ("Cray MPICH 8.1.29", "all_reduce", 16, 2052, "halving_doubling"),
        ("Cray MPICH 8.1.29", "all_reduce", 1024, 4092, "recursive_doubling"),
        ("MPICH 4.3", "all_gather", 12, 2**16, "bruck_all_gather"),
        ("MPICH 4.3", "broadcast", 16, 2**19, "scatter_allgather_ring_broadcast"),
    ],
)
def test_the_algorithm_changes_where_the_source_says(
    version: str, collective: str, ranks: int, nbytes: int, algorithm: str
) -> None:
    known = rules(version)
    assert known is not None
    assert known[collective](ranks, float(nbytes)) == algorithm


@each_case("version", ["Intel MPI 2021.9", "MVAPICH2 2.3", "Fujitsu MPI", "MPI", ""])
def test_other_libraries_publish_no_rules(version: str) -> None:
    assert rules(version) is None


def test_a_long_message_has_a_limited_number_of_pieces() -> None:
    known = rules("Open MPI 4.0")
    assert known is not None
    assert known["broadcast"](4096, 2.0**32) == "chain_broadcast:segments=1024"


def test_open_mpi_5_has_no_table_for_several_nodes_of_several_ranks() -> None:
    flat, levels = (rules("Open MPI 5.0.7", levels=several) for several in (False, True))
    assert flat is not None
    assert levels is not None
    assert flat.keys() - levels.keys() == {"all_reduce", "all_gather", "broadcast", "reduce"}
    assert rules("Open MPI 4.1.6", levels=True) == flat
    ran = [MPI.rule("all_reduce", 64, "Open MPI 5.0.7", nodes) for nodes in (None, 64, 1, 16)]
    assert [rule is not None for rule in ran] == [True, True, True, False]
