"""The lower bound of a step, against the simulation."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_cases import tries
from simulator.parallel.blocks import Block, BlockPart
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.pipelines import find
from simulator.parallel.sharding import Sharding
from simulator.parallel.step import write
from simulator.parallel.step_bound import Outline
from simulator.parallel.step_measures import measure
from simulator.parallel.step_work import Work
from topologies.clusters import cluster
from topologies.shapes import star

MACHINES = (
    star(16, bandwidth=1e9),
    star(16, bandwidth=1e9, latency=0.5),
    cluster("hgx_h100", 2),
    cluster("leonardo", 4, nics=1),
)
MICRO_BATCHES = {"gpipe": (1, 3, 8), "1f1b": (1, 3, 9), "interleaved": (4, 8)}


@st.composite
def parts(draw: st.DrawFn) -> BlockPart:
    """Computations that the CPU launches, some with a collective, some of which are hidden."""
    group = draw(st.sampled_from(("", "tp", "cp", "ep")))
    collective = {"cp": "shift", "ep": "all_to_all"}.get(group, "all_gather")
    seconds, nbytes = draw(st.integers(1, 4)), draw(st.integers(0, 4)) * 1e9
    hidden = group == "ep" and draw(st.booleans())
    overlaps, launch = draw(st.booleans()), draw(st.integers(0, 4))
    return BlockPart(seconds, group, collective, nbytes, overlaps, launch, hidden=hidden)


@st.composite
def works(draw: st.DrawFn) -> Work:
    """Steps of up to four devices, with all kinds of groups."""
    name, pp = draw(st.sampled_from(tuple(MICRO_BATCHES))), draw(st.sampled_from((1, 2, 4)))
    dp, tp, cp = (draw(st.sampled_from((1, 2))) for _ in range(3))
    degrees = Degrees(min(dp, 16 // (tp * pp * cp)), tp, pp, cp, ep=draw(st.sampled_from((1, cp))))
    pipeline = find(name).build(
        devices=pp, micro_batches=draw(st.sampled_from(MICRO_BATCHES[name]))
    )
    several, sized = st.lists(parts(), max_size=2).map(tuple), st.integers(0, 3).map(float)
    block = st.tuples(several, several, several, sized, sized, sized).map(
        lambda n: Block(
            "layer",
            n[0],
            (),
            (),
            n[1],
            n[2],
            parameters=n[3],
            expert_parameters=n[4],
            output=n[5] * 1e9,
        )
    )
    stages = tuple(
        tuple(draw(st.lists(block, min_size=1, max_size=3))) for _ in range(pipeline.stages)
    )
    sharding = Sharding(
        nbytes=1e9,
        parameter=1e9,
        zero=draw(st.integers(0, 3)),
        overlap=draw(st.booleans()),
        bucket=draw(st.sampled_from((1e9, 4e9))),
        optimizer=tuple(float(number) for number in range(len(stages))),
        tied=draw(sized) * 1e9,
        reshard=draw(st.booleans()),
        fsdp=draw(st.integers(1, 2)),
        sync=draw(st.booleans()),
    )
    times = GroupTimes(draw(st.sampled_from(MACHINES)), degrees)
    return Work(
        stages,
        pipeline,
        times,
        sharding,
        blocking=name != "interleaved" and dp == 1,
        synchronous=draw(st.booleans()),
    )


def outline(work: Work) -> Outline:
    in_turn = work.pipeline.name == "1f1b"
    micro_batches = work.pipeline.micro_batches
    times = replace(work.times, bounds=True)
    return Outline(work.stages, micro_batches, times, work.sharding, in_turn)


@tries(7, 30)
@given(works())
def test_no_step_is_shorter_than_its_bound(work: Work) -> None:
    least = outline(work).bound
    for detail in ("layers", "passes"):
        assert least <= measure(write(work, detail)).step


def test_the_bound_knows_that_ranks_go_on_when_they_are_served() -> None:
    """Four replicas exchange over one NIC. A bound that waits for the last of them in each layer is
    above the step."""
    part = BlockPart(1.0, "cp", "shift", 2e9)
    block = Block("layer", (part,) * 2, (), (), (part,) * 2)
    degrees = Degrees(dp=4, cp=2, order="dp-cp-tp-pp")
    times = GroupTimes(cluster("leonardo", 2, nics=1), degrees)
    work = Work(((block,),), find("1f1b").build(1, micro_batches=8), times, Sharding())
    waiting = Outline(work.stages, 8, times, work.sharding, in_turn=True)
    assert outline(work).bound <= measure(write(work)).step < waiting.bound


def test_launches_of_a_last_backward_run_beside_the_backwards_before_it() -> None:
    again = (BlockPart(1.0), BlockPart(1.0, launch=3.0))
    block = Block("layer", (), (), (), (), again)
    pipeline = find("gpipe").build(devices=1, micro_batches=3)
    times = GroupTimes(star(2, bandwidth=1e9), Degrees())
    work = Work(((block,),), pipeline, times, Sharding(zero=2, overlap=True, sync=False))
    assert outline(work).bound <= measure(write(work, "passes")).step == 8.0


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved"])
def test_the_bound_of_a_plain_pipeline_is_its_time(name: str) -> None:
    degrees = Degrees(dp=2, pp=4)
    times = GroupTimes(star(8, bandwidth=1e9), degrees)
    block = Block("layer", (BlockPart(1.0),), (), (), (BlockPart(2.0),), parameters=1.0)
    pipeline = find(name).build(devices=4, micro_batches=8)
    optimizer = (1.0,) * pipeline.stages
    sharding = Sharding(nbytes=1e9, parameter=1e9, zero=1, optimizer=optimizer)
    work = Work(((block,),) * pipeline.stages, pipeline, times, sharding)
    assert outline(work).bound == pytest.approx(measure(write(work)).step)


def test_transfers_lengthen_the_rounds_of_1f1b() -> None:
    """A device of 1F1B waits for what it sent to come back."""
    times = GroupTimes(star(4, bandwidth=1e9), Degrees(pp=4))
    block = Block("layer", (BlockPart(1.0),), (), (), (BlockPart(2.0),), output=1e9)
    work = Work(((block,),) * 4, find("1f1b").build(devices=4, micro_batches=16), times)
    step = measure(write(work)).step
    assert step > 16 * 3 + 3 * 5
    assert outline(work).bound == pytest.approx(step, rel=0.05)
