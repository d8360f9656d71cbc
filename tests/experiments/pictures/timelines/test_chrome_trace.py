"""The Chrome trace: valid, in microseconds, complete, and nothing overlaps on a track."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chrome_traces import assert_disjoint, covering, nanoseconds, slices
from experiments.pictures.timelines import chrome_trace as writer
from experiments.pictures.timelines.chrome_trace import chrome_trace, microseconds
from experiments.pictures.timelines.step_spans import strategy_spans
from simulator.analysis.memory import MemoryTrace
from simulator.schedules.timeline import Sharing, Timeline
from simulator.training import find
from simulator.training.conditions import Conditions, Failure
from simulator.training.ddp import DDP
from simulator.training.footprint import footprint
from simulator.training.measures import measure
from simulator.training.plan import Plan
from topologies.errors import InputError

Run = Callable[..., tuple[Plan, Timeline]]


def traced(run: tuple[Plan, Timeline], **parameters: object) -> dict[str, Any]:
    trace: dict[str, Any] = json.loads(written(*run, parameters), parse_constant=pytest.fail)
    return trace


def written(
    plan: Plan,
    timeline: Timeline,
    parameters: Mapping[str, object] = MappingProxyType({}),
    memory: MemoryTrace | None = None,
) -> str:
    spans = strategy_spans(plan, timeline).traced_spans()
    return chrome_trace(spans, timeline, parameters, "take fewer steps", memory=memory)


def test_times_are_microseconds(run: Run) -> None:
    plan, timeline = run(ranks=2)
    trace = traced((plan, timeline))
    first, *_, last = [event for event in slices(trace, "compute") if event["pid"] == 1]
    assert (first["name"], first["cat"], first["ts"], first["dur"]) == (
        "forward fc0",
        "forward",
        0.0,
        1000.0,
    )
    assert (last["name"], last["dur"]) == ("optimizer", 500.0)
    assert last["ts"] + last["dur"] == pytest.approx(timeline.makespan * 1e6, abs=1e-3)
    assert trace["displayTimeUnit"] == "ms"


@given(st.integers(0, 10**14))
def test_a_reader_that_truncates_finds_the_nanosecond(time: int) -> None:
    assert nanoseconds(float(microseconds(np.array(time)))) == time


@given(
    ranks=st.integers(1, 5),
    layers=st.integers(1, 4),
    steps=st.integers(1, 3),
    bucket=st.sampled_from([0.0, 1500.0, 1e12]),
    streams=st.integers(1, 2),
    shape=st.sampled_from(["star", "bus", "ring", "full_mesh"]),
    sharing=st.sampled_from(["fifo", "fair"]),
    seed=st.integers(0, 9),
)
def test_nothing_overlaps_on_a_track(
    run: Run,
    ranks: int,
    layers: int,
    steps: int,
    bucket: float,
    streams: int,
    shape: str,
    sharing: Sharing,
    seed: int,
) -> None:
    strategy, conditions = (
        DDP(bucket=bucket, streams=streams, metric=True),
        Conditions(sigma=0.3, seed=seed),
    )
    plan, timeline = run(
        strategy,
        ranks,
        layers=layers,
        steps=steps,
        shape=shape,
        sharing=sharing,
        conditions=conditions,
        bandwidth=3e6,
    )
    trace = traced((plan, timeline))
    assert_disjoint(trace)
    times = [event["ts"] for event in trace["traceEvents"] if event["ph"] != "M"]
    assert times == sorted(times)
    assert min(times) >= 0
    assert min(event["dur"] for event in slices(trace)) >= 0
    computed: dict[int, float] = defaultdict(float)
    for event in slices(trace, "compute"):
        computed[event["pid"]] += event["dur"] / 1e6
    computing = measure(plan, timeline).computing
    assert [computed[rank] for rank in range(ranks)] == pytest.approx(computing, abs=1e-6)
    idle = sum(event["dur"] / 1e6 for event in slices(trace, "bubbles"))
    assert idle == pytest.approx(ranks * timeline.makespan - computing.sum(), abs=1e-6)
    assert len(slices(trace, "sends")) == int(timeline.schedule.remote.sum())
    names = [
        event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"
    ]
    assert sharing == "fair" or not any(name.endswith(")") for name in names)


@pytest.mark.parametrize("name", ["ddp", "dp", "ssgd", "asgd", "ssp", "fsdp", "local_sgd"])
@pytest.mark.parametrize("sharing", ["fifo", "fair"])
def test_every_strategy_has_a_trace(run: Run, name: str, sharing: Sharing) -> None:
    plan, timeline = run(
        find(name)(), 4, steps=2, sharing=sharing, conditions=Conditions(slower={1: 2.0})
    )
    trace = traced((plan, timeline))
    assert_disjoint(trace)
    assert {event["pid"] for event in slices(trace)} == set(range(timeline.schedule.ranks))


def test_flows_that_share_a_port_are_side_by_side(run: Run) -> None:
    trace = traced(run(find("asgd")(), 4, sharing="fair"))
    names = [
        event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"
    ]
    assert "sends on gpu4->switch (2)" in names


def test_ranks_and_tracks_are_named_once(run: Run) -> None:
    trace = traced(run(find("asgd")(), 3, steps=2))
    named = [event for event in trace["traceEvents"] if event["name"] == "process_name"]
    assert {event["pid"]: event["args"]["name"] for event in named} == {
        0: "rank 0",
        1: "rank 1",
        2: "rank 2",
        3: "server",
    }
    orders = [
        event["args"]["sort_index"]
        for event in trace["traceEvents"]
        if event["name"] == "process_sort_index"
    ]
    assert orders == [0, 1, 2, 3]
    tracks = [event for event in trace["traceEvents"] if event["name"] == "thread_name"]
    assert len({event["tid"] for event in tracks}) == len(tracks)
    assert 0 not in {event["tid"] for event in tracks}
    assert [event["args"]["name"] for event in tracks if event["pid"] == 0] == [
        "steps",
        "compute",
        "bubbles",
        "communication",
        "communication (2)",
        "sends on gpu0->switch",
    ]


def test_communications_know_their_bytes_and_bubbles_what_they_wait_for(run: Run) -> None:
    trace = traced(run(DDP(bucket=1500.0, overlap=False), ranks=2, layers=3))
    buckets = [
        (event["name"], event["args"])
        for event in slices(trace, "communication")
        if event["pid"] == 0
    ]
    assert buckets == [
        ("all-reduce bucket 0", {"bytes": 2000}),
        ("all-reduce bucket 1", {"bytes": 1000}),
    ]
    bubbles = [
        (event["name"], event["args"]) for event in slices(trace, "bubbles") if event["pid"] == 0
    ]
    assert bubbles == [("bubble: transfer", {"waits for": "all-reduce bucket 1"})]
    sent = slices(trace, "sends")[0]
    assert (sent["name"], sent["cat"], sent["args"]) == (
        "all-reduce bucket 0 to rank 1",
        "transfer",
        {"bytes": 1000, "waited_us": 0.0, "contention_us": 0.0},
    )


def test_steps_are_named_as_kineto_does(run: Run) -> None:
    plan, timeline = run(ranks=2, steps=2, conditions=Conditions(failure=Failure(0, 0, 1e-3)))
    steps = [event for event in slices(traced((plan, timeline)), "steps") if event["pid"] == 0]
    assert [(step["name"], step["args"]) for step in steps] == [
        ("ProfilerStep#0 (lost)", {}),
        ("ProfilerStep#0", {}),
        ("ProfilerStep#1", {}),
    ]
    assert steps[1]["ts"] == pytest.approx(steps[0]["dur"])


def test_the_trace_says_how_it_was_made(run: Run) -> None:
    about = traced(run(ranks=2), strategy="ddp", straggler=float("inf"))["otherData"]
    assert about["parameters"] == {"strategy": "ddp", "straggler": None}
    assert "simctl-collectives" in about["versions"]
    assert "note" not in about


def test_names_may_have_any_letters(run: Run) -> None:
    trace = traced(run(ranks=2, name='a"\\\n$ü'))
    assert 'forward a"\\\n$ü0' in {event["name"] for event in slices(trace, "compute")}


@pytest.mark.parametrize("sharing", ["fifo", "fair"])
def test_arrows_lead_from_transfers_into_communications(run: Run, sharing: Sharing) -> None:
    plan, timeline = run(ranks=3, sharing=sharing, conditions=Conditions(slower={1: 1.5}))
    trace = traced((plan, timeline))
    ends = {phase: {e["id"]: e for e in trace["traceEvents"] if e["ph"] == phase} for phase in "sf"}
    assert len(ends["s"]) == len(ends["f"]) == int(timeline.schedule.remote.sum())
    for number, arrow in ends["s"].items():
        assert covering(trace, arrow)["cat"] == "transfer"
        end = ends["f"][number]
        assert covering(trace, end)["name"] == covering(trace, arrow)["name"].partition(" to ")[0]
        assert end["ts"] >= arrow["ts"]
        assert end["bp"] == "e"


def test_many_transfers_have_no_arrows(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ARROWS", 3)
    assert not [event for event in traced(run(ranks=2))["traceEvents"] if event["ph"] in "sf"]


def test_what_is_too_large_loses_its_last_transfers(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, timeline = run(ranks=3)
    whole = slices(traced((plan, timeline)))
    sent = sorted(event["ts"] for event in slices(traced((plan, timeline)), "sends"))
    monkeypatch.setattr(writer, "EVENTS", len(whole) - 5)
    trace = traced((plan, timeline))
    assert len(slices(trace)) == len(whole) - 5
    assert sorted(event["ts"] for event in slices(trace, "sends")) == sent[:-5]
    remark = f"the trace has the earliest {len(sent) - 5} of {len(sent)} transfers, and all else"
    assert trace["otherData"]["note"] == remark
    assert remark in capsys.readouterr().err


def test_what_is_too_large_without_transfers_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "EVENTS", 10)
    with pytest.raises(InputError, match=r"events without transfers, at most 10: take fewer steps"):
        written(*run(ranks=3))


def test_the_memory_of_each_rank_is_a_counter(run: Run) -> None:
    plan, timeline = run(ranks=3)
    memory = footprint(plan, timeline)
    trace = json.loads(written(plan, timeline, {}, memory))
    counted = [event for event in trace["traceEvents"] if event["ph"] == "C"]
    assert {event["pid"] for event in counted} == {0, 1, 2}
    assert max(event["args"]["bytes"] for event in counted) == round(memory.peak)
    assert not [event for event in traced((plan, timeline))["traceEvents"] if event["ph"] == "C"]
