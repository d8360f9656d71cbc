"""DDP: what the ranks exchange besides gradients, and compressed gradients."""

from dataclasses import replace

import numpy as np
import pytest

from ddp_steps import MODEL, ONE_BUCKET, planned, quiet, ran, star, step
from simulator.training.ddp import DDP


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
