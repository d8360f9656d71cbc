"""Steps of plans with more places: ranks that differ, and all transfers of all ranks."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grouped_cases import each_case
from law_cases import tries
from random_works import LARGE, RINGS, SMALL, works
from refusals import refusal
from simulator.engines import run
from simulator.parallel.blocks import Block, BlockPart
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import DATA, SEND, TP
from simulator.parallel.pipelines import find
from simulator.parallel.sharding import Sharding
from simulator.parallel.step import Step, write
from simulator.parallel.step_measures import by_device, length_of, measure, peer_waits
from simulator.parallel.step_splits import (
    chained,
    place_of,
    prove_flow,
    ranks_of,
    simulate,
    split_step,
    write_transfers,
)
from simulator.parallel.step_work import Work
from simulator.profile import Profile, Protocol
from simulator.schedules.routed import Routed
from simulator.schedules.semantics import WrongResult
from simulator.schedules.timeline import Timeline
from simulator.steps.kinds import RECEIVE, RESTART
from simulator.steps.written import Written, prove
from simulator.training.conditions import Conditions, Failure
from topologies.catalogue import find as machine
from topologies.errors import InputError
from topologies.link import Link
from topologies.shapes import full_mesh, nodes, star, torus
from topologies.variants import slowed

FIELDS = "computing", "optimizer", "restarting", "exposed", "launching", "idle"


def under(step: Step, conditions: Conditions, steps: int = 1) -> Step:
    """So many steps under conditions."""
    return chained(split_step(step, place_of(step, conditions, steps)), conditions, steps)


def with_slow_link(work: Work, rank: int, share: float = 0.5) -> Work:
    """All links of a rank have a share of their bandwidth."""
    times, topology = work.times, slowed(work.times.topology, rank, share)
    return replace(work, times=GroupTimes(topology, times.degrees, RINGS, usual=times))


def small_step(degrees: Degrees) -> Step:
    """A forward of 1 s and a backward of 2 s on each device, and an optimizer of 0.5 s."""
    times = GroupTimes(full_mesh(max(2, degrees.ranks), bandwidth=1e9), degrees, RINGS)
    layer = Block("layer", (BlockPart(1.0),), (), (), (BlockPart(2.0),), parameters=1e6)
    pipeline = find("1f1b").build(devices=degrees.pp, micro_batches=1)
    sharding = Sharding(optimizer=(0.5,) * degrees.pp)
    return write(Work(((layer,),) * degrees.pp, pipeline, times, sharding))


@tries(20, 100)
@given(st.data())
def test_split_places_take_the_times_of_all_ranks(data: st.DataObject) -> None:
    """Up to 128 ranks, two stragglers or a failure, several steps."""
    large = data.draw(st.booleans())
    shared = data.draw(st.booleans())
    work: Work = data.draw(works(*((LARGE, 4) if large else (SMALL, 2)), shared=shared))
    if (shared or not large) and data.draw(st.booleans()):
        work = with_slow_link(work, data.draw(st.integers(0, work.times.degrees.ranks - 1)))
    step = write(work)
    ranks, steps = st.integers(0, step.graph.ranks - 1), data.draw(st.integers(1, 2))
    slower = data.draw(st.dictionaries(ranks, st.sampled_from((0.5, 1.0, 3.0)), max_size=2))
    failure = Failure(data.draw(ranks), 0, 5.0, 1.0) if data.draw(st.booleans()) else None
    conditions = Conditions(slower, failure=failure)
    few = under(step, conditions, steps)
    every = chained(split_step(step, np.arange(step.graph.ranks)), conditions, steps)
    assert few.graph.places <= every.graph.places == step.graph.ranks
    assert length_of(few) == pytest.approx(length_of(every), rel=1e-9)
    found, expected = (
        by_device(measure(each), each.graph, step.graph.place_of, steps) for each in (few, every)
    )
    for name in FIELDS:
        one, other = getattr(found, name), getattr(expected, name)
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)
    assert sum(getattr(found, name).reshape(len(found.idle), -1).sum() for name in FIELDS) == (
        pytest.approx(found.step * len(found.idle), rel=1e-9)
    )


@tries(20, 100)
@given(st.data())
def test_conditions_that_slow_nothing_down_change_nothing(data: st.DataObject) -> None:
    work: Work = data.draw(works(SMALL, shared=data.draw(st.booleans())))
    step = write(work)
    full = write(with_slow_link(work, 1, 1.0)) if data.draw(st.booleans()) else step
    assert place_of(full, Conditions(), 1).max() == step.graph.places - 1
    same = split_step(full, np.arange(step.graph.ranks))
    before, after = measure(step), measure(chained(same, Conditions({1: 1.0}), 1))
    after = by_device(after, same.graph, step.graph.place_of, 1)
    assert after.step == pytest.approx(before.step, rel=1e-9)
    for name in (*FIELDS, "idle_between"):
        assert getattr(after, name) == pytest.approx(getattr(before, name), rel=1e-9, abs=1e-9)


def test_a_straggler_makes_all_wait_for_its_computations() -> None:
    step = small_step(Degrees(dp=4))
    slow = under(step, Conditions({2: 2.0}))
    assert slow.graph.places == 2
    # The forward and the backward before the gradients are reduced, and the optimizer behind that.
    assert length_of(slow) == pytest.approx(length_of(step) + 3.0 + 0.5)
    assert slow.graph.place_of.tolist() == [0, 0, 1, 0]
    assert peer_waits(slow) == {(0, 1, DATA): pytest.approx(3.0)}


def test_a_device_waits_for_what_a_slow_peer_sends() -> None:
    step = small_step(Degrees(pp=2))
    slow = under(step, Conditions({0: 2.0}))
    plain = peer_waits(step)
    assert [*plain] == [(0, 1, SEND), (1, 0, SEND)]
    assert peer_waits(slow) == {
        (0, 1, SEND): pytest.approx(plain[0, 1, SEND]),
        (1, 0, SEND): pytest.approx(plain[1, 0, SEND] + 1.0),
    }


def test_steps_follow_each_other() -> None:
    step = small_step(Degrees(dp=2))
    noisy = Conditions(sigma=0.5, seed=3)
    assert length_of(under(step, Conditions(), 3)) == pytest.approx(3 * length_of(step))
    factors = noisy.factors(3, 2)
    expected = 3 * length_of(step) + np.sum(3.0 * (factors.max(axis=1) - 1))
    many = under(step, noisy, 3)
    # The optimizers of two ranks differ, and the next forwards follow at once.
    ends = np.zeros(2)
    for row in factors:
        ends = (ends + 3.0 * row).max() + length_of(step) - 3.5 + 0.5 * row
    assert length_of(many) == pytest.approx(ends.max())
    assert length_of(many) == pytest.approx(expected, rel=0.2)
    assert many.graph.step[[0, -1]].tolist() == [0, 2]


def test_after_a_failure_all_restart_and_go_on_from_the_checkpoint() -> None:
    step = small_step(Degrees(dp=2))
    failed = under(step, Conditions(failure=Failure(1, 1, 10.0, 2.0, checkpoint=2)), 3)
    # Step 0, the forward of step 1, the restart, and steps 0 to 2.
    assert length_of(failed) == pytest.approx(4 * length_of(step) + 1.0 + 12.0)
    restarts = failed.graph.kind == RESTART
    assert failed.graph.seconds[restarts].tolist() == [12.0, 12.0]
    assert measure(failed).restarting == pytest.approx([12.0, 12.0])


def test_only_the_groups_of_a_slow_link_take_longer() -> None:
    degrees = Degrees(dp=2, tp=4)
    times = GroupTimes(full_mesh(8, bandwidth=1e9), degrees, RINGS)
    layer = Block("layer", (BlockPart(1.0, "tp", "all_reduce", 4e9),), (), (), (BlockPart(1.0),))
    pipeline = find("1f1b").build(devices=1, micro_batches=1)
    work = Work(((layer,),), pipeline, times, Sharding(optimizer=(0.0,)))
    assert length_of(write(work)) == pytest.approx(2.0 + 6.0)
    slow = under(write(with_slow_link(work, 5)), Conditions())
    assert slow.graph.place_of.tolist() == [0] * 4 + [1] * 4
    called = slow.graph.call >= 0
    assert slow.graph.seconds[called] == pytest.approx([6.0, 12.0])
    finish = [slow.timeline.finish[slow.graph.place == place].max() for place in (0, 1)]
    assert finish == pytest.approx([8.0, 14.0])


@each_case(
    ("conditions", "message"),
    [
        (Conditions({2: 1.5}), "straggler: there is no rank 2, ranks run from 0 to 1"),
        (Conditions(failure=Failure(2, 0, 1.0)), "rank 2 fails: ranks run from 0 to 1"),
        (Conditions(failure=Failure(1, 3, 1.0)), "a worker fails in step 3: the steps are 0 to 2"),
    ],
)
def test_ranks_and_steps_that_do_not_exist_are_refused(
    conditions: Conditions, message: str
) -> None:
    assert refusal(place_of, small_step(Degrees(dp=2)), conditions, 3) == message


def test_rings_do_not_change_with_a_slow_link() -> None:
    """A library makes its rings for the machine as it is built: a link that is a little slower
    changes a step a little, and rings that avoid it would be faster than usual."""
    topology, degrees = torus(16, bandwidth=1e9, dims=(4, 4)), Degrees(dp=16)
    usual = GroupTimes(topology, degrees)
    call = "dp", "reduce_scatter", 1e9
    times = [
        GroupTimes(slowed(topology, 0, share), degrees, usual=usual).seconds(*call)
        for share in (1.0, 1 - 1e-6, 0.9, 0.5)
    ]
    assert times[0] == usual.seconds(*call)
    assert times[1] == pytest.approx(times[0], rel=1e-5)
    assert times == sorted(times)


@tries(6, 25)
@given(works())
def test_transfers_take_as_long_as_the_step_where_streams_share_no_link(work: Work) -> None:
    step = write(work)
    written = write_transfers(step)
    prove(written)
    graph, finish = ranks_of(step, ordered=True), simulate(step, written).finish[written.last]
    for rank, place in enumerate(step.graph.place_of):
        expected = np.sort(step.timeline.finish[step.schedule.rank == place])
        ends = np.sort(finish[(graph.place == rank) & (graph.kind != RECEIVE)])
        assert ends == pytest.approx(expected, rel=1e-9, abs=1e-9)


def small_work(topology_of: object = full_mesh) -> Work:
    """DP x TP x PP on eight ranks."""
    degrees = Degrees(dp=2, tp=2, pp=2)
    mesh = topology_of(8, bandwidth=1e9)  # type: ignore[operator]
    part = BlockPart(1.0, "tp", "all_reduce", 4e6)
    block = Block("layer", (part,) * 2, (part,) * 2, (), (part,) * 2, parameters=1e6, output=2e6)
    pipeline = find("1f1b").build(devices=2, micro_batches=4)
    sharding = Sharding(tied=1e6, optimizer=(1.0, 1.0))
    times_of = GroupTimes(mesh, degrees, RINGS)
    return Work(((block,) * 3,) * 2, pipeline, times_of, sharding)


def test_a_step_amounts_to_the_collectives_of_its_plan() -> None:
    step = write(small_work())
    graph, lane = step.graph, step.schedule.lane
    # Forward and backward: two all-reduces a layer, 6 layers, 4 micro-batches.
    assert np.count_nonzero(lane == TP) == 2 * 2 * 6 * 4
    assert graph.nbytes[lane == TP].sum() == 2 * 2 * 6 * 4 * 4e6
    assert graph.nbytes[lane == DATA].tolist() == [3 * 4e6] * 2
    assert np.count_nonzero(lane == SEND) == 2 * 4
    written = write_transfers(step)
    groups = {tuple(meeting.ranks.tolist()) for meeting in written.meetings}
    plan = step.work.times.degrees
    expected = [
        *plan.groups("tp").tolist(),
        *plan.groups("dp").tolist(),
        *plan.groups("pp").tolist(),
        *plan.groups("pp")[:, ::-1].tolist(),
    ]
    assert groups == {tuple(group) for group in expected}


def test_streams_that_share_links_take_longer_together() -> None:
    step = write(small_work(star))
    written = write_transfers(step)
    prove(written)
    longest = simulate(step, written).makespan
    assert longest > write(small_work()).timeline.makespan
    assert step.timeline.makespan == pytest.approx(longest, rel=0.001)


def one_device(times: GroupTimes, slowdown: float = 0.0, *, overlap: bool = False) -> Work:
    """A step without a pipeline: collectives of tensor parallel, then those of the gradients, which
    may run beside computations."""
    part = BlockPart(1e-3, "tp", "all_reduce", 4e6)
    block = Block("layer", (part,), (), (), (BlockPart(1e-3), part), parameters=1e6)
    sharding = Sharding(optimizer=(1e-3,), overlap=overlap, bucket=1.0)
    pipeline = find("1f1b").build(devices=1, micro_batches=1)
    return Work(((block,) * 2,), pipeline, times, sharding, slowdown=slowdown)


def check_equal(work: Work) -> None:
    """The step with all transfers takes as long as the step."""
    step = write(work)
    written = write_transfers(step)
    prove(written)
    assert simulate(step, written).makespan == pytest.approx(step.timeline.makespan, rel=1e-9)


def test_groups_of_equal_sizes_run_the_schedules_of_their_kinds() -> None:
    """Groups of tensor parallel are inside a node, groups of data parallel are across nodes."""
    check_equal(one_device(GroupTimes(machine("dgx_a100:nodes=2").build(16), Degrees(dp=4, tp=4))))


@pytest.mark.parametrize(
    "rules",
    [run, partial(run, store_and_forward=True), partial(run, sharing="fair")],
    ids=["cut_through", "store_and_forward", "fair"],
)
@pytest.mark.parametrize("reduction", [0.0, 1e-10])
def test_all_transfers_run_by_the_rules_of_the_step(
    rules: Callable[[Routed], Timeline], reduction: float
) -> None:
    """The groups of data parallel share the links between nodes: they take turns in the same
    order."""
    shared = nodes(8, per_node=2, bandwidth=12.5e9, latency=1e-6, reduction=reduction)
    trees = {"all_reduce": ("double_tree",)}
    check_equal(one_device(GroupTimes(shared, Degrees(dp=4, tp=2), trees, run=rules)))


@pytest.mark.parametrize("seconds", [0.0, 1e-3, 1.0])
def test_a_step_takes_no_less_than_a_busy_nic(seconds: float) -> None:
    """Of four replicas that share a NIC, each goes on when it is served: as soon as the NIC is
    free, however short the computations are that follow."""
    shared = nodes(8, per_node=4, bandwidth=1e9, latency=0.0)
    times = GroupTimes(shared, Degrees(dp=4, tp=2, order="dp-tp-cp-pp"), RINGS)
    part = BlockPart(seconds, "tp", "all_reduce", 4e6)
    block = Block("layer", (part,), (), (), (BlockPart(seconds), part), parameters=1.0)
    pipeline = find("1f1b").build(devices=1, micro_batches=8)
    step = write(Work(((block,) * 2,), pipeline, times, Sharding()))
    longest = simulate(step, write_transfers(step)).makespan
    assert 0.98 * longest < step.timeline.makespan < 1.1 * longest


def test_communication_slows_down_the_computations_of_all_ranks() -> None:
    mesh = GroupTimes(full_mesh(8, bandwidth=1e10), Degrees(dp=4, tp=2), RINGS)
    slowed, plain = (one_device(mesh, share, overlap=True) for share in (0.5, 0.0))
    check_equal(slowed)
    assert write(slowed).timeline.makespan > write(plain).timeline.makespan


def test_a_missing_transfer_is_seen() -> None:
    written = write_transfers(write(small_work()))
    schedule = written.schedule
    moved = np.flatnonzero(schedule.remote & (schedule.source >= 0))
    for transfer in (moved[0], moved[-1]):
        kept = schedule.count.copy()
        kept[transfer] = 0
        lacking: Written = replace(written, schedule=replace(schedule, count=kept))
        with pytest.raises(WrongResult):
            prove(lacking)


@pytest.mark.parametrize(("device", "what"), [(1, "activation"), (0, "gradient")])
def test_a_micro_batch_that_does_not_pass_all_stages_is_seen(device: int, what: str) -> None:
    """The ranks of a device do not wait for what they receive."""
    step = write(small_work())
    graph = ranks_of(step, ordered=True)
    prove_flow(graph)
    receivers = step.graph.place_of[graph.place] == device
    received = np.flatnonzero((graph.kind == RECEIVE) & receivers)
    indices = np.where(np.isin(graph.indices, received), 0, graph.indices)
    with pytest.raises(WrongResult, match=f"the {what} of micro-batch [0-3] misses stage"):
        prove_flow(replace(graph, indices=indices))


def test_large_steps_and_passes_are_refused(free: Callable[[float], None]) -> None:
    free(1e5)
    with pytest.raises(InputError, match=r"the tasks have .* operations"):
        write_transfers(write(small_work()))
    assert len(write_transfers(write(small_work()), force=True).schedule) > 1000
    assert "write it by layers" in refusal(write_transfers, write(small_work(), "passes"))


def test_a_step_under_a_profile_is_refused() -> None:
    links = {"link": Link(1e9, latency=1e-6)}
    profile = Profile("slow net", "star", 1e-4, (Protocol("Simple", links),))
    under = GroupTimes(star(8, bandwidth=1e9), Degrees(dp=4, tp=2), RINGS, profile)
    with pytest.raises(InputError, match=r"slow net .* leave out --detail transfers, or --library"):
        write_transfers(write(one_device(under)))
