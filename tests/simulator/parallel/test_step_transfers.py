"""A step of a plan with every transfer of all ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given

from law_cases import tries
from random_works import RINGS, works
from simulator.engines import run
from simulator.parallel.blocks import Block, BlockPart
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import DATA, SEND, TP
from simulator.parallel.pipelines import find
from simulator.parallel.sharding import Sharding
from simulator.parallel.step import write
from simulator.parallel.step_transfers import prove_flow, ranks_of, simulate, write_transfers
from simulator.parallel.step_work import Work
from simulator.profile import Profile, Protocol
from simulator.schedules.routed import Routed
from simulator.schedules.semantics import WrongResult
from simulator.schedules.timeline import Timeline
from simulator.steps.kinds import RECEIVE
from simulator.steps.written import Written, prove
from topologies.catalogue import find as machine
from topologies.errors import InputError
from topologies.link import Link
from topologies.shapes import full_mesh, nodes, star


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


def small(topology_of: object = full_mesh) -> Work:
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
    step = write(small())
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
    step = write(small(star))
    written = write_transfers(step)
    prove(written)
    longest = simulate(step, written).makespan
    assert longest > write(small()).timeline.makespan
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


def test_communication_slows_down_the_computations_of_all_ranks() -> None:
    mesh = GroupTimes(full_mesh(8, bandwidth=1e10), Degrees(dp=4, tp=2), RINGS)
    slowed, plain = (one_device(mesh, share, overlap=True) for share in (0.5, 0.0))
    check_equal(slowed)
    assert write(slowed).timeline.makespan > write(plain).timeline.makespan


def test_a_missing_transfer_is_seen() -> None:
    written = write_transfers(write(small()))
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
    step = write(small())
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
        write_transfers(write(small()))
    assert len(write_transfers(write(small()), force=True).schedule) > 1000
    with pytest.raises(InputError, match="write it by layers"):
        write_transfers(write(small(), "passes"))


def test_a_step_under_a_profile_is_refused() -> None:
    links = {"link": Link(1e9, latency=1e-6)}
    profile = Profile("slow net", "star", 1e-4, (Protocol("Simple", links),))
    under = GroupTimes(star(8, bandwidth=1e9), Degrees(dp=4, tp=2), RINGS, profile)
    with pytest.raises(InputError, match=r"slow net .* leave out --detail transfers, or --library"):
        write_transfers(write(one_device(under)))
