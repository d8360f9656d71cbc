"""The graph of a run says all that its schedule does."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddp_steps import MODEL, ONE_BUCKET, quiet, ran, star
from law_cases import tries
from simulator.collectives import find
from simulator.engines import simulate
from simulator.steps.written import write
from simulator.training.conditions import Conditions, Failure
from simulator.training.ddp import DDP
from simulator.training.local_sgd import LocalSGD
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train
from simulator.training.strategy import Strategy

ALGORITHMS = {
    "all_reduce": "ring",
    "barrier": "ring",
    "all_gather": "ring_all_gather",
    "broadcast": "tree_broadcast",
}
"""The algorithm of each collective of a run whose all-reduces are rings."""


@given(
    strategy=st.one_of(
        st.builds(LocalSGD, every=st.integers(1, 3)),
        st.builds(
            DDP,
            algo=st.just("ring"),
            small=st.just("ring"),
            bucket=st.sampled_from([0.0, 2.0 * 4096]),
            overlap=st.booleans(),
            metric=st.booleans(),
            sync_batch_norm=st.booleans(),
            streams=st.integers(1, 3),
            launch=st.sampled_from([0.0, 0.01]),
            prepare=st.sampled_from([0.0, 0.3]),
            compress=st.booleans(),
            find_unused=st.booleans(),
            startup=st.booleans(),
            accumulate=st.integers(1, 2),
        ),
    ),
    ranks=st.integers(2, 5),
    sigma=st.sampled_from([0.0, 0.2]),
    failure=st.sampled_from([None, Failure(1, 1, 0.5, checkpoint=2)]),
)
@tries(40)
def test_the_graph_of_a_run_takes_as_long_as_its_schedule(
    strategy: Strategy, ranks: int, sigma: float, failure: Failure | None
) -> None:
    conditions = Conditions(sigma=sigma, seed=1, failure=failure)
    plan = strategy.plan(MODEL, Setting(star(ranks), ranks, 2, conditions))
    calls = [
        call._replace(algorithm=find(ALGORITHMS[call.collective])) for call in plan.graph.calls
    ]
    written = write(replace(plan.graph, calls=tuple(calls)), plan.topology)
    expected = train(plan).makespan
    assert simulate(written.schedule, written.topology).makespan == pytest.approx(
        expected, rel=1e-9
    )


@pytest.mark.parametrize("compress", [False, True])
def test_launches_and_packing_are_communication(compress: bool) -> None:
    """On one stream and on two, of one bucket."""
    model = replace(MODEL, memory_bandwidth=8192.0)
    options = {"launch": 0.25, "copies": 0.0, "hooks": 0.0, "compress": compress}
    one, two = (
        quiet(bucket=ONE_BUCKET, streams=streams, slowdown=0.5, **options) for streams in (1, 2)
    )
    measured = [ran(strategy, 3, model=model)[2] for strategy in (one, two)]
    for name in ("step", "exposed", "hidden"):
        first, second = (getattr(each, name) for each in measured)
        assert first == pytest.approx(second, rel=1e-12)
