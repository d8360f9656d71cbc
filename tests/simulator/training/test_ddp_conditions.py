"""DDP under conditions: stragglers, uneven input, noise, failures."""

import numpy as np
import pytest

from ddp_steps import GRADIENTS, MODEL, ONE_BUCKET, planned, quiet, ran, star
from simulator.steps.kinds import BARRIER
from simulator.training.conditions import Failure
from topologies.errors import InputError


@pytest.mark.parametrize("seconds", [0.5, 3.0])
def test_all_wait_for_the_data_of_rank_0(seconds: float) -> None:
    _, _, measures = ran(quiet(prepare=seconds), 4, topology=star(4, bandwidth=1e18))
    assert measures.step == pytest.approx(MODEL.compute + seconds)
    assert measures.bubbles.seconds[:, 2].tolist() == pytest.approx([seconds] * 4)


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
    assert measures.bubbles.total.tolist() == pytest.approx(
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


def test_a_failure_costs_the_restart_and_the_lost_steps() -> None:
    failure = Failure(1, 3, restart=40.0, timeout=10.0, checkpoint=2)
    plan, timeline, measures = ran(quiet(bucket=ONE_BUCKET), 4, steps=5, failure=failure)
    whole = MODEL.compute + 1.5 * GRADIENTS / 1024
    assert plan.useful.tolist() == [1, 1, 0, 0, 1, 1, 1]
    assert timeline.makespan == pytest.approx(6 * whole + MODEL.forward + 50)
    assert measures.samples_per_s == pytest.approx(5 * 32 / timeline.makespan)


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


def test_somebody_has_input_for_every_step() -> None:
    with pytest.raises(InputError, match="3 steps: nobody has input for all of them"):
        planned(quiet(), 2, steps=3, batches={0: 1, 1: 2})
