"""The spans of training runs and of steps of plans: gaps, communications, labels and groups."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.models.device_times import DeviceTimes
from experiments.models.model_catalogue import find_transformer
from experiments.parallel.plan_step import Training, work_of
from experiments.parallel.plan_text import parse_plan
from experiments.pictures.timelines.painter import timeline_drawing
from experiments.pictures.timelines.step_spans import (
    Communication,
    StepSpans,
    step_spans,
    strategy_spans,
)
from simulator.analysis.bubbles import BubbleSpans, bubbles, gaps_without_causes
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.step import write
from simulator.schedules.timeline import Timeline
from simulator.training import find
from simulator.training.conditions import Conditions
from simulator.training.ddp import DDP
from simulator.training.plan import COMPUTE, Plan
from topologies.catalogue import find as machine

Run = Callable[..., tuple[Plan, Timeline]]


def test_names_of_lanes(run: Run) -> None:
    assert strategy_spans(*run(find("asgd")(), 2)).lanes[:2] == ("compute", "communication")


def gaps(plan: Plan, timeline: Timeline) -> BubbleSpans:
    """The gaps of the workers, a row each."""
    spans = gaps_without_causes(timeline)
    return spans.take(spans.rank < plan.workers)


@given(
    ranks=st.integers(1, 5),
    steps=st.integers(1, 3),
    sigma=st.sampled_from([0.0, 0.3]),
    name=st.sampled_from(["ddp", "asgd"]),
)
def test_gaps_add_up_to_the_bubbles(
    run: Run, ranks: int, steps: int, sigma: float, name: str
) -> None:
    plan, timeline = run(find(name)(), ranks, steps=steps, conditions=Conditions(sigma=sigma))
    idle_gaps = gaps(plan, timeline)
    idle = np.bincount(idle_gaps.rank, idle_gaps.end - idle_gaps.start, ranks)
    np.testing.assert_allclose(idle, bubbles(timeline).total[:ranks], atol=1e-12)
    boxes = strategy_spans(plan, timeline).boxes
    main = boxes.take(boxes.lane == COMPUTE)
    busy = np.bincount(main.row, main.end - main.start, ranks + 1)[:ranks]
    np.testing.assert_allclose(idle + busy, timeline.makespan)
    assert (idle_gaps.end > idle_gaps.start).all()


def waited_for(timeline: Timeline, idle_gaps: BubbleSpans) -> list[str]:
    """The phase that each gap waits for, nothing in a drain."""
    schedule = timeline.schedule
    return [
        schedule.phases[schedule.phase[operation]] if operation >= 0 else ""
        for operation in idle_gaps.awaited.tolist()
    ]


def test_a_gap_ends_with_what_it_waited_for_or_with_the_run(run: Run) -> None:
    plan, timeline = run(DDP(overlap=False, bucket=1e12), 2, conditions=Conditions(slower={1: 2.0}))
    idle_gaps = gaps(plan, timeline)
    assert idle_gaps.rank.tolist() == [0, 0, 1]
    assert waited_for(timeline, idle_gaps) == ["all-reduce bucket 0", "", "all-reduce bucket 0"]
    assert idle_gaps.end[1] - idle_gaps.start[1] == pytest.approx(5e-4)


def test_after_its_last_computation_a_worker_waits_for_what_it_takes_part_in(run: Run) -> None:
    plan, timeline = run(find("ssgd")(), 3)
    idle_gaps = gaps(plan, timeline)
    assert idle_gaps.rank.tolist() == [0, 0, 0, 1, 1, 2]
    assert waited_for(timeline, idle_gaps) == [
        "push model",
        "push model",
        "pull",
        "pull",
        "",
        "pull",
    ]


def test_entering_and_leaving_belong_to_the_communication(run: Run) -> None:
    plan, timeline = run(DDP(bucket=1000.0, launch=1e-4), 3)
    boxes = strategy_spans(plan, timeline).boxes
    talking, computing = boxes.take(boxes.lane > 0), boxes.take(boxes.lane == 0)
    assert len(talking.row) == 3 * 2
    assert set(talking.lane.tolist()) == {1}
    assert len(computing.row) == 3 * (2 + 2 + 1)


def planned(text: str) -> StepSpans:
    """A step of a plan on four GPUs."""
    entry = find_transformer("gpt3_1_7b:layers=2,hidden=1024,heads=8,seq=512")
    training = Training(entry.name, entry.shape, entry.size, DeviceTimes("h100"))
    plan = parse_plan(text, gpus=4)
    times = GroupTimes(machine("star").build(4), plan.degrees)
    return step_spans(write(work_of(training, plan, times)))


def test_a_step_with_ddp_shows_copies_on_the_device_and_hooks_on_the_cpu() -> None:
    spans = planned("dp=4,ddp=yes")
    lanes = {
        name: {spans.lanes[lane] for lane in spans.boxes.lane[spans.boxes.name == number]}
        for number, name in enumerate(spans.names)
    }
    assert lanes["copy"] == lanes["copy 0"] == {"compute"}
    assert lanes["hooks 0"] == {"host"}
    assert {*spans.kinds} <= {*spans.legend}


def test_a_step_of_a_plan_has_labels_and_groups_and_its_picture_has_shares_of_bubbles() -> None:
    spans = planned("tp=2,pp=2,batch=4")
    graph, boxes = spans.graph, spans.boxes
    tasks = boxes.task
    assert spans.worker_of.tolist() == [0, 0, 1, 1]
    assert spans.groups["tp"].tolist() == [[0, 1], [2, 3]]
    assert {Communication("all_reduce", "tp"), Communication("send", "send")} <= {*spans.calls}
    named = np.array(spans.names)[boxes.name]
    assert set(graph.micro[tasks[named == "forward 1"]].tolist()) == {1}
    calls = spans.call[tasks[named == "tp all_reduce"]].tolist()
    assert {spans.calls[call] for call in calls} == {Communication("all_reduce", "tp")}
    assert (spans.call[tasks[boxes.lane == COMPUTE]] == -1).all()
    shown = timeline_drawing(spans.spans()).axes[0].get_title(loc="left").splitlines()
    assert shown[0] == "what each device computes and communicates, and why it is idle"
    assert shown[1].startswith("not computing: ")
    assert shown[2] == "A row stands for 2 ranks of 4: they do the same at the same time."
