"""A training step of a plan as a schedule on places."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import tries
from simulator.analysis.bubbles import BUBBLE_CAUSES, DRAIN, FILL, LAUNCH, SLOWER_PEER, TRANSFER
from simulator.parallel.blocks import Block, BlockPart
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import COMPUTE, COPIES, DATA, GATHERS, REDUCTIONS, SEND, TIED, TP
from simulator.parallel.pipelines import find
from simulator.parallel.sharding import Sharding
from simulator.parallel.step import Detail, write
from simulator.parallel.step_measures import StepMeasures, measure, step_bubbles
from simulator.parallel.step_work import Work
from topologies.errors import InputError
from topologies.shapes import full_mesh, star
from topologies.topology import Topology

DETAILS: tuple[Detail, ...] = "layers", "passes"
ORDERS = ("gpipe", "1f1b", "interleaved:chunks=2", "zb_h1", "zb_v", "dual_pipe")


@cache
def times(degrees: Degrees, shape: Callable[..., Topology] = star) -> GroupTimes:
    """Times on links of 1 GB/s without latency."""
    return GroupTimes(shape(max(2, degrees.ranks), bandwidth=1e9), degrees)


def block(*forward: BlockPart, inputs: float = 1.0, weights: float = 1.0, **sizes: float) -> Block:
    """A block whose backward takes `inputs` + `weights` seconds."""
    whole = BlockPart(inputs), BlockPart(weights)
    return Block("layer", forward, whole[:1], whole[1:], whole, **sizes)  # type: ignore[arg-type]


def work(
    name: str,
    devices: int,
    micro_batches: int,
    stage: tuple[Block, ...],
    degrees: Degrees,
    **more: object,
) -> Work:
    """The same stage everywhere."""
    pipeline = find(name).build(devices=devices, micro_batches=micro_batches)
    stages = (stage,) * pipeline.stages
    return Work(stages, pipeline, times(degrees), **more)  # type: ignore[arg-type]


def on_one(
    stage: tuple[Block, ...], micro_batches: int, degrees: Degrees, **more: object
) -> StepMeasures:
    """The measures of a step without a pipeline."""
    return measure(write(work("1f1b", 1, micro_batches, stage, degrees, **more)))


def parts() -> st.SearchStrategy[BlockPart]:
    """Computations, some with a collective of a tensor-parallel group."""
    numbers = st.tuples(*(st.integers(0, 8) for _ in range(2)), st.booleans(), st.booleans())
    return numbers.map(
        lambda n: BlockPart(float(n[0]), "tp" if n[2] else "", "all_gather", n[1] * 1e9, n[3])
    )


@st.composite
def works(draw: st.DrawFn, shape: Callable[..., Topology] = star) -> Work:
    """Steps of up to four devices. In a full mesh groups share no link."""
    name, devices = draw(st.sampled_from(ORDERS)), draw(st.sampled_from((2, 4)))
    degrees = Degrees(dp=draw(st.integers(1, 2)), tp=draw(st.integers(1, 2)), pp=devices)
    sized = st.integers(0, 3).map(float)
    several = st.lists(parts(), max_size=3).map(tuple)
    blocks = st.tuples(several, several, several, several, sized, sized).map(
        lambda n: Block(
            "layer", n[0], n[1], n[2], n[1] + n[2], n[3], parameters=n[4], output=n[5] * 1e8
        )
    )
    pipeline = find(name).build(devices=devices, micro_batches=2 * devices)
    stages = [tuple(draw(st.lists(blocks, min_size=1, max_size=2))) for _ in range(pipeline.stages)]
    blocking = name in ("gpipe", "1f1b") and draw(st.booleans())
    sharding = Sharding(
        nbytes=1e8,
        zero=draw(st.integers(0, 1 if name == "dual_pipe" else 3)),
        overlap=draw(st.booleans()),
        bucket=draw(st.sampled_from((1e8, 4e8))),
        optimizer=(1.0,) * len(stages),
        tied=draw(sized) * 1e8,
        reshard=draw(st.booleans()),
        sync=draw(st.booleans()),
        fsdp=draw(st.integers(1, 2)),
        bandwidth=4e8,
    )
    return Work(tuple(stages), pipeline, times(degrees, shape), sharding, blocking)


@tries(10, 40)
@given(works(full_mesh))
def test_passes_take_as_long_as_their_layers(plan: Work) -> None:
    layers, passes = (measure(write(plan, detail)) for detail in ("layers", "passes"))
    for name in ("step", "computing", "optimizer", "exposed", "hidden", "idle", "idle_between"):
        assert getattr(passes, name) == pytest.approx(getattr(layers, name), rel=1e-9, abs=1e-9), (
            name
        )


@tries(10, 40)
@given(works())
def test_bubbles_and_computing_and_exposed_communication_make_the_step(plan: Work) -> None:
    step = write(plan)
    result, schedule = measure(step), step.timeline.schedule
    total = result.computing + result.optimizer + result.launching + result.idle
    assert total + result.exposed.sum(axis=1) == pytest.approx(np.full(schedule.ranks, result.step))
    busy = schedule.lane == COMPUTE
    computed = np.bincount(schedule.rank[busy], schedule.seconds[busy], schedule.ranks)
    assert result.computing + result.optimizer == pytest.approx(computed)
    for stream in (TP, DATA, TIED, GATHERS, REDUCTIONS, COPIES):
        moved = schedule.lane == stream
        seconds = np.bincount(schedule.rank[moved], schedule.seconds[moved], schedule.ranks)
        assert result.exposed[:, stream] + result.hidden[:, stream] == pytest.approx(seconds)
    assert (result.idle > -1e-9).all()
    assert (result.hidden > -1e-9).all()
    assert (result.idle_between <= result.idle + 1e-9).all()
    spans, slack = step_bubbles(step), 1e-9 * max(1.0, result.step)
    added = np.zeros((schedule.ranks, len(BUBBLE_CAUSES)))
    np.add.at(added, (spans.rank, spans.cause), spans.end - spans.start)
    assert added[:, TRANSFER] == pytest.approx(result.exposed.sum(axis=1), abs=slack)
    assert added[:, LAUNCH] == pytest.approx(result.launching, abs=slack)
    idle = added[:, [FILL, SLOWER_PEER, DRAIN]].sum(axis=1)
    assert idle == pytest.approx(result.idle, abs=slack)
    assert (added[:, SLOWER_PEER] >= result.idle_between - slack).all()
    moving = spans.operation[spans.cause == TRANSFER]
    assert (schedule.lane[moving] != COMPUTE).all()


def test_the_second_stage_waits_for_the_first_and_the_first_for_the_second() -> None:
    """Two stages of 3 s, two micro-batches, no communication: fill, a gap, and drain."""
    step = write(work("gpipe", 2, 2, (block(BlockPart(1.0)),), Degrees(pp=2)))
    rows = step_bubbles(step)
    words = [BUBBLE_CAUSES[cause] for cause in rows.cause]
    lines = list(
        zip(rows.rank.tolist(), words, rows.start.tolist(), rows.end.tolist(), strict=True)
    )
    assert lines == [(0, "slower peer", 2, 5), (1, "fill", 0, 1), (1, "drain", 7, 9)]
    backward = int(rows.operation[0])
    assert step.schedule.rank[backward] == 1
    assert step.schedule.lane[rows.awaited[1]] == SEND
    assert rows.awaited[2] == -1


@each_case(
    ("name", "seconds"),
    [
        ("gpipe", (8 + 3) * 3),
        ("1f1b", (8 + 3) * 3),
        ("interleaved:chunks=2", 8 * 6 + 3 * 3),
        ("zb_h1", 8 * 3 + 3),
    ],
)
def test_free_communication_leaves_the_known_bubbles(name: str, seconds: float) -> None:
    result = measure(write(work(name, 4, 8, (block(BlockPart(1.0)),), Degrees(pp=4))))
    assert result.step == seconds
    assert (result.computing + result.idle == seconds).all()


def test_collectives_of_a_block_are_exposed_or_hidden() -> None:
    behind = BlockPart(1.0, "tp", "all_gather", 4e9)
    parallel = behind._replace(overlaps=True, seconds=3.0)
    result = on_one((block(behind, parallel),), 2, Degrees(tp=2))
    assert result.step == 2 * (1 + 2 + 3 + 2)
    assert (result.exposed[0, TP], result.hidden[0, TP]) == (4.0, 4.0)


def test_gradients_are_reduced_behind_the_last_backward_or_beside_it() -> None:
    stage = (block(BlockPart(1.0), parameters=1.0),) * 4
    plain = Sharding(nbytes=1e9, optimizer=(5.0,))
    assert on_one(stage, 3, Degrees(dp=2), sharding=plain).step == 3 * 12 + 4 + 5
    overlapping = Sharding(nbytes=1e9, optimizer=(5.0,), overlap=True, bucket=1e9)
    result = on_one(stage, 3, Degrees(dp=2), sharding=overlapping)
    assert result.step == 3 * 12 + 1 + 5
    assert (result.exposed[0, DATA], result.hidden[0, DATA]) == (1.0, 3.0)


def test_zero_scatters_gradients_and_gathers_parameters_behind_the_optimizer() -> None:
    stage = (block(BlockPart(1.0), parameters=1.0, expert_parameters=1.0),)
    sharding = Sharding(nbytes=4e9, parameter=2e9, zero=1, optimizer=(5.0,))
    step = write(work("1f1b", 1, 2, stage, Degrees(dp=2, ep=2), sharding=sharding))
    assert measure(step).step == 2 * 3 + 2 + 5 + 1
    assert set(step.graph.nbytes[step.graph.call >= 0]) == {4e9, 2e9}


def test_the_first_and_the_last_device_sum_up_a_tied_embedding() -> None:
    sharding = Sharding(tied=1e9)
    result = measure(
        write(work("1f1b", 2, 2, (block(BlockPart(1.0)),), Degrees(pp=2), sharding=sharding))
    )
    assert result.step == (2 + 1) * 3 + 1
    assert result.exposed[:, TIED].tolist() == [1.0, 1.0]


def test_transfers_are_exposed_at_both_ends() -> None:
    stage = (block(BlockPart(1.0), output=1e9),)
    result = measure(write(work("1f1b", 2, 1, stage, Degrees(pp=2))))
    assert result.step == 1 + 1 + 3 + 1 + 2
    assert result.exposed[:, SEND].tolist() == [2.0, 2.0]


def test_both_ends_of_blocking_transfers_wait() -> None:
    stage = (block(BlockPart(1.0), output=1e9),)
    free, blocked = (
        measure(write(work("gpipe", 2, 4, stage, Degrees(pp=2), blocking=blocking))).step
        for blocking in (False, True)
    )
    assert free == 4 * 3 + 3 + 2
    assert blocked == (4 * 1 + 4 + 1) + (4 * 2 + 4 + 2)


def test_the_cpu_limits_small_operations() -> None:
    stage = (
        Block("layer", (BlockPart(1.0, launch=3.0),) * 2, (), (), (BlockPart(1.0, launch=3.0),)),
    )
    result = on_one(stage, 2, Degrees())
    assert result.step == 2 * 3 * 3 + 1
    assert result.launching.tolist() == [2 * 3 * 2 + 1]
    collapsed = measure(write(work("1f1b", 1, 2, stage, Degrees()), "passes"))
    assert (collapsed.step, collapsed.computing[0], collapsed.launching[0]) == (18.0, 6.0, 12.0)


def test_a_device_idles_while_the_cpu_that_waited_launches_more() -> None:
    """Sizes of 1 s are computed while 4 s of kernels are launched, and the CPU waits for them. It
    launches a call of 2 s in 1 s, and 3 s of kernels in the meantime, which take 1 s."""
    forward = (
        BlockPart(1.0, launch=4.0),
        BlockPart(0.0, "tp", "all_gather", 4e9, launch=1.0, waits=True),
        BlockPart(1.0, launch=3.0),
    )
    stage = (Block("experts", forward, (), (), (BlockPart(1.0),)),)
    for detail in DETAILS:
        result = measure(write(work("1f1b", 1, 1, stage, Degrees(tp=2)), detail))
        assert result.exposed[0, TP] == 2
        assert (result.step, result.computing[0], result.launching[0]) == (4 + 1 + 3 + 1, 3, 4)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_hidden_calls_count_where_they_take_longer_than_computations(
    first: int, second: int, moved: int
) -> None:
    hidden = BlockPart(float(first), "tp", "all_gather", moved * 2e9, hidden=True)
    stage = (Block("experts", (hidden, BlockPart(float(second))), (), (), (BlockPart(1.0),)),)
    for detail in DETAILS:
        step = measure(write(work("1f1b", 1, 1, stage, Degrees(tp=2)), detail)).step
        whole = max(first + second, moved)
        assert whole <= step - 1 <= whole + first


def test_labels_say_what_each_operation_is() -> None:
    stage = (block(BlockPart(1.0, "tp", "all_gather", 1e9), output=1e8),) * 2
    step = write(work("1f1b", 2, 2, stage, Degrees(tp=2, pp=2)))
    moved = step.schedule.lane == TP
    assert moved.sum() == 2 * 2 * 2
    assert (step.graph.kind[moved] == 0).all()
    assert (
        {*step.graph.layer[moved]}
        == {*step.graph.micro[moved]}
        == {*step.graph.stage[moved]}
        == {0, 1}
    )
    sent = np.flatnonzero(step.schedule.lane == SEND)
    assert step.schedule.rank[sent].tolist() == [1 - peer for peer in step.graph.peer[sent]]


@each_case(
    ("make", "message"),
    [
        (
            lambda: Work((), find("1f1b").build(devices=2, micro_batches=2), times(Degrees(pp=2))),
            "0 stages of",
        ),
        (lambda: work("1f1b", 2, 2, (), Degrees(pp=4)), "2 devices: pp is 4"),
        (lambda: Sharding(zero=4), "zero is 4: 0, 1, 2 or 3"),
    ],
)
def test_steps_that_make_no_sense_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_synchronous_cpu_waits_for_what_an_action_needs() -> None:
    """Each pass is launched for 3 s and computed for 1 s. A CPU that runs ahead has launched both
    passes of its device at 6 s, one that waits launches them one after the other."""
    layer = Block("layer", (BlockPart(1.0, launch=3.0),), (), (), (BlockPart(1.0, launch=3.0),))
    pipeline = find("1f1b").build(devices=2, micro_batches=1)
    plan = ((layer,), (layer,)), pipeline, times(Degrees(pp=2))
    assert measure(write(Work(*plan))).step == 3 + 1 + 1 + 1 + 1 + 1
    assert measure(write(Work(*plan, synchronous=True))).step == 4 * (3 + 1)
