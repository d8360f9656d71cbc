"""A fit that starts at a machine's specification."""

from math import log

import numpy as np
import pytest

from experiments.calibration.fit import fit
from experiments.calibration.population.few_points import explored
from experiments.calibration.population.machine_runs import at_specification
from tests.experiments.calibration.population.conftest import blank, runs_of, specification


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
