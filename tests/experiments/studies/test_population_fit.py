"""Populations: a known one is found again, few machines say little, and none sees what is left
out."""

from copy import copy
from math import log

import numpy as np
import pytest

from experiments.calibration.fit import fit
from experiments.calibration.library import PLUGIN, TCP, VERBS
from experiments.calibration.population.population import (
    ENOUGH,
    SPECIFIED,
    Population,
    shared_names,
)
from experiments.calibration.uncertainty import shipped_rules
from experiments.studies.population_fit import (
    GAP,
    LEARNT,
    OF_PLUGINS,
    SHARED,
    USUAL,
    MachineRuns,
    at_specification,
    fit_population,
    fit_transports,
)
from experiments.studies.populations import explored, specified, without
from experiments.studies.unseen_machines import learn_from
from tests.experiments.studies.conftest import CHANGED, SLOWER, blank, runs_of, specification

LOOSE = 0.5
"""A spread about the library's own model that lets the mean move where the data say so."""


@pytest.fixture(scope="module")
def population(machines: list[MachineRuns]) -> Population:
    return fit_population(machines, LOOSE)


def test_the_mean_stays_at_the_own_model_if_it_is_held_there(machines: list[MachineRuns]) -> None:
    near_own_model = fit_population(machines, 0.001, 0.0)
    for name in CHANGED:
        member = near_own_model.members[name]
        assert member.mean == pytest.approx(member.start, abs=0.01)


def test_a_known_population_is_found_again(population: Population) -> None:
    """What machines have in common, and that they hardly differ in it."""
    for name in CHANGED:
        member = population.members[name]
        assert member.mean - member.start == pytest.approx(SLOWER, abs=0.3)
    assert population.members["Simple network 1/β"].mean == pytest.approx(0.1, abs=0.1)
    assert population.members["Simple network 1/β"].spread < USUAL


def test_parameters_that_a_specification_gives_are_in_its_units(population: Population) -> None:
    units = {name for name, member in population.members.items() if member.unit == SPECIFIED}
    protocols, kinds = ("LL", "LL128", "Simple"), ("node", "network")
    links = {f"{name} {kind} 1/β" for name in protocols for kind in kinds}
    assert units == links | {"1/β of own copies"}


def test_one_machine_says_less_than_six(
    population: Population, machines: list[MachineRuns]
) -> None:
    """Means of few machines stay near the start of the library's own model."""
    alone = fit_population(machines[:1], LOOSE)
    for name in CHANGED:
        start = population.members[name].start
        assert start < alone.members[name].mean < population.members[name].mean


def test_spreads_of_few_machines_stay_near_what_is_usual(machines: list[MachineRuns]) -> None:
    spreads = fit_population(machines[:1]).spreads.values()
    assert max(spreads) < 2 * USUAL
    assert min(spreads) > USUAL / 2


def test_a_machine_is_predicted_from_its_specification(machines: list[MachineRuns]) -> None:
    """Links four times as fast as those of the others."""
    others = fit_population(machines[1:], LOOSE)
    misfit = np.log(specified(machines[0], others) / machines[0].model.points.seconds)
    assert np.median(np.abs(misfit)) < 0.2


def test_two_set_ups_of_a_machine_count_as_one_machine(machines: list[MachineRuns]) -> None:
    once, twice = (fit_population(runs, LOOSE) for runs in (machines, [*machines, machines[0]]))
    for name, member in once.members.items():
        assert twice.members[name][1:] == pytest.approx(member[1:], rel=1e-6)
    assert twice.machines == once.machines


def test_what_is_left_out_is_never_seen(machines: list[MachineRuns]) -> None:
    """Nonsense of the machine that is left out, in all its set-ups, changes nothing."""
    nonsense, again = runs_of(1), copy(machines[0])
    nonsense.model.points.seconds = nonsense.model.points.seconds * 100
    expected = fit_population(machines[1:])
    others = without("m1", [nonsense, *machines[1:], again])
    assert others.members == expected.members
    assert np.array_equal(others.correlations, expected.correlations)
    assert others.intervals == learn_from(machines[1:], shipped_rules())


def test_directions_add_up_to_the_spreads(population: Population) -> None:
    names = [*list(population.members)[::-1], "unknown"]
    moves = population.moves(names)
    spreads = [population.spreads.get(name, 0.0) for name in names]
    assert np.sqrt((moves**2).sum(axis=0)) == pytest.approx(spreads, abs=1e-3)


def test_corrections_of_single_numbers_of_nodes_are_of_no_population() -> None:
    from experiments.calibration.libraries import MPI
    from experiments.calibration.library_model import Model
    from experiments.calibration.observations import FitCurve, FitPoints

    sizes = np.array([1e3, 1e6])
    curves = [FitCurve(f"{p}", "all_reduce", ("ring",), p, p, sizes, sizes) for p in (4, 8)]
    names = shared_names(Model(FitPoints(curves), MPI))
    assert "" in names
    assert "network α by nodes" in names
    assert not any(name.endswith("nodes") and " at " in name for name in names)


