"""DDP under conditions, and what its ranks exchange besides gradients."""

from dataclasses import replace

import numpy as np
import pytest

from ddp_steps import MODEL, ONE_BUCKET, planned, quiet, ran, star, step
from simulator.steps.kinds import BARRIER
from simulator.training.conditions import Failure
from simulator.training.ddp import DDP
from topologies.errors import InputError


@pytest.mark.parametrize("seconds", [0.5, 3.0])
def test_all_wait_for_the_data_of_rank_0(seconds: float) -> None:
    _, _, measures = ran(quiet(prepare=seconds), 4, topology=star(4, bandwidth=1e18))
    assert measures.step == pytest.approx(MODEL.compute + seconds)
    assert measures.bubbles[:, 2].tolist() == pytest.approx([seconds] * 4)


def test_rank_0_prepares_data_on_its_host_when_its_last_step_is_done() -> None:
    plan, timeline, _ = ran(quiet(prepare=3.0, streams=2), 3, steps=2, slower={1: 2.0})
    schedule = plan.schedule
    names = np.array(schedule.phases)[schedule.phase]
    prepared = np.flatnonzero(names == "prepare data")
    optimized = np.flatnonzero(names == "optimizer")
    assert schedule.rank[prepared].tolist() == [0, 0]
    assert {plan.graph.lanes[lane] for lane in schedule.lane[prepared]} == {"host"}
    assert timeline.start[prepared].tolist() == [
        0,
        timeline.finish[optimized[schedule.rank[optimized] == 0][0]],
    ]
    barriers = plan.first[plan.graph.kind == BARRIER]
    assert timeline.ready[barriers[:3]].tolist() == [3, 0, 0]


def test_all_wait_for_a_straggler() -> None:
    _, _, measures = ran(
        quiet(bucket=ONE_BUCKET), 4, topology=star(4, bandwidth=1e18), slower={2: 2.0}
    )
    assert measures.step == pytest.approx(2 * MODEL.compute)
    assert measures.bubbles.sum(axis=1).tolist() == pytest.approx(
        [MODEL.compute] * 2 + [0.0, MODEL.compute]
    )


def test_a_rank_without_input_takes_part_in_the_all_reduce() -> None:
    plan, _, measures = ran(quiet(), 4, steps=3, batches={1: 1, 2: 2})
    assert plan.samples.tolist() == [32, 24, 16]
    assert measures.computing[0] > measures.computing[2] > measures.computing[1]


def test_ranks_ask_each_other_before_every_step_who_has_input() -> None:
    plan, timeline, _ = ran(quiet(), 3, steps=2, batches={1: 1}, slower={2: 2.0})
    names = np.array(plan.schedule.phases)[plan.schedule.phase]
    asked = plan.first[names[plan.first] == "all-reduce join"]
    optimized = timeline.finish[names == "optimizer"]
    assert timeline.ready[asked].tolist() == [0, 0, 0, *optimized[:3]]
    assert "all-reduce join" not in planned(quiet(), 3).schedule.phases


def test_a_repeated_step_keeps_its_number() -> None:
    failure = Failure(1, 3, restart=40.0, checkpoint=2)
    assert planned(quiet(), 2, steps=5, failure=failure).numbers.tolist() == [0, 1, 2, 3, 2, 3, 4]
    assert planned(
        quiet(startup=True), 2, steps=3, failure=Failure(1, 0, 1.0)
    ).numbers.tolist() == [0, 1, 1, 2, 3]


def test_the_first_iteration_has_noise_and_input_of_its_own() -> None:
    schedule = planned(quiet(startup=True), 2, steps=2, sigma=0.3, seed=3).schedule
    forwards = [schedule.phases[phase] == "forward fc0" for phase in schedule.phase.tolist()]
    assert len(set(schedule.seconds[forwards].tolist())) == 3 * 2
    uneven = planned(quiet(startup=True), 2, steps=3, batches={1: 2})
    assert uneven.samples.tolist() == [16, 16, 16, 8]


def test_others_wait_for_the_one_that_fails_and_not_for_a_slow_one() -> None:
    failure = Failure(0, 0, restart=40.0)
    plan, timeline, _ = ran(quiet(bucket=ONE_BUCKET), 3, failure=failure, slower={2: 100.0})
    restarts = [plan.schedule.phases[phase] == "restart" for phase in plan.schedule.phase.tolist()]
    assert timeline.start[restarts].tolist() == [MODEL.forward, MODEL.forward, 100 * MODEL.forward]


