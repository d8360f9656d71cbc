"""DataParallel: closed forms of its parts, the interpreter that one thread has at a time,
proofs."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ddp_steps
from law_cases import tries
from refusals import refusal
from simulator.collectives.collective import REDUCE
from simulator.schedules import semantics
from simulator.training.conditions import Conditions, Failure
from simulator.training.data_parallel import DataParallel
from simulator.training.ddp import DDP
from simulator.training.footprint import footprint
from simulator.training.model import Layer, Model, Tensor
from topologies.catalogue import find as machine
from topologies.errors import InputError
from topologies.topology import Topology

BETA = 1024.0
LAYERS = tuple(
    Layer(f"fc{k}", 0.25, 0.5, 64.0, (Tensor("w", 4096.0),), buffers=1024.0) for k in range(4)
)
MODEL = Model("model", 8, LAYERS, optimizer=0.125, inputs=512.0, outputs=256.0)
SILENT = replace(MODEL, outputs=0.0)
REPLICA, GRADIENTS = 20480.0, 16384.0
CHUNK = 4096.0
FAST = 1e18


def network(ranks: int, shape: str = "star", bandwidth: float = BETA) -> Topology:
    return machine(shape).with_links(bandwidth=bandwidth, latency=0.0).build(max(ranks, 2))


planned = partial(ddp_steps.planned, model=MODEL)
ran = partial(ddp_steps.ran, model=MODEL)
step = partial(ddp_steps.step, model=MODEL)


def unlocked(**options: object) -> DataParallel:
    """Python that takes no time."""
    return DataParallel(launch=0.0, chunk=CHUNK, **options)  # type: ignore[arg-type]


def chained(ranks: int, nbytes: float, chains: int = 1) -> float:
    """m chunks, one behind the other, through p - 1 links."""
    chunks = nbytes / CHUNK
    return (chunks + ranks - 2) * CHUNK / chains / BETA


# Closed forms.


@pytest.mark.parametrize(
    ("shape", "ranks", "chains"),
    [
        ("star", 2, 1),
        ("star", 3, 1),
        ("star", 8, 1),
        ("full_mesh", 2, 1),
        ("full_mesh", 3, 2),
        ("ring", 6, 2),
    ],
)
def test_a_step_is_the_sum_of_its_parts(shape: str, ranks: int, chains: int) -> None:
    scatter, replicate = (ranks - 1) * 512 / BETA, chained(ranks, REPLICA, chains)
    reduce = chained(ranks, GRADIENTS, chains)
    expected = scatter + replicate + MODEL.forward + MODEL.backward + reduce + MODEL.optimizer
    assert step(unlocked(), ranks, topology=network(ranks, shape), model=SILENT) == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_outputs_are_gathered_in_the_order_of_the_devices_and_their_gradients_scattered(
    ranks: int,
) -> None:
    """Rank r has sent on its last chunk, and begins, r chunks after the first; the last sends
    nothing on."""
    had = [
        512 * (ranks - 1) / BETA + (REPLICA / CHUNK + min(rank, ranks - 2)) * CHUNK / BETA
        for rank in range(ranks)
    ]
    gathered = had[0] + MODEL.forward
    for rank in range(1, ranks):
        gathered = max(gathered, had[rank] + MODEL.forward) + 256 / BETA
    rest = (ranks - 1) * 256 / BETA + MODEL.backward + chained(ranks, GRADIENTS) + MODEL.optimizer
    assert step(unlocked(), ranks) == pytest.approx(gathered + rest, rel=1e-12)


@pytest.mark.parametrize("topology", [network(8), machine("dgx1").build(8)], ids=["star", "dgx1"])
def test_what_is_moved(topology: Topology) -> None:
    moved = 7 * (512 + REPLICA + 2 * 256 + GRADIENTS)
    assert planned(unlocked(), 8, topology=topology).schedule.volume == pytest.approx(moved)


def test_inputs_that_are_there_are_not_scattered() -> None:
    assert step(unlocked(), 4, model=SILENT) - step(
        unlocked(scatter=False), 4, model=SILENT
    ) == pytest.approx(1.5)


def test_chunks_are_no_larger_than_they_may_be() -> None:
    whole = step(DataParallel(launch=0.0), 4, model=SILENT)
    assert whole == pytest.approx(1.5 + 3 * REPLICA / BETA + 3 * GRADIENTS / BETA + MODEL.compute)
    assert step(DataParallel(launch=0.0, chunk=1e300), 4, model=SILENT) == whole
    assert planned(DataParallel(chunk=5000.0), 2).schedule.buffer == 4


# The interpreter.


@given(st.integers(1, 6), st.sampled_from([0.0, 2.0**-6, 2.0**-3, 0.25, 1.0]))
def test_the_interpreter_launches_one_layer_after_the_other(ranks: int, launch: float) -> None:
    """Layer l of rank r is launched when (lp + r + 1) launches are done; what follows it computes
    on from there."""
    strategy = DataParallel(launch=launch)
    forward = max(
        (layer * ranks + rank + 1) * launch + (4 - layer) * 0.25
        for layer in range(4)
        for rank in range(ranks)
    )
    seconds = step(strategy, ranks, topology=network(ranks, bandwidth=FAST))
    assert seconds == pytest.approx(forward + MODEL.backward + MODEL.optimizer, rel=1e-9)
    assert seconds >= len(LAYERS) * ranks * launch


@pytest.mark.parametrize("launch", [0.0, 2.0**-10])
def test_one_device_computes_alone(launch: float) -> None:
    plan, timeline, measures = ran(DataParallel(launch=launch), 1, steps=2)
    assert timeline.makespan == 2 * (MODEL.compute + launch)
    assert measures.samples_per_s == 8 / (MODEL.compute + launch)
    assert plan.schedule.volume == 0
    semantics.check(planned(DataParallel(), 1).schedule, REDUCE)


# Proofs.


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
@pytest.mark.parametrize("shape", ["star", "ring", "full_mesh", "dgx1"])
@pytest.mark.parametrize("chunk", [CHUNK, 1e6])
def test_a_step_adds_up_the_gradients_on_the_first_device(
    ranks: int, shape: str, chunk: float
) -> None:
    topology = machine("dgx1").build(8) if shape == "dgx1" else network(ranks, shape)
    plan = planned(DataParallel(chunk=chunk), ranks, topology=topology)
    semantics.check(plan.schedule, REDUCE)
    before = semantics.inputs(plan.schedule)
    replicas = semantics.run(plan.schedule, before)[:, plan.schedule.buffer :]
    assert (replicas == before[0, plan.schedule.buffer :]).all()


# Laws.


@given(
    st.integers(2, 7),
    st.lists(
        st.tuples(st.floats(0.01, 1), st.floats(0.01, 1), st.integers(1, 20)),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([1.0, 64.0, 4096.0]),
    st.sampled_from([0.0, 0.01]),
)
def test_ddp_is_never_slower(
    ranks: int, layers: list[tuple[float, float, int]], bandwidth: float, launch: float
) -> None:
    """Of V bytes through ports of β, in and out: DDP has to all-reduce them in at most 2(p - 1)/p
    V/β more than it computes, and DP broadcasts and reduces them in at least V/β each, with nothing
    to hide behind."""
    model = Model(
        "random",
        1,
        tuple(
            Layer(f"l{k}", f, b, tensors=(Tensor("w", 512.0 * n),))
            for k, (f, b, n) in enumerate(layers)
        ),
    )
    star = network(ranks, bandwidth=bandwidth)
    dp = step(DataParallel(launch=launch, chunk=CHUNK), ranks, topology=star, model=model)
    ddp = step(DDP(bucket=2048.0), ranks, topology=star, model=model)
    assert dp >= model.compute + 2 * model.gradients / bandwidth * (1 - 1e-12)
    assert ddp <= model.compute + 2 * (ranks - 1) / ranks * model.gradients / bandwidth * (
        1 + 1e-12
    )


@given(
    st.integers(1, 6),
    st.floats(0, 0.5),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from(["star", "ring"]),
)
@tries(7, 30)
def test_nothing_is_hidden(ranks: int, sigma: float, launch: float, shape: str) -> None:
    _, timeline, measures = ran(
        DataParallel(launch=launch, chunk=CHUNK),
        ranks,
        topology=network(ranks, shape),
        steps=2,
        sigma=sigma,
    )
    assert measures.steps.sum() == pytest.approx(timeline.makespan)
    assert measures.computing + measures.bubbles.sum(axis=1) == pytest.approx(
        np.full(ranks, timeline.makespan)
    )
    assert measures.hidden == pytest.approx(np.zeros(ranks), abs=1e-9)
    assert (measures.exposed <= measures.bubbles.sum(axis=1) + 1e-9).all()


# Conditions.


def test_all_wait_for_the_slowest_after_the_forward_and_after_the_backward() -> None:
    factors = Conditions(sigma=0.4, seed=3).factors(3, 4)
    slowest = factors.max(axis=1)
    expected = (MODEL.forward + MODEL.backward) * slowest + MODEL.optimizer * factors[:, 0]
    measures = ran(unlocked(), 4, topology=network(4, bandwidth=FAST), steps=3, sigma=0.4, seed=3)[
        2
    ]
    assert measures.steps == pytest.approx(expected, rel=1e-9)


def test_a_failure_costs_the_restart_and_the_lost_steps() -> None:
    """Step 3 fails after its forward; 2 and 3 come again."""
    failure = Failure(1, 3, restart=40.0, timeout=10.0, checkpoint=2)
    plan, timeline, _ = ran(unlocked(), 2, steps=5, failure=failure)
    assert plan.useful.tolist() == [1, 1, 0, 0, 1, 1, 1]
    assert timeline.makespan == pytest.approx(6 * 40.125 + 0.5 + 20 + 1 + 50)


def test_a_device_without_input_only_takes_part_in_what_is_broadcast_and_reduced() -> None:
    plan, _, measures = ran(DataParallel(launch=1.0, chunk=CHUNK), 2, steps=2, batches={1: 1})
    assert plan.samples.tolist() == [16, 8]
    assert measures.steps.tolist() == [40.125, 20 + 16 + MODEL.compute]
    assert measures.computing.tolist() == [2 * 3.125, 3.0]


def test_every_device_holds_a_replica_and_the_first_the_optimizer_state() -> None:
    plan, timeline, _ = ran(unlocked(), 2)
    replica, state, activations = REPLICA + GRADIENTS, MODEL.parameters * MODEL.state, 4 * 64.0
    assert footprint(plan, timeline).peaks.tolist() == [
        replica + state + CHUNK,
        replica + activations,
    ]


def test_the_first_device_holds_the_outputs_of_the_others_until_its_backward_is_done() -> None:
    """Wide outputs are the peak of the first device: those of 3 others, with 4 activations of 64
    bytes, and no more."""
    wide = replace(MODEL, outputs=1e6)
    plan, timeline, _ = ran(unlocked(), 4, model=wide, steps=2)
    usage, without = (footprint(p, timeline) for p in (plan, replace(plan, stored=None)))
    assert usage.peaks[0] == REPLICA + GRADIENTS + MODEL.parameters * MODEL.state + 4 * 64.0 + 3e6
    assert usage.peaks[1:].tolist() == without.peaks[1:].tolist()
    assert usage.resident[-1] == without.resident[-1]
    assert usage.redundant.max() == without.redundant.max()


def test_a_device_without_input_and_a_failed_step_have_no_outputs() -> None:
    for ranks, conditions in ((3, {"batches": {1: 0}}), (2, {"failure": Failure(1, 0, 1.0)})):
        plan = planned(unlocked(), ranks, model=replace(MODEL, outputs=1e6), **conditions)
        assert plan.stored is not None
        assert plan.stored.nbytes.tolist() == [1e6, -1e6]


# Mistakes.


def test_mistakes() -> None:
    assert "dp: launch=-1.0: seconds, 0 or more" in refusal(DataParallel, launch=-1.0)
    assert "dp: chunk=0: bytes, more than 0" in refusal(DataParallel, chunk=0)
    with pytest.raises(InputError, match=r"dp: chunk=0.0001 cuts 20KiB into more than \d+ chunks"):
        planned(DataParallel(chunk=1e-4), 2)