def test_latencies_between_nodes_share_their_offset(machines: list[MachineRuns]) -> None:
    """The machines differ from the library's own model in LL alone, and in their launch."""
    distances = {
        name: member.mean - member.start
        for name, member in fit_population(machines, 0.001, 0.5, 0.001).members.items()
    }
    between = {name for name in distances if name.endswith(SHARED)}
    assert len(between) > 1
    assert min(distances[name] for name in between) > 0.05
    assert np.ptp([distances[name] for name in between]) < 0.01
    unmoved = [name for name in distances.keys() - between if not name.endswith((*LEARNT, GAP))]
    assert max(abs(distances[name]) for name in unmoved) < 0.01


def test_what_is_between_nodes_says_nothing_of_what_is_inside(population: Population) -> None:
    network = np.array(["network" in name for name in population.members])
    assert not population.correlations[np.ix_(network, ~network)].any()
    assert population.correlations[np.ix_(network, network)].any()


def test_kin_are_left_out_together() -> None:
    """Machines of a generation with one node have the same rules as if they were one machine."""
    alone = specification(1)._replace(nic=None)
    assert alone.kin == specification(2)._replace(nic=None).kin
    assert alone.kin != alone._replace(generation="ampere").kin
    assert specification(1).kin != specification(2).kin


def with_transport(runs: MachineRuns, transport: str) -> MachineRuns:
    changed = copy(runs)
    changed.transport = transport
    return changed


def test_a_transport_that_enough_machines_have_has_a_population(
    machines: list[MachineRuns],
) -> None:
    transports = [*[VERBS] * ENOUGH, *[TCP] * (ENOUGH - 1), ""]
    runs = [with_transport(*pair) for pair in zip(machines, transports, strict=True)]
    population = fit_transports(runs)
    assert list(population.transports) == [VERBS]
    assert population.over(TCP).members == population.members
    expected = fit_population([*runs[:ENOUGH], runs[-1]])
    assert population.over(VERBS).members == expected.members
    assert population.over(VERBS).machines == expected.machines
    assert population.members == fit_population(runs).members


def test_set_ups_of_a_machine_do_not_make_a_transport(machines: list[MachineRuns]) -> None:
    alike = [with_transport(machines[0], TCP)] * ENOUGH
    others = [with_transport(each, "") for each in machines[1:]]
    assert not fit_transports([*alike, *others]).transports


def test_plugins_have_only_latencies_between_nodes_of_their_own(
    machines: list[MachineRuns],
) -> None:
    runs = [with_transport(each, PLUGIN) for each in machines[:ENOUGH]]
    runs += [with_transport(each, VERBS) for each in machines[ENOUGH:]]
    population = fit_transports(runs)
    level = population.over(PLUGIN)
    alone = fit_population(runs[:ENOUGH])
    assert level.machines == alone.machines
    for name, member in level.members.items():
        others = alone if name.endswith(OF_PLUGINS) else population
        assert (member.mean, member.spread) == (
            others.members[name].mean,
            others.members[name].spread,
        )
    assert any(name.endswith(SHARED) for name in level.members)


def test_what_is_specified_starts_there_and_the_rest_as_in_the_library() -> None:
    model, machine = blank(), specification(3)
    start = at_specification(model, machine).start - model.start
    moved = {
        one.name: value for one, value in zip(model.parameters, start, strict=True) if value != 0
    }
    protocols, kinds = ("LL", "LL128", "Simple"), ("node", "network")
    assert moved.keys() == {f"{name} {kind} 1/β" for name in protocols for kind in kinds}
    between = machine.bandwidth("network", 4)
    assert between is not None
    slowness = np.exp(at_specification(model, machine).start[model.index["Simple network 1/β"]])
    assert slowness == pytest.approx(1 / 0.89 / between)


def test_jobs_on_one_node_say_nothing_of_networks() -> None:
    model = blank((2, 4))
    assert model.points.width == 0
    slow, fast = (at_specification(model, specification(number)).start for number in (1, 9))
    assert slow.tolist() == fast.tolist()
    assert slow[model.index["LL node 1/β"]] == pytest.approx(-log(141e9))


def test_runs_on_one_node_and_a_specification_say_how_fast_several_nodes_are() -> None:
    """The machine has slow NICs, which no fitted run crosses."""
    runs = runs_of(1)
    on_one = runs.model.points.nodes == 1
    long = ~on_one & runs.model.points.largest
    errors = []
    for model in (runs.model, at_specification(runs.model, runs.specification)):
        explored(model, model.start)
        errors.append(np.abs(fit(model, on_one).residuals[long]).mean())
    assert errors[1] < log(1.3) < errors[0]
