"""Rules of intervals on machines that were left out."""

import numpy as np
import pytest

from experiments.calibration.population.population import Spread
from experiments.calibration.uncertainty import shipped_rules
from experiments.studies.machine_rules import (
    START,
    WIDEST,
    Unseen,
    learn,
    learn_from,
    unseen,
)
from experiments.studies.population_fit import MachineRuns, fit_population
from simulator.uncertainty.interval import LEVEL, quantile

MACHINES, POINTS = 400, 5


def made_up(spread: Spread, seed: int) -> list[Unseen]:
    """Machines whose errors have these rules. The points of a machine are off alike."""
    random = np.random.default_rng(seed)
    machines = []
    for number in range(MACHINES):
        parameters = np.full(POINTS, random.uniform(0.01, 4))
        blank = Unseen(f"m{number}", np.zeros(POINTS), parameters)
        deviation = np.sqrt(blank.variance(spread, shipped_rules()))
        machines.append(blank._replace(off=deviation * random.standard_t(4)))
    return machines


@pytest.mark.parametrize("spread", [Spread(0.5, 0.2), Spread(0.2, 0.8)])
def test_rules_are_found_again(spread: Spread) -> None:
    assert learn(made_up(spread, 1), shipped_rules()) == pytest.approx(spread, abs=0.12)


def test_intervals_hold_the_share_of_their_level() -> None:
    spread = learn(made_up(Spread(0.4, 0.5), 1), shipped_rules())
    unseen_machines = made_up(Spread(0.4, 0.5), 2)
    inside = [
        abs(each.off[0]) <= quantile(LEVEL) * np.sqrt(each.variance(spread, shipped_rules())[0])
        for each in unseen_machines
    ]
    assert np.mean(inside) == pytest.approx(LEVEL, abs=0.06)


def test_a_few_wild_machines_do_not_make_all_intervals_wide() -> None:
    base, machines = shipped_rules(), made_up(Spread(0.3, 0.3), 4)[:40]
    machines[:10] = [each._replace(off=each.off * 20) for each in machines[:10]]
    spread = learn(machines, base)
    half = np.median([np.median(each.half(spread, base)) for each in machines])
    error = np.median([np.median(np.abs(each.off)) for each in machines])
    assert half == pytest.approx(WIDEST * error, rel=0.05)


def test_a_machine_counts_once_however_many_set_ups_it_has() -> None:
    machines = made_up(Spread(0.4, 0.5), 3)[:20]
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