def test_unused_parameters_are_found_by_a_walk_a_parameter_before_the_backward() -> None:
    """Four parameters; with accumulated batches the walk comes once, before the backward that is
    synchronised."""
    fast = star(2, bandwidth=1e18)
    for accumulate in (1, 3):
        walked, free = (
            step(
                quiet(find_unused=True, walk=walk, accumulate=accumulate),
                2,
                topology=fast,
                slower={1: 2.0},
            )
            for walk in (0.25, 0.0)
        )
        assert walked - free == pytest.approx(2.0 * 4 * 0.25)
    assert step(quiet(walk=0.25), 2, topology=fast) == pytest.approx(MODEL.compute)
    assert DDP().walk == 1e-6
    _, timeline, _ = ran(quiet(find_unused=True, walk=0.25), 2, topology=fast)
    schedule = timeline.schedule
    walks = [schedule.phases[phase] == "walk" for phase in schedule.phase.tolist()]
    assert timeline.start[walks].tolist() == [MODEL.forward] * 2


def test_buffers_are_broadcast_before_every_forward() -> None:
    assert step(DDP(bucket=ONE_BUCKET), 2) - step(quiet(bucket=ONE_BUCKET), 2) == pytest.approx(
        64 / 1024
    )


def test_half_the_bytes_travel_under_compression() -> None:
    plain, halved = planned(quiet(), 4), planned(quiet(compress=True), 4)
    assert halved.schedule.volume == plain.schedule.volume / 2
    packing = replace(MODEL, memory_bandwidth=1.5 * 4096.0)
    strategy = quiet(compress=True, overlap=False, bucket=0.0, copies=0.0)
    extra = step(strategy, 2, model=packing) - step(strategy, 2)
    assert extra == pytest.approx(4 * 2)


def test_batch_norms_wait_for_each_other() -> None:
    alpha = 2.0**-6
    wide = star(2, bandwidth=1e18, latency=alpha)
    waits = 4 * (2 * alpha + 2 * 2 * alpha)
    assert step(quiet(sync_batch_norm=True, bucket=ONE_BUCKET), 2, topology=wide) == pytest.approx(
        step(quiet(bucket=ONE_BUCKET), 2, topology=wide) + waits
    )


def test_batch_norms_exchange_two_sums_a_channel_and_a_count() -> None:
    # Forward: all ranks gather two sums a channel and a count. Backward: a tree all-reduces two
    # sums a channel.
    ranks, sums = 3, 2 * 2 * 4.0
    forward, backward = (ranks - 1) * ranks * (sums + 4), 2 * (ranks - 1) * sums
    plain, synced = (
        planned(quiet(sync_batch_norm=sync), ranks).schedule.volume for sync in (False, True)
    )
    assert synced - plain == pytest.approx(4 * (forward + backward))


def test_ranks_tell_each_other_which_parameters_they_used() -> None:
    # An all-reduce by a tree of a number a parameter, after all buckets.
    kept = planned(quiet(find_unused=True), 3).schedule
    assert kept.volume - planned(quiet(), 3).schedule.volume == pytest.approx(2 * 2 * 4 * 4.0)
    used = np.flatnonzero(kept.phase == kept.phases.index("all-reduce used parameters"))
    buckets = [k for k, name in enumerate(kept.phases) if name.startswith("all-reduce bucket")]
    assert used.min() > np.flatnonzero(np.isin(kept.phase, buckets)).max()


def test_a_metric_makes_the_next_step_wait() -> None:
    alpha = 2.0**-6
    wide = star(2, bandwidth=1e18, latency=alpha)
    plain, waiting = (
        ran(quiet(metric=metric), 2, topology=wide, steps=3)[1].makespan for metric in (False, True)
    )
    assert waiting - plain == pytest.approx(3 * 4 * alpha)


def test_somebody_has_input_for_every_step() -> None:
    with pytest.raises(InputError, match="3 steps: nobody has input for all of them"):
        planned(quiet(), 2, steps=3, batches={0: 1, 1: 2})
