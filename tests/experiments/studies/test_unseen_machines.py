"""Rules of intervals that are learnt from machines left out."""

from copy import copy

import numpy as np
import pytest

from experiments.calibration.libraries import NCCL
from experiments.calibration.library_model import Model
from experiments.calibration.observations import FitCurve, FitPoints
from experiments.calibration.population.population import Spread, population_of
from experiments.calibration.population.specification import Specification
from experiments.calibration.uncertainty import shipped_rules
from experiments.studies.population_fit import MachineRuns, fit_population, fit_transports
from experiments.studies.populations import dumps
from experiments.studies.unseen_machines import START, Unseen, learn, learn_from, predicted, unseen
from simulator.uncertainty.interval import LEVEL, quantile

MACHINES, POINTS = 4000, 5


def made_up(spread: Spread, seed: int) -> list[Unseen]:
    """Machines whose errors have these rules. The points of a machine are off alike."""
    random = np.random.default_rng(seed)
    machines = []
    for number in range(MACHINES):
        parameters, software = (np.full(POINTS, random.uniform(0.01, top)) for top in (4, 1))
        several = np.full(POINTS, float(random.integers(2)))
        blank = Unseen(f"m{number}", np.zeros(POINTS), parameters, software, several)
        deviation = np.sqrt(blank.variance(spread, shipped_rules()))
        machines.append(blank._replace(off=deviation * random.standard_t(4)))
    return machines


@pytest.mark.parametrize(
    "spread",
    [
        Spread(0.2, 0.5, 0.4, 0.2),
        *(START._replace(**{name: 2 * max(START)}) for name in Spread._fields),
    ],
)
def test_rules_are_found_again(spread: Spread) -> None:
    assert learn(made_up(spread, 1), shipped_rules()) == pytest.approx(spread, abs=0.12)


def test_intervals_hold_the_share_of_their_level() -> None:
    spread = learn(made_up(Spread(0.4, 0.2, 0.3, 0.5), 1), shipped_rules())
    unseen_machines = made_up(Spread(0.4, 0.2, 0.3, 0.5), 2)
    inside = [
        abs(each.off[0]) <= quantile(LEVEL) * np.sqrt(each.variance(spread, shipped_rules())[0])
        for each in unseen_machines
    ]
    assert np.mean(inside) == pytest.approx(LEVEL, abs=0.06)


def test_a_few_wild_machines_do_not_make_all_intervals_wide() -> None:
    base, machines = shipped_rules(), made_up(Spread(0.3, 0.3, 0.3, 0.3), 4)[:40]
    wild = [each._replace(off=each.off * 20) for each in machines[:4]]
    tame, spread = learn(machines, base), learn([*wild, *machines[4:]], base)
    usual, wider = (
        np.median([np.median(each.half(rules, base)) for each in machines])
        for rules in (tame, spread)
    )
    assert usual < wider < 2 * usual


def test_runs_that_are_no_example_teach_nothing(machines: list[MachineRuns]) -> None:
    odd = copy(machines[0])
    odd.specification = odd.specification._replace(why_not="noisy")
    without = fit_transports(machines[1:])
    assert odd.machine not in without.machines
    assert dumps(fit_transports([odd, *machines[1:]])) == dumps(without)
    base = shipped_rules()
    assert learn_from([odd, *machines[1:]], base) == learn_from(machines[1:], base)


def test_a_machine_counts_once_however_many_set_ups_it_has() -> None:
    machines = made_up(Spread(0.4, 0.2, 0.3, 0.5), 3)[:20]
    again = [*machines, *[machines[0]] * 5]
    expected = learn(machines, shipped_rules())
    assert learn(again, shipped_rules()) == pytest.approx(expected, rel=1e-3)


def test_machines_that_are_unlike_have_wider_intervals(machines: list[MachineRuns]) -> None:
    """One machine is twice as slow as its specification says."""
    slow = unseen(machines[0], fit_population(machines[1:]))
    slow = slow._replace(off=slow.off + np.log(2))
    alike = [unseen(each, fit_population(machines[1:])) for each in machines[1:]]
    base = shipped_rules()
    usual, wider = (learn(some, base) for some in (alike, [*alike, slow]))
    assert np.all(slow.variance(wider, base) > slow.variance(usual, base))


def test_one_machine_alone_has_no_rules_to_learn(machines: list[MachineRuns]) -> None:
    assert learn_from(machines[:1], shipped_rules()) == START


@pytest.mark.parametrize(
    ("version", "per_node", "generation", "trees"),
    [
        ("NCCL 2.20.5", 8, "hopper", True),
        ("NCCL", 8, "hopper", True),
        ("NCCL 2.17.1", 8, "hopper", False),
        ("NCCL 2.20.5", 4, "hopper", False),
        ("NCCL 2.20.5", 8, "ampere", False),
    ],
)
def test_large_sizes_are_predicted_by_nvls_tree_where_nccl_has_it(
    version: str, per_node: int, generation: str, trees: bool
) -> None:
    sizes = np.array([2.0**12, 2.0**32])
    ring = FitCurve("p16", "all_reduce", ("ring",), 2 * per_node, 2, sizes, sizes, library=version)
    about = Specification("m", "m_*", "GPU", generation, per_node, 370e9, 8, 50e9, "ib", "")
    runs = MachineRuns(Model(FitPoints([ring]), NCCL), about)
    population = population_of("NCCL")
    assert population is not None
    inner = runs.inner(population)
    runs.model.explore(inner)
    small, large = predicted(runs, population) / runs.model.predict(inner)
    assert small == 1.0
    assert (large < 0.9) == trees
    assert trees or large == 1.0
