"""Laws of synchronous SGD with a parameter server, on drawn models and networks."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from simulator.collectives.collective import ALL_REDUCE
from simulator.schedules import semantics
from simulator.training.conditions import Conditions
from simulator.training.measures import measure
from simulator.training.model import Model
from simulator.training.ssgd import SSGD
from simulator.training.strategy import SERVERS
from synchronous_servers import layer, planned, run, serial


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Times and bytes in whole numbers, so that ties are ties."""
    numbers = st.integers(0, 4)
    sizes = draw(
        st.lists(st.sampled_from([0.0, 1.0, 4.0, 16.0]), min_size=1, max_size=4).filter(any)
    )
    layers = tuple(
        layer(f"l{k}", draw(numbers), draw(numbers), size) for k, size in enumerate(sizes)
    )
    return Model("drawn", 1, layers, inputs=draw(st.sampled_from([0.0, 8.0])))


ONE_SERVER = st.sampled_from(["worker", "gpu", "cpu"])
MEMORY = st.sampled_from([inf, 4.0, 64.0])
BANDWIDTH = st.sampled_from([1.0, 4.0, 32.0])
LATENCY = st.sampled_from([0.0, 0.25, 1.0])


@given(models(), ONE_SERVER, st.integers(1, 5), st.integers(1, 3), BANDWIDTH, LATENCY, MEMORY)
def test_pipelined_is_never_slower_with_one_server(
    model: Model,
    server: str,
    ranks: int,
    steps: int,
    bandwidth: float,
    latency: float,
    memory: float,
) -> None:
    ssgd = SSGD(server, server_memory=memory)
    slow = run(
        planned(ssgd, ranks, steps=steps, bandwidth=bandwidth, latency=latency, model=model)
    ).makespan
    ssgd = replace(ssgd, pipelined=True)
    fast = run(
        planned(ssgd, ranks, steps=steps, bandwidth=bandwidth, latency=latency, model=model)
    ).makespan
    assert fast <= slow * (1 + 1e-9)


def test_batches_sent_ahead_may_delay_the_pushes_of_a_rank_that_serves_and_works() -> None:
    model = Model("one layer", 1, (layer("fc", 3.0, 0.0, 16.0),), inputs=8.0)
    ssgd = SSGD("sharded", update=1.0, server_memory=4.0)
    slow, fast = (
        run(
            planned(replace(ssgd, pipelined=pipelined), 5, bandwidth=1.0, latency=0.25, model=model)
        ).makespan
        for pipelined in (False, True)
    )
    assert slow < fast < 1.1 * slow


@given(
    models(),
    st.sampled_from(list(SERVERS)),
    st.integers(1, 5),
    st.integers(1, 3),
    BANDWIDTH,
    MEMORY,
    st.booleans(),
)
def test_a_run_is_no_shorter_than_what_is_busiest(
    model: Model,
    server: str,
    ranks: int,
    steps: int,
    bandwidth: float,
    memory: float,
    pipelined: bool,
) -> None:
    ssgd = SSGD(server, pipelined=pipelined, server_memory=memory)
    shards = ranks if server == "sharded" else 1
    senders = ranks - (ssgd.server_kind is None)
    server_s = (senders * ssgd.adding(model) + ssgd.updating(model)) / shards
    compute_s = model.forward + model.backward + (0.0 if ssgd.server_kind else server_s)
    in_s, out_s = (
        senders * nbytes / shards / bandwidth for nbytes in (model.gradients, model.parameters)
    )
    out_s += (senders if shards == 1 else 0) * model.inputs / bandwidth
    timeline = run(planned(ssgd, ranks, steps=steps, bandwidth=bandwidth, model=model))
    assert timeline.makespan >= steps * max(compute_s, server_s, in_s, out_s) * (1 - 1e-9)


@given(models(), st.sampled_from(list(SERVERS)), st.integers(1, 6), BANDWIDTH, LATENCY, MEMORY)
def test_any_serial_step_equals_the_closed_form(
    model: Model, server: str, ranks: int, bandwidth: float, latency: float, memory: float
) -> None:
    ssgd = SSGD(server, server_memory=memory)
    plan = planned(ssgd, ranks, steps=2, bandwidth=bandwidth, latency=latency, model=model)
    assert measure(plan, run(plan)).steps == pytest.approx(
        [serial(ssgd, ranks, bandwidth, latency, model)] * 2
    )


@given(
    models(),
    ONE_SERVER,
    st.integers(1, 5),
    LATENCY,
    MEMORY,
    st.floats(0.0, 1.0),
    st.integers(0, 99),
)
def test_a_faster_network_makes_a_serial_step_no_slower(
    model: Model, server: str, ranks: int, latency: float, memory: float, sigma: float, seed: int
) -> None:
    """With one server; among many the order of service may change for the worse."""
    ssgd, noise = SSGD(server, server_memory=memory), Conditions(sigma=sigma, seed=seed)
    times = [
        run(
            planned(
                ssgd, ranks, steps=2, bandwidth=beta, latency=latency, model=model, conditions=noise
            )
        ).makespan
        for beta in (1.0, 2.0, 16.0)
    ]
    assert times[0] >= times[1] * (1 - 1e-9) >= times[2] * (1 - 1e-9) ** 2


@each_case("pipelined", [False, True])
@each_case("server", SERVERS)
@each_case("ranks", range(1, 10))
def test_a_step_is_an_all_reduce(server: str, ranks: int, pipelined: bool) -> None:
    plan = planned(
        SSGD(server, pipelined=pipelined), ranks, latency=0.125, conditions=Conditions(sigma=0.5)
    )
    assert SSGD.promise is ALL_REDUCE
    semantics.check(plan.schedule, ALL_REDUCE)
    semantics.check(
        plan.schedule,
        ALL_REDUCE,
        order=np.argsort(run(plan).finish, kind="stable").astype(np.int32),
    )


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("server", SERVERS)
def test_every_transfer_is_needed(server: str, pipelined: bool) -> None:
    schedule = planned(SSGD(server, pipelined=pipelined), 3).schedule
    moved = np.flatnonzero(schedule.source >= 0)
    for dropped in moved[schedule.rank[moved] != schedule.peer[moved]]:
        order = np.delete(np.arange(len(schedule), dtype=np.int32), dropped)
        with pytest.raises(semantics.WrongResult, match="all_reduce"):
            semantics.check(schedule, ALL_REDUCE, order=order)
