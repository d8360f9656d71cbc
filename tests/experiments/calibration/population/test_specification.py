"""What makers say of the measured machines."""

from collections import Counter
from math import exp, log

import pytest

from experiments.calibration.effects.effect import Parameter
from experiments.calibration.effects.link_effects import FED
from experiments.calibration.libraries import GLOO, MPI, NCCL
from experiments.calibration.library import PLUGIN, VERBS, Library
from experiments.calibration.population.specification import (
    GBPS,
    KERNELS,
    kernels,
    specification_of,
    specifications,
    transport,
)
from experiments.measurements import Curve
from grouped_cases import each_case
from tests.experiments.studies.conftest import specification
from topologies.errors import InputError


def curve(name: str) -> Curve:
    return Curve("all_reduce", 8, 2, (), (), f"folder/{name}.csv")


def test_every_machine_has_figures_and_a_source() -> None:
    for row in specifications():
        assert row.machine
        assert row.source
        assert row.node or row.nic
        assert row.per_node >= 1
    patterns = Counter(row.runs for row in specifications())
    assert max(patterns.values()) == 1


def test_set_ups_share_a_machine() -> None:
    several = Counter(row.machine for row in specifications())
    assert several["ABCI V100"] > 1


def test_infiniband_and_roce_are_alike() -> None:
    of_mpi = {row.interconnect: transport(MPI, row.interconnect) for row in specifications()}
    assert of_mpi["InfiniBand"] == of_mpi["RoCE"] == VERBS
    assert of_mpi["none"] == ""
    assert len({VERBS, of_mpi["Slingshot"], of_mpi["TCP"], of_mpi["EFA"], of_mpi["Tofu"]}) == 5


def test_nccl_takes_all_else_through_the_host() -> None:
    of_nccl = {row.interconnect: transport(NCCL, row.interconnect) for row in specifications()}
    assert of_nccl["InfiniBand"] == of_nccl["RoCE"] == VERBS
    assert of_nccl["none"] == ""
    assert of_nccl["Slingshot"] == of_nccl["TCP"] == PLUGIN


@pytest.mark.parametrize("library", [NCCL, MPI])
def test_tcp_adds_the_kernels_to_each_message(library: Library) -> None:
    """Twice α of a link, because a message crosses two."""
    latency = Parameter("LL network α", 1.35e-6, "s", 1.0, "network")
    added = exp(kernels(library, "TCP", latency))
    assert 2 * 1.35e-6 * added == pytest.approx(2 * 1.35e-6 + KERNELS)
    assert kernels(library, "ethernet", latency) == kernels(library, "TCP", latency)


@each_case(
    ("library", "interconnect", "name", "kind"),
    [
        (NCCL, "RoCE", "LL network α", "network"),
        (NCCL, "Slingshot", "LL network α", "network"),
        (NCCL, "TCP", "LL node α", "node"),
        (NCCL, "TCP", "LL network 1/β", "network"),
        (MPI, "TCP", "network g", "network"),
        (GLOO, "TCP", "tcp network α", "network"),
    ],
)
def test_nothing_else_waits_for_kernels(
    library: Library, interconnect: str, name: str, kind: str
) -> None:
    assert kernels(library, interconnect, Parameter(name, 1e-6, "s", 1.0, kind)) == 0


def test_runs_are_found_by_the_names_of_their_files() -> None:
    found = specification_of(curve("mn5acc_nccl_ring_ar_p16"))
    assert (found.machine, found.nic) == ("MareNostrum 5 ACC", 25 * GBPS)


def test_runs_without_a_machine_are_refused() -> None:
    with pytest.raises(InputError, match=r"^new_ar_p8: no machine of machines.csv has such runs"):
        specification_of(curve("new_ar_p8"))


@each_case(("width", "nics"), [(1, 1), (2, 2), (4, 4), (8, 4)])
def test_ranks_use_as_many_nics_as_they_have(width: int, nics: int) -> None:
    machine = specification(1)
    assert machine.bandwidth("network", width) == pytest.approx(nics * 10e9)
    assert machine.bandwidth("node", width) == 200e9


@pytest.mark.parametrize(("nics", "power"), [(1, 0.0), (2, -0.5), (4, -1.0)])
def test_ranks_share_nics(nics: int, power: float) -> None:
    assert specification(1)._replace(nics=nics).sharing == pytest.approx(power)


def test_only_specified_parameters_have_an_offset() -> None:
    machine = specification(1)
    link = Parameter("Simple ib 1/β", 1e-9, "s/B", 1.0, "ib", specified=True)
    assert machine.offset(link, 4) == pytest.approx(-log(40e9))
    assert machine.offset(Parameter("launch", 1e-6, "s", 1.0), 4) == 0.0
    assert machine._replace(nic=None).offset(link, 4) is None
    between = Parameter("LL network 1/β", 1e-9, "s/B", 1.0, "network", specified=True)
    assert machine.offset(between, 4) == pytest.approx(-log(40e9))
    assert machine._replace(nic=1e9).offset(between, 4) == pytest.approx(-log(FED))
    assert machine._replace(nic=None).offset(between, 4) is None


def test_ll_on_one_node_has_what_nccl_says() -> None:
    hopper = specification(1)._replace(node=370.8e9, generation="hopper")
    short, longer = (
        Parameter(f"{name} node 1/β", 1e-9, "s/B", 1.0, "node", specified=True)
        for name in ("LL", "LL128")
    )
    assert hopper.offset(short, 0) == hopper.offset(short, 4) == pytest.approx(-log(141e9))
    assert hopper._replace(node=100e9).offset(short, 0) == pytest.approx(-log(100e9))
    assert hopper.offset(longer, 0) == pytest.approx(-log(370.8e9))
    assert hopper._replace(node=None).offset(short, 0) is None
    assert hopper._replace(generation="cdna3").offset(short, 0) is None


def test_ranks_share_what_is_specified_of_nics() -> None:
    machine = specification(1)
    ports = Parameter("network 1/β by ranks a node", 0.0, "power", 1.0, "network", specified=True)
    assert machine.offset(ports, 4) == -1.0
