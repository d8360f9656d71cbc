"""Populations: what ships, where a calibration starts, and what makers say of machines."""

from collections import Counter
from math import exp, log

import numpy as np
import pytest

from experiments.calibration.calibrated_profile import at_population, calibrate
from experiments.calibration.effects.effect import Parameter
from experiments.calibration.effects.link_effects import FED
from experiments.calibration.known_paths import machine_for
from experiments.calibration.libraries import GLOO, MPI, NCCL
from experiments.calibration.library import PLUGIN, VERBS, Library
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.population.library_profile import profile_for
from experiments.calibration.population.population import SPECIFIED, Spread, parse, population_of
from experiments.calibration.population.specification import (
    GBPS,
    KERNELS,
    kernels,
    specification_of,
    specifications,
    transport,
)
from experiments.measurements import Curve
from experiments.studies.populations import dumps
from grouped_cases import each_case
from tests.experiments.studies.conftest import specification
from topologies.catalogue import find
from topologies.errors import InputError

GOOD = """library: NCCL
made: by hand
machines: [one, two]
error: 0.2
parameters:
  launch: {unit: s, start: 1.0e-5, mean: 2.0e-5, spread: 0.5, machines: 2}
  network α by nodes: {unit: power, start: 0.0, mean: -0.1, spread: 0.2, machines: 1}
intervals: {machine: 0.4, between: 0.1, software: 0.2, parameters: 0.9}
correlations:
  network α by nodes: [0.3]
"""


def test_a_population_is_read_back_as_it_was_written() -> None:
    population = parse(GOOD, "x.yaml")
    again = parse(dumps(population), "y.yaml")
    assert again.members.keys() == population.members.keys()
    for name, member in again.members.items():
        assert member.unit == population.members[name].unit
        assert member[1:] == pytest.approx(population.members[name][1:], abs=1e-3)
    assert again.correlations.tolist() == [[1, 0.3], [0.3, 1]]
    assert again.intervals == Spread(0.4, 0.1, 0.2, 0.9)


def test_a_file_of_an_earlier_version_has_no_intervals() -> None:
    old = parse(GOOD[: GOOD.index("intervals")], "x.yaml")
    assert old.intervals is None
    assert old.correlations.tolist() == [[1, 0], [0, 1]]
    assert "intervals" not in dumps(old)


LEVEL = """transports:
  verbs:
    machines: [one]
    parameters:
      launch: {unit: s, start: 1.0e-5, mean: 3.0e-5, spread: 0.4, machines: 1}
"""


def test_a_transport_is_read_back_with_the_rules_of_all_machines() -> None:
    again = parse(dumps(parse(GOOD + LEVEL, "x.yaml")), "y.yaml")
    verbs = again.over("verbs")
    assert verbs.machines == ("one",)
    assert verbs.members["launch"].mean == pytest.approx(-10.414, abs=1e-3)
    assert (verbs.error, verbs.intervals) == (again.error, again.intervals)
    assert again.over("TCP").members == again.members


def test_values_are_as_a_fit_counts_them() -> None:
    launch = parse(GOOD, "x.yaml").members["launch"]
    assert (launch.start, launch.mean) == pytest.approx((-11.513, -10.820), abs=1e-3)
    assert parse(GOOD, "x.yaml").spreads == {"launch": 0.5, "network α by nodes": 0.2}


@pytest.mark.parametrize("library", ["NCCL", "MPI"])
def test_populations_ship(library: str) -> None:
    whole = population_of(library)
    assert whole is not None
    assert len(whole.machines) >= 5
    for level in (whole, *whole.transports.values()):
        assert "launch" in level.members
        assert all(0 < spread <= 10 for spread in level.spreads.values())
        assert {"s", "s/B", "power", SPECIFIED} >= {one.unit for one in level.members.values()}
        assert np.abs(level.correlations).max() <= 1


def test_a_library_that_nobody_measured_has_no_population() -> None:
    assert population_of("gloo") is None


SIZES = np.geomspace(2.0**13, 2.0**30, 2)
MACHINE = find("hgx_h100:nodes=2")


def points(seconds: np.ndarray = SIZES / 1e10) -> FitPoints:
    return FitPoints([FitCurve("mine", "all_reduce", ("ring",), 16, 2, SIZES, seconds)])


def test_links_are_those_of_the_library_on_the_machine() -> None:
    topology = MACHINE.build(16)
    model = at_population(Model(points(), NCCL, machine_for(MACHINE)), topology)
    predicted = profile_for("nccl", topology).profile
    for own, other in zip(model.profile(model.start).protocols, predicted.protocols, strict=True):
        for kind, link in own.links.items():
            assert link.latency == pytest.approx(other.links[kind].latency, rel=0.05)
            assert link.bandwidth == pytest.approx(other.links[kind].bandwidth, rel=0.05)


@pytest.mark.parametrize("library", [NCCL, MPI])
def test_without_a_machine_it_starts_at_the_mean_of_machines(library: Library) -> None:
    model, known = Model(points(), library), population_of(library.name)
    assert known is not None
    started = dict(
        zip((one.name for one in model.parameters), at_population(model).start, strict=True)
    )
    assert started["launch"] == pytest.approx(known.members["launch"].mean)


def test_a_library_without_a_population_starts_at_its_own_model() -> None:
    model = Model(points(), GLOO)
    assert at_population(model) is model


def test_two_points_move_what_the_library_predicts() -> None:
    """Everything takes twice as long as the library predicts."""
    machine = machine_for(MACHINE)
    model = at_population(Model(points(), NCCL, machine), machine(16, 8))
    for _ in range(2):
        model.explore(model.start)
    usual = model.predict(model.start)
    profile = calibrate(points(2 * usual), NCCL, machine).fit
    assert profile.predicted == pytest.approx(2 * usual, rel=0.2)


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
    specification = specification_of(curve("mn5acc_nccl_ring_ar_p16"))
    assert (specification.machine, specification.nic) == ("MareNostrum 5 ACC", 25 * GBPS)


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
