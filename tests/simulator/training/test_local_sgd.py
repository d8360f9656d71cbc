"""Local SGD: closed form, proof, and when workers average."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import tries
from refusals import refusal
from simulator.collectives.collective import ALL_REDUCE
from simulator.engines import simulate
from simulator.schedules import semantics
from simulator.schedules.timeline import Timeline
from simulator.training.conditions import Conditions, Failure
from simulator.training.local_sgd import LocalSGD
from simulator.training.measures import measure
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Plan, Setting
from topologies.catalogue import find as machine
from topologies.errors import InputError

MODEL = Model(
    "model",
    8,
    (
        Layer("a", 0.25, 0.5, tensors=(Tensor("w", 512.0),)),
        Layer("b", 0.5, 1.0, tensors=(Tensor("w", 512.0),)),
    ),
    gradient_dtype="fp16",
    optimizer=0.125,
)
BANDWIDTH, LATENCY = 1024.0, 2.0**-10


def planned(strategy: LocalSGD, ranks: int, steps: int, **how: object) -> Plan:
    topology = (
        machine("star").with_links(BANDWIDTH, LATENCY).build(max(ranks, 2), strategy.servers(ranks))
    )
    conditions = Conditions(**how)  # type: ignore[arg-type]
    return strategy.plan(MODEL, Setting(topology, ranks, steps, conditions))


def ran(strategy: LocalSGD, ranks: int, steps: int, **how: object) -> tuple[Plan, Timeline]:
    plan = planned(strategy, ranks, steps, **how)
    return plan, simulate(plan.schedule, plan.topology)


def ring(ranks: int) -> float:
    """2(p - 1) steps of a p-th of the parameters each, over two links."""
    return 2 * (ranks - 1) * (2 * LATENCY + MODEL.parameters / ranks / BANDWIDTH)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 3), st.integers(0, 3))
@tries(7, 30)
def test_steps_and_an_all_reduce_every_few(ranks: int, every: int, rounds: int, rest: int) -> None:
    """Steps that are left over end with an average as well."""
    steps = max(1, rounds * every + rest % every)
    plan, timeline = ran(LocalSGD(every=every), ranks, steps)
    averages = -(-steps // every)
    expected = steps * MODEL.compute + averages * (ring(ranks) if ranks > 1 else 0.0)
    assert timeline.makespan == pytest.approx(expected, rel=1e-12)
    assert plan.schedule.volume == pytest.approx(averages * 2 * (ranks - 1) * MODEL.parameters)
    assert plan.words[0].startswith(f"{averages} average")


def test_the_step_that_averages_is_longer() -> None:
    plan, timeline = ran(LocalSGD(every=3), 4, 6)
    measures = measure(plan, timeline)
    steps = [MODEL.compute, MODEL.compute, MODEL.compute + ring(4)] * 2
    assert measures.steps.tolist() == pytest.approx(steps)
    assert measures.exposed == pytest.approx(np.full(4, 2 * ring(4)))
    assert measures.samples_per_s == pytest.approx(6 * 4 * 8 / sum(steps))


@each_case("algo", ["ring", "tree", "parameter_server_apart"])
@each_case("ranks", [2, 3, 5])
def test_an_average_is_an_all_reduce(algo: str, ranks: int) -> None:
    semantics.check(planned(LocalSGD(every=4, algo=algo), ranks, 4).schedule, ALL_REDUCE)


def test_local_steps_average_out_noise() -> None:
    """The slowest of 8 workers is waited for every 10 steps instead of in each. Where messages take
    no time, that is the sum over rounds of the slowest sum of a round."""
    factors = Conditions(sigma=0.5).factors(20, 8)
    compute = MODEL.compute * factors
    expected = {
        every: compute.reshape(-1, every, 8).sum(axis=1).max(axis=1).sum() for every in (1, 10)
    }
    for every, seconds in expected.items():
        schedule = planned(LocalSGD(every=every), 8, 20, sigma=0.5).schedule
        timeline = simulate(schedule, machine("star").with_links(1e30, 0.0).build(8))
        assert timeline.makespan == pytest.approx(seconds, rel=1e-12)
    assert expected[10] < 0.8 * expected[1]


def test_a_failure_goes_back_to_the_checkpoint() -> None:
    """Steps 0 to 3 of which 3 fails after its forward, from the checkpoint before 2 on: 2 and 3
    come again. Averages come after 1, and after 3 when it comes again."""
    failure = Failure(1, 3, restart=5.0, timeout=0.5, checkpoint=2)
    plan, timeline = ran(LocalSGD(every=2), 3, 4, failure=failure)
    assert plan.useful.tolist() == [1, 1, 0, 0, 1, 1]
    lost = MODEL.compute + MODEL.forward + 5.5
    assert timeline.makespan == pytest.approx(4 * MODEL.compute + lost + 2 * ring(3))


def test_mistakes() -> None:
    assert "every is 0: it is 1 to 10000" in refusal(LocalSGD, every=0)
    with pytest.raises(InputError, match="ring_all_gather is of all_gather: take an all_reduce"):
        planned(LocalSGD(algo="ring_all_gather"), 2, 1)
