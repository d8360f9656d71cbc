"""What strategies have in common: graphs of runs, collectives, names, and slower computations."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddp_steps import MODEL, ONE_BUCKET, quiet, ran, star
from law_cases import tries
from refusals import refusal
from simulator.collectives import find as find_algorithm
from simulator.collectives.collective import ALL_REDUCE
from simulator.engines import simulate
from simulator.schedules import semantics
from simulator.steps.written import write
from simulator.training import find as find_strategy
from simulator.training import strategies
from simulator.training.communicator import Communicator
from simulator.training.conditions import Conditions, Failure
from simulator.training.ddp import DDP
from simulator.training.local_sgd import LocalSGD
from simulator.training.measures import measure
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Setting
from simulator.training.plan_simulation import train
from simulator.training.strategy import Strategy
from topologies.catalogue import find as find_machine
from topologies.errors import InputError
from topologies.shapes import full_mesh

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
        call._replace(algorithm=find_algorithm(ALGORITHMS[call.collective]))
        for call in plan.graph.calls
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


def mesh(ranks: int) -> Setting:
    """Workers on a machine of four devices."""
    return Setting(full_mesh(4, bandwidth=1.0), ranks)


@pytest.mark.parametrize("small", ["rings", "nvls", "parameter_server_apart"])
def test_small_messages_need_neither_a_machine_nor_a_server(small: str) -> None:
    assert refusal(Communicator, mesh(4), small=small).startswith(
        f"small is '{small}': a plain all-reduce among the workers, like tree or"
    )


def test_training_searches_no_options() -> None:
    with pytest.raises(InputError, match=r"^ring:segments=best: best is found for a lone coll"):
        Communicator(mesh(4), "ring:segments=best")


def test_large_and_small_messages_have_their_algorithms() -> None:
    communicator = Communicator(mesh(4), "recursive_doubling", "naive")
    for schedule, name in (
        (communicator.large(64.0), "recursive_doubling"),
        (communicator.small(8.0), "naive"),
    ):
        semantics.check(schedule, ALL_REDUCE)
        assert schedule.volume == find_algorithm(name).build(4, schedule.nbytes_total).volume
    assert (communicator.unit.ranks, communicator.words) == (4, ())


def test_a_server_is_counted_and_a_lone_worker_sends_nothing() -> None:
    unit = Communicator(mesh(3), "parameter_server_apart").unit
    assert (unit.workers, unit.ranks) == (3, 4)
    assert Communicator(mesh(1), "rings").large(64.0).volume == 0


def test_strategies_are_those_that_files_declare() -> None:
    assert list(strategies()) == ["ddp", "dp", "ssgd", "asgd", "ssp", "fsdp", "local_sgd"]
    for name, strategy in strategies().items():
        assert find_strategy(name) is strategy


def test_an_unknown_strategy_is_refused_with_the_nearest_name() -> None:
    assert "did you mean 'local_sgd'" in refusal(find_strategy, "local_sdg")
    assert "take fsdp, or a plan of any stage, like " in refusal(find_strategy, "zero2")


WIDE = Model(
    "m", 1, tuple(Layer(f"l{k}", 1.0, 2.0, tensors=(Tensor("w", 1024.0),)) for k in range(3))
)


def computing(slowdown: float, bandwidth: float = 1024.0) -> np.ndarray:
    topology = find_machine("star").with_links(bandwidth=bandwidth, latency=0.0).build(2)
    plan = DDP(bucket=0.0, slowdown=slowdown).plan(WIDE, Setting(topology, 2))
    return measure(plan, train(plan)).computing


def test_a_computation_is_slower_while_its_rank_communicates() -> None:
    """Backwards of 2 s; buckets of 1 s from 5 s on: half of the second and of the third backward
    goes half as fast... as long as the bucket is on its way: 1 s in which 1 / 1.5 s of work is
    done."""
    lost = 1 - 1 / 1.5
    assert computing(0.5).tolist() == pytest.approx([9 + 2 * lost] * 2)


def test_without_communication_nothing_is_slower() -> None:
    assert computing(0.5, bandwidth=1e18).tolist() == pytest.approx([9.0] * 2)


def test_the_lengths_are_those_of_the_timeline_that_they_make() -> None:
    topology = find_machine("star").with_links(bandwidth=700.0, latency=1e-3).build(4)
    plan = DDP(bucket=0.0, slowdown=0.3).plan(WIDE, Setting(topology, 4, steps=2))
    timeline = train(plan)
    measures = measure(plan, timeline)
    assert measures.computing == pytest.approx(2 * 9 + measures.hidden * (1 - 1 / 1.3))


@pytest.mark.parametrize("slowdown", [-0.1, float("nan"), 1000.0])
def test_a_slowdown_is_a_share(slowdown: float) -> None:
    assert "slowdown" in refusal(DDP, slowdown=slowdown)
