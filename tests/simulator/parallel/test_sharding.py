"""Steps with shared parameters: what they gather and reduce, and when."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import tries
from simulator.parallel.blocks import Block, BlockPart, units
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import COMPUTE, DATA, GATHERS, HOST, REDUCTIONS, STREAMS
from simulator.parallel.pipelines import find
from simulator.parallel.sharding import Sharding
from simulator.parallel.step import Step, write
from simulator.parallel.step_measures import measure
from simulator.parallel.step_splits import simulate, write_transfers
from simulator.parallel.step_work import Work
from simulator.steps.kinds import COPY
from simulator.steps.written import prove
from simulator.training.buckets import KERNEL, BucketRules
from topologies.errors import InputError
from topologies.shapes import star


@cache
def times(degrees: Degrees) -> GroupTimes:
    """Times on a star of links of 1 GB/s without latency. An all-gather of 2 GB of two ranks takes
    a second."""
    return GroupTimes(star(max(2, degrees.ranks), bandwidth=1e9), degrees)


def block(seconds: float, name: str = "layer", elements: float = 1.0, launch: float = 0.0) -> Block:
    """A block whose backward takes twice as long as its forward."""
    forward, inputs, weights = (
        (BlockPart(seconds, launch=launch),),
        (BlockPart(seconds),),
        (BlockPart(seconds),),
    )
    backward = (BlockPart(2 * seconds, launch=launch),)
    return Block(name, forward, inputs, weights, backward, parameters=elements)


def step(
    stage: tuple[Block, ...],
    micro: int = 1,
    degrees: Degrees = Degrees(dp=2),  # noqa: B008
    zero: int = 3,
    slowdown: float = 0.0,
    **sharding: Any,
) -> Step:
    """A step without a pipeline. A gather of a parameter and a reduction take a second."""
    pipeline = find("1f1b").build(devices=1, micro_batches=micro)
    sharing = Sharding(2e9, 2e9, zero, **sharding)
    return write(Work((stage,), pipeline, times(degrees), sharing, slowdown=slowdown))


def begins(made: Step, lane: int) -> list[float]:
    """When the operations of a stream begin."""
    return [float(start) for start in made.timeline.start[made.schedule.lane == lane]]


def moved(made: Step) -> dict[tuple[str, float], int]:
    """How often each collective of each V runs on a device."""
    calls = filter(None, map(made.graph.call_of, range(len(made.graph))))
    return dict(Counter((call.collective, call.nbytes) for call in calls))


def test_a_forward_hides_the_gathers_but_the_first_one() -> None:
    made = step((block(2.0),) * 3)
    assert begins(made, GATHERS)[:3] == [0.0, 1.0, 2.0]
    assert measure(made).step == (1 + 3 * 2) + (1 + 3 * 4 + 1)


@each_case(
    ("seconds", "bucket", "begins_at", "forward"),
    [
        # A block waits for its own parameters: the first gather is exposed, or all of them.
        (2.0, 1.0, [0.0, 1.0, 2.0, 3.0], 1 + 4 * 2),
        (0.5, 1.0, [0.0, 1.0, 2.0, 3.0], 4 + 0.5),
        # Two blocks wait for a bucket of 4 GB.
        (2.0, 4e9, [0.0, 2.0], 2 + 4 * 2),
        (2.0, inf, [0.0], 4 + 4 * 2),
    ],
)
def test_a_first_forward_hides_gathers_of_stage_1_but_the_first_one(
    seconds: float, bucket: float, begins_at: list[float], forward: float
) -> None:
    made = step((block(seconds),) * 4, micro=2, zero=1, ahead=True, bucket=bucket)
    data = begins(made, DATA)[: len(begins_at)]
    assert data == begins_at
    # Then come the other forward, both backwards, and what reduces gradients behind them.
    rest = 4 * seconds + 2 * 4 * 2 * seconds + 4
    assert measure(made).step == pytest.approx(forward + rest)
    behind = step((block(seconds),) * 4, micro=2, zero=1, bucket=bucket)
    assert moved(made)["all_gather", 8e9 if bucket == inf else max(2e9, bucket)] == len(data)
    assert sum(v * n for (_, v), n in moved(made).items()) == sum(
        v * n for (_, v), n in moved(behind).items()
    )
    assert measure(made).step <= measure(behind).step


@pytest.mark.parametrize("name", ["1f1b", "interleaved", "dual_pipe", "zb_h1"])
def test_each_stage_gathers_once_ahead_of_its_first_forward(name: str) -> None:
    """In transfers and in their times alike, and no later than behind the optimizer, where the CPU
    runs ahead."""
    pipeline, degrees = find(name).build(devices=2, micro_batches=4), Degrees(dp=2, pp=2)
    stages = tuple((block(2.0), block(1.0)) for _ in range(pipeline.stages))
    made, behind = (
        write(Work(stages, pipeline, times(degrees), Sharding(2e9, 2e9, 1, ahead=ahead)))
        for ahead in (True, False)
    )
    assert moved(made)["all_gather", 4e9] == pipeline.stages * pipeline.copies
    assert moved(made) == moved(behind)
    written = write_transfers(made)
    prove(written)
    assert simulate(made, written).makespan == pytest.approx(measure(made).step, rel=1e-9)
    assert measure(made).step <= measure(behind).step + 1e-9


@each_case(("version", "start"), [(2, 11.0), (1, 21.0)])
def test_a_limit_holds_the_fourth_gather(version: int, start: float) -> None:
    """Version 2 gathers a unit when the one before the last has been copied out, version 1 when it
    has been freed."""
    made = step((block(10.0),) * 4, fsdp=version)
    assert begins(made, GATHERS)[3] == start


def test_a_gather_is_issued_behind_the_kernels_of_the_unit_before() -> None:
    made = step((block(1.0, launch=3.0),) * 3)
    assert begins(made, GATHERS) == [0.0, 3.0, 6.0, 10.0, 11.0, 14.0]


def test_the_cpu_of_version_1_waits_for_its_limit() -> None:
    made = step((block(10.0, launch=0.25),) * 4, fsdp=1)
    launches = made.timeline.start[made.schedule.lane == HOST]
    # The third gather, and with it the third launch, wait for the end of the first unit.
    assert begins(made, GATHERS)[:4] == [0.0, 1.0, 11.0, 21.0]
    assert launches[:6].tolist() == [0.0, 0.25, 11.0, 11.0, 21.0, 21.0]


def test_a_backward_gathers_a_unit_ahead_and_reduces_the_unit_behind() -> None:
    made = step((block(2.0),) * 3)
    backward = 7.0
    assert begins(made, GATHERS)[3:] == [backward, backward + 1, backward + 5]
    assert begins(made, REDUCTIONS) == [backward + 5, backward + 9, backward + 13]


def test_a_backward_waits_for_the_reduction_before() -> None:
    """At most one reduction is in flight beside the gradients of the current unit."""
    stage = tuple(replace(block(1.0), parameters=4.0) for _ in range(3))
    made = step(stage, zero=2)
    assert begins(made, REDUCTIONS) == [5.0, 9.0, 13.0]
    assert measure(made).step == 3 + 2 + 3 * 4 + 12


def test_version_1_reduces_and_gathers_on_the_same_stream() -> None:
    """A backward gathers the next unit before it reduces gradients."""
    made = step((block(2.0),) * 2, fsdp=1)
    on_stream = made.schedule.lane == GATHERS
    calls = np.flatnonzero(on_stream)[np.argsort(made.timeline.start[on_stream])]
    gathers = [made.graph.phase(task)[:3] for task in calls]
    assert gathers == ["all", "all", "all", "all", "red", "red"]


def test_the_root_is_gathered_first_and_reduced_last_and_stays() -> None:
    stage = (block(2.0, "embedding"), block(2.0), block(2.0), block(2.0, "head"))
    assert [unit.blocks for unit in units(stage, Sharding().root)] == [(0, 3), (1,), (2,)]
    made = step(stage)
    assert moved(made) == {
        ("all_gather", 4e9): 1,
        ("all_gather", 2e9): 4,
        ("reduce_scatter", 2e9): 2,
        ("reduce_scatter", 4e9): 1,
    }
    # The gather of the last layer's parameters hides beside the backward of the head.
    assert measure(made).step == (2 + 4 * 2) + (4 * 4 + 2)


def test_copies_take_the_traffic_of_memory() -> None:
    """A gather reads and writes 2 x 2 GB, a reduction reads 2 and writes 2; a rank's share of a
    gather is half of that."""
    free, copied = (measure(step((block(2.0),), bandwidth=rate)).step for rate in (inf, 4e9))
    assert copied - free == 2 * (1 + 0.5) + 1
    assert measure(step((block(2.0),), bandwidth=4e9, fsdp=1)).step == free


def test_communication_slows_down_what_is_computed_beside_it() -> None:
    """In the forward two seconds of gathers run beside computations. In the backward the first and
    the last layer begin with a second of communication. The second one begins with a gather and a
    reduction that share links, for two seconds. A second leaves 0.8 seconds of computing."""
    usual, slow = (measure(step((block(4.0),) * 3, slowdown=each)).step for each in (0.0, 0.25))
    assert slow - usual == pytest.approx(0.2 * (2 + 4))
    alone = step((block(4.0),), degrees=Degrees(), slowdown=0.25)
    assert measure(alone).step == 12.0


def test_hybrid_sharding_sums_the_shares_across_replicas() -> None:
    stage = (block(2.0),) * 2
    made = step(stage, degrees=Degrees(dp=8), shard=4, reshard=2)
    assert moved(made) == {
        ("all_gather", 2e9): 4,
        ("reduce_scatter", 2e9): 2,
        ("all_reduce", 0.5e9): 2,
    }
    gathers = made.schedule.seconds[made.schedule.lane == GATHERS]
    assert gathers[:2] == pytest.approx(2 * 3 / 4)
    assert gathers[2:] == pytest.approx(1.0)


@tries(6, 25)
@given(
    st.integers(0, 3), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.booleans(), st.data()
)
def test_a_step_moves_what_its_stage_of_zero_says(
    zero: int, layers: int, micro: int, reshard: bool, sync: bool, data: st.DataObject
) -> None:
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=layers, max_size=layers))
    stage = tuple(block(1.0, elements=float(size)) for size in sizes)
    counts = moved(step(stage, micro, Degrees(dp=2), zero, reshard=reshard, sync=sync))
    total = {
        name: sum(v * n for (each, v), n in counts.items() if each == name) for name, _ in counts
    }
    whole, times_reduced = 2e9 * sum(sizes), micro if sync else 1
    assert (
        total
        == [
            {"all_reduce": whole},
            {"reduce_scatter": whole, "all_gather": whole},
            {"reduce_scatter": whole * times_reduced, "all_gather": whole},
            {
                "reduce_scatter": whole * times_reduced,
                "all_gather": whole * micro * (2 if reshard else 1),
            },
        ][zero]
    )


def test_a_pass_ends_with_its_last_reduction() -> None:
    made = step((block(1.0),), 2)
    computed = made.schedule.lane == COMPUTE
    busy = made.schedule.seconds > 0
    assert begins(made, GATHERS)[2] == 1 + 1 + 1 + 2 + 1
    assert made.timeline.start[computed & busy][2] == 7.0


@pytest.mark.parametrize(
    ("zero", "sharding"),
    [
        (2, {}),
        (3, {}),
        (3, {"reshard": False, "fsdp": 1}),
        (3, {"shard": 4, "reshard": 2, "bandwidth": 1e9}),
        (3, {"sync": False}),
    ],
)
def test_every_transfer_of_all_ranks_takes_as_long(zero: int, sharding: dict[str, Any]) -> None:
    """The collectives of all ranks keep their promises."""
    stage = (block(1.0, "embedding"), block(2.0), block(1.0), block(1.0, "head"))
    made = step(stage, 2, Degrees(dp=8), zero, **sharding)
    written = write_transfers(made)
    prove(written)
    assert simulate(made, written).makespan == pytest.approx(made.timeline.makespan, rel=1e-9)


def test_pipelines_share_parameters_of_each_stage() -> None:
    pipeline = find("zb_h1").build(devices=2, micro_batches=2)
    degrees = Degrees(dp=2, pp=2)
    sharding = Sharding(2e9, 2e9, zero=3)
    made = write(Work(((block(1.0),),) * 2, pipeline, times(degrees), sharding))
    counts = moved(made)
    assert (counts["all_gather", 2e9], counts["reduce_scatter", 2e9]) == (2 * 2 * 2, 2 * 2)


def ddp_step(
    micro: int = 1,
    launch: float = 0.0,
    hook: float = 0.0,
    overlap: bool = True,
    views: bool = False,
    passes: float = 4.0,
    degrees: Degrees = Degrees(dp=2),  # noqa: B008
) -> Step:
    """Three blocks with a bucket each, whose all-reduce takes two seconds. A copy takes a second,
    and the hooks of a bucket four times `hook`."""
    rules = BucketRules(4e9, views=views, passes=passes, hook=hook)
    each = (block(2.0, launch=launch),) * 3
    return step(each, micro, degrees, zero=0, overlap=overlap, bucket=1.0, ddp=rules)


@each_case(
    ("options", "seconds", "copies"),
    [
        # Backwards of 4 s with copies end after 11, 16 and 21 s, the last all-reduce after 23 s.
        ({}, 24.0, 6),
        ({"views": True}, 23.0, 3),
        ({"passes": 0.0}, 6 + 12 + 2, 0),
        # All-reduces begin after 21 s.
        ({"overlap": False}, 21 + 6 + 1, 4),
        # A backward before does not copy.
        ({"micro": 2}, 18 + 24, 6),
        # The hooks of the last bucket end after 24 s, and three copies back follow.
        ({"hook": 2.0}, 24 + 3, 3),
        # Three launches of forwards, then a launch and the hooks of each block in turn.
        ({"hook": 2.0, "launch": 1.0}, 3 + 3 * 9 + 3, 3),
    ],
)
def test_ddp_copies_gradients_into_buckets_and_back(
    options: dict[str, Any], seconds: float, copies: int
) -> None:
    """A copy also takes the time of a kernel; `copies` are on the critical path."""
    assert measure(ddp_step(**options)).step == pytest.approx(seconds + copies * KERNEL, abs=1e-9)


def test_a_pass_that_fills_buckets_takes_as_long_as_a_single_row() -> None:
    for options in ({"overlap": False}, {}, {"overlap": False, "micro": 2}):
        work = ddp_step(**options).work
        layers, passes = (write(work, detail).timeline.makespan for detail in ("layers", "passes"))
        assert layers == pytest.approx(passes, rel=1e-12)


def test_every_transfer_of_a_step_with_ddp_takes_as_long() -> None:
    made = ddp_step(hook=0.5, degrees=Degrees(dp=8))
    written = write_transfers(made)
    prove(written)
    assert simulate(made, written).makespan == pytest.approx(made.timeline.makespan, rel=1e-9)


@pytest.mark.parametrize("order", ["gpipe", "zb_h1", "dual_pipe"])
def test_each_stage_of_a_pipeline_has_buckets_of_its_own(order: str) -> None:
    pipeline, degrees = find(order).build(devices=2, micro_batches=4), Degrees(dp=2, pp=2)
    rules = BucketRules(4e9, views=False)
    sharding = Sharding(2e9, overlap=True, bucket=1.0, ddp=rules)
    stages = ((block(1.0),) * 2,) * pipeline.stages
    graph = write(Work(stages, pipeline, times(degrees), sharding)).graph
    count = 2 * pipeline.copies * pipeline.stages
    assert np.count_nonzero(graph.kind == COPY) == 2 * count
    assert np.count_nonzero(graph.lane == STREAMS.index("data")) == count


@each_case(
    ("make", "message"),
    [
        (lambda: Sharding(fsdp=3), "fsdp is 3: 1 or 2"),
        (lambda: step((), slowdown=-1.0), "slowdown is -1.0: a share from 0 on, like 0.1"),
        (lambda: step((), degrees=Degrees(dp=8), shard=3), "shard is 3: take a divisor of the 8"),
        (
            lambda: step((), degrees=Degrees(dp=8), shard=4, reshard=3),
            "reshard is 3: yes, no, or a divisor of the 4 ranks",
        ),
        (lambda: ddp_step(degrees=Degrees()), "DDP reduces .* take dp=2 or more and ep=1"),
        (lambda: ddp_step(degrees=Degrees(dp=2, ep=2)), "DDP reduces gradients in one group"),
        (lambda: step((), zero=1, shard=2), "shard=2: take zero=2 or zero=3, not 1"),
    ],
)
def test_sharing_that_makes_no_sense_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
