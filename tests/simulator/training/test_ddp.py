"""DDP: closed forms, proofs, the order of what happens, and conditions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddp_steps import GRADIENTS, MODEL, ONE_BUCKET, planned, quiet, ran, star, step
from grouped_cases import each_case
from refusals import refusal
from simulator.collectives.collective import ALL_REDUCE
from simulator.schedules import semantics
from simulator.steps.kinds import BARRIER
from simulator.training.conditions import Failure
from simulator.training.ddp import DDP
from topologies.catalogue import find
from topologies.errors import InputError


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("latency", [0.0, 2.0**-10])
def test_one_bucket_is_all_reduced_after_the_backward(ranks: int, latency: float) -> None:
    ring = 2 * (ranks - 1) / ranks * GRADIENTS / 1024 + 4 * (ranks - 1) * latency
    expected = MODEL.compute + ring
    for strategy in (quiet(bucket=ONE_BUCKET), quiet(bucket=ONE_BUCKET, overlap=False)):
        assert step(strategy, ranks, topology=star(ranks, latency=latency)) == pytest.approx(
            expected, rel=1e-12
        )


@pytest.mark.parametrize(
    "strategy", [quiet(bucket=0.0), quiet(bucket=ONE_BUCKET), quiet(streams=2), DDP()]
)
def test_infinite_bandwidth_hides_all(strategy: DDP) -> None:
    assert step(strategy, 4, topology=star(4, bandwidth=1e18)) == pytest.approx(
        MODEL.compute, rel=1e-9
    )


def test_all_but_the_last_bucket_hide_behind_the_backward() -> None:
    bandwidth = 1.5 * 4096 / 0.5
    _, _, measures = ran(quiet(bucket=0.0), 4, topology=star(4, bandwidth=bandwidth))
    assert measures.step == pytest.approx(MODEL.compute + 0.5)
    assert measures.exposed.tolist() == pytest.approx([0.5] * 4)
    assert measures.hidden.tolist() == pytest.approx([1.5] * 4)


@pytest.mark.parametrize("algo", ["rings", "nvls", "sharp", "parameter_server_apart"])
def test_one_worker_computes_alone(algo: str) -> None:
    plan, timeline, measures = ran(DDP(algo=algo, sync_batch_norm=True, metric=True), 1)
    assert timeline.makespan == MODEL.compute
    assert measures.samples_per_s == 8 / MODEL.compute
    assert (plan.schedule.ranks, plan.schedule.volume) == (1, 0)


@each_case("algo", ["ring", "tree", "halving_doubling", "recursive_doubling", "naive", "rings"])
@each_case("ranks", [2, 3, 5, 8])
@each_case("bucket", [0.0, 5000.0, ONE_BUCKET])
def test_a_step_averages_the_gradients(algo: str, ranks: int, bucket: float) -> None:
    semantics.check(planned(DDP(bucket=bucket, algo=algo, streams=2), ranks).schedule, ALL_REDUCE)


def test_a_step_averages_the_gradients_through_a_server_and_in_switches() -> None:
    with_server = DDP(algo="parameter_server_apart", bucket=0.0)
    assert with_server.servers(4) == 1
    semantics.check(planned(with_server, 4, topology=star(4, servers=1)).schedule, ALL_REDUCE)
    node = find("hgx_h100").build(8)
    plan = planned(DDP(algo="nvls", bucket=0.0), 8, topology=node)
    semantics.check(plan.schedule, ALL_REDUCE)
    assert plan.topology.ranks > node.ranks


@pytest.mark.parametrize(
    "strategy",
    [
        DDP(
            sync_batch_norm=True,
            metric=True,
            prepare=0.1,
            find_unused=True,
            compress=True,
            accumulate=2,
            startup=True,
        ),
        DDP(bucket=0.0, startup=True, streams=3),
    ],
)
def test_a_step_averages_the_gradients_whatever_else_happens(strategy: DDP) -> None:
    semantics.check(planned(strategy, 4, batches={1: 0}).schedule, ALL_REDUCE)


@pytest.mark.parametrize("streams", [1, 2])
def test_on_a_stream_a_rank_enters_a_collective_when_it_has_left_the_one_before(
    streams: int,
) -> None:
    plan, timeline, _ = ran(quiet(bucket=0.0, streams=streams), 4, sigma=0.3)
    for rank in range(4):
        for lane in range(1, 1 + streams):
            graph = plan.graph
            mine = (graph.place == rank) & (graph.lane == lane) & (graph.call >= 0)
            entered, left = (times[mine] for times in plan.times(timeline))
            assert len(entered) == 4 // streams
            assert np.all(entered[1:] >= left[:-1])


def test_buckets_are_launched_in_their_order() -> None:
    """The layer registered last gets its gradient last, and its bucket is the first."""
    turned = replace(MODEL, registration=(3, 2, 1, 0))
    kept = quiet(bucket=0.0, find_unused=True, walk=0.0)
    fast = star(4, bandwidth=1.5 * 4096 / 0.5)
    assert step(kept, 4, model=turned, topology=fast) > step(kept, 4, topology=fast) + 1
    rebuilt = quiet(bucket=0.0)
    assert step(rebuilt, 4, model=turned, topology=fast) == step(rebuilt, 4, topology=fast)


def test_accumulated_batches_are_not_synchronised() -> None:
    single_batch = ran(quiet(bucket=ONE_BUCKET), 4)
    three_batches = ran(quiet(bucket=ONE_BUCKET, accumulate=3), 4)
    assert three_batches[2].step - single_batch[2].step == pytest.approx(
        2 * (MODEL.forward + MODEL.backward)
    )
    assert three_batches[0].schedule.volume == single_batch[0].schedule.volume
    assert three_batches[0].samples.tolist() == [3 * 4 * 8]


def test_the_first_iteration_has_one_bucket_and_the_model_is_broadcast_before() -> None:
    _, timeline, measures = ran(quiet(bucket=0.0, startup=True), 2, steps=2)
    broadcast = (GRADIENTS + 64) / 1024
    assert measures.steps[0] == pytest.approx(broadcast + MODEL.compute + GRADIENTS / 1024)
    assert measures.steps[1] < measures.steps[0] - broadcast
    assert measures.steps[1:].tolist() == pytest.approx([step(quiet(bucket=0.0), 2)] * 2)
    assert timeline.makespan == pytest.approx(measures.steps.sum())


@given(
    st.integers(2, 6),
    st.sampled_from([0.0, 4096.0, 6000.0, ONE_BUCKET]),
    st.sampled_from(["ring", "tree", "naive"]),
    st.integers(1, 3),
    st.floats(0, 0.5),
    st.booleans(),
)
def test_laws_of_every_step(
    ranks: int, bucket: float, algo: str, streams: int, sigma: float, overlap: bool
) -> None:
    strategy = quiet(bucket=bucket, algo=algo, streams=streams, overlap=overlap)
    _, timeline, measures = ran(strategy, ranks, steps=2, sigma=sigma)
    span = timeline.makespan
    assert measures.steps.sum() == pytest.approx(span)
    assert measures.computing + measures.bubbles.sum(axis=1) == pytest.approx(np.full(ranks, span))
    assert np.all(measures.exposed <= measures.bubbles.sum(axis=1) + 1e-9)
    assert np.all(measures.hidden <= measures.computing + 1e-9)
    if overlap and streams == 1 and algo == "ring":
        serial = ran(replace(strategy, overlap=False), ranks, steps=2, sigma=sigma)[1].makespan
        assert span <= serial * (1 + 1e-9)  # a ring's ports serve in one order: no anomalies


def test_the_first_iteration_has_the_later_buckets_if_they_are_never_rebuilt() -> None:
    kept = planned(quiet(startup=True, find_unused=True, bucket=0.0), 2)
    names = [name for name in kept.schedule.phases if name.startswith("all-reduce bucket")]
    entered = [
        kept.schedule.phases[kept.schedule.phase[op]]
        for op in kept.first[(kept.graph.place == 0) & (kept.graph.call >= 0)]
    ]
    assert [entered.count(name) for name in names] == [2] * 4


def test_the_buckets_are_described() -> None:
    assert planned(quiet(bucket=ONE_BUCKET), 2).words[0] == "1 bucket of 16KiB"
    assert planned(quiet(bucket=6000.0), 2).words[0] == "2 buckets of 8KiB to 8KiB"


def test_a_step_has_at_most_1024_batches_and_64_streams() -> None:
    most = DDP(accumulate=1024, streams=64)
    assert (most.accumulate, most.streams) == (1024, 64)
    for accumulate, streams in ((1025, 1), (1, 65), (0, 1), (1, 0)):
        assert refusal(DDP, accumulate=accumulate, streams=streams).startswith(
            f"ddp: accumulate={accumulate}, streams={streams}: 1 to 1024 batches, 1"
        )


def test_a_launch_comes_before_a_collective_alone() -> None:
    usual, launched = (step(quiet(bucket=ONE_BUCKET, launch=launch), 4) for launch in (0.0, 3.0))
    assert launched == pytest.approx(usual + 3)


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
