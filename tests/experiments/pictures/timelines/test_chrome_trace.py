"""Chrome traces of training runs and collectives: valid, in microseconds, complete, and nothing
overlaps on a track."""

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.answer_files import ALL, TraceChoice
from experiments.names import rank_name
from experiments.pictures.timelines import chrome_trace as writer
from experiments.pictures.timelines.chrome_trace import chrome_trace, microseconds
from experiments.pictures.timelines.collective_spans import run_rows, traced_spans
from experiments.pictures.timelines.step_spans import strategy_spans
from refusals import refusal
from simulator.analysis.memory import MemoryTrace
from simulator.collectives import find as find_algorithm
from simulator.schedules.timeline import Sharing, Timeline
from simulator.training import find
from simulator.training.asgd import ASGD
from simulator.training.conditions import Conditions, Failure
from simulator.training.ddp import DDP
from simulator.training.footprint import footprint
from simulator.training.measures import measure
from simulator.training.plan import Plan

Event = dict[str, Any]


def slices(trace: dict[str, Any], track: str = "") -> list[Event]:
    """Complete events, of the tracks whose name begins so."""
    names = {
        e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"
    }
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and names[e["tid"]].startswith(track)]


def nanoseconds(microseconds: float) -> int:
    """As Perfetto reads it: `static_cast<int64_t>(value.asDouble() * 1000)`."""
    return int(microseconds * 1000)


def assert_disjoint(trace: dict[str, Any]) -> None:
    """In the order of the file, nothing on a track begins before the end of what came before."""
    free: dict[tuple[int, int], int] = defaultdict(int)
    for event in slices(trace):
        begin, track = nanoseconds(event["ts"]), (event["pid"], event["tid"])
        assert begin >= free[track]
        free[track] = begin + nanoseconds(event["dur"])


def covering(trace: dict[str, Any], arrow: Event) -> Event:
    """What is on the track of an end of an arrow at its time."""
    time = nanoseconds(arrow["ts"])
    (slice_,) = [
        event
        for event in slices(trace)
        if (event["pid"], event["tid"]) == (arrow["pid"], arrow["tid"])
        and nanoseconds(event["ts"]) <= time < nanoseconds(event["ts"]) + nanoseconds(event["dur"])
    ]
    return slice_


Run = Callable[..., tuple[Plan, Timeline]]
Collective = Callable[..., Timeline]
SHARED = st.sampled_from(["fifo", "fair"])
NAMES = ["ring", "tree", "naive", "parameter_server_apart", "pairwise", "halving_doubling"]


def traced(
    run: tuple[Plan, Timeline] | Timeline,
    memory: MemoryTrace | None = None,
    choice: TraceChoice = ALL,
    **parameters: object,
) -> dict[str, Any]:
    """The trace of a training run or of a collective."""
    timeline = run if isinstance(run, Timeline) else run[1]
    spans = traced_spans(run) if isinstance(run, Timeline) else strategy_spans(*run).traced_spans()
    text = chrome_trace(spans, timeline, parameters, "take less", memory=memory, choice=choice)
    trace: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return trace


def named(trace: dict[str, Any], what: str) -> list[dict[str, Any]]:
    """The events that name ranks or tracks."""
    return [event for event in trace["traceEvents"] if event["name"] == f"{what}_name"]


def test_times_are_microseconds(run: Run) -> None:
    plan, timeline = run(ranks=2)
    trace = traced((plan, timeline))
    first, *_, last = [event for event in slices(trace, "compute") if event["pid"] == 1]
    about = [first[key] for key in ("name", "cat", "ts", "dur")]
    assert about == ["forward fc0", "forward", 0.0, 1000.0]
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
    place=st.tuples(st.sampled_from(["star", "bus", "ring", "full_mesh"]), SHARED),
    seed=st.integers(0, 9),
)
def test_nothing_overlaps_on_a_track(
    run: Run,
    ranks: int,
    layers: int,
    steps: int,
    bucket: float,
    streams: int,
    place: tuple[str, Sharing],
    seed: int,
) -> None:
    strategy = DDP(bucket=bucket, streams=streams, metric=True)
    sizes: dict[str, Any] = {"layers": layers, "steps": steps, "bandwidth": 3e6}
    sizes |= dict(zip(("shape", "sharing"), place, strict=True))
    conditions = Conditions(sigma=0.3, seed=seed)
    plan, timeline = run(strategy, ranks, conditions=conditions, **sizes)
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
    tracks = [event["args"]["name"] for event in named(trace, "thread")]
    assert place[1] == "fair" or not any(name.endswith(")") for name in tracks)


@pytest.mark.parametrize("name", ["ddp", "dp", "ssgd", "asgd", "ssp", "fsdp", "local_sgd"])
@pytest.mark.parametrize("sharing", ["fifo", "fair"])
def test_every_strategy_has_a_trace(run: Run, name: str, sharing: Sharing) -> None:
    conditions = Conditions(slower={1: 2.0})
    plan, timeline = run(find(name)(), 4, steps=2, sharing=sharing, conditions=conditions)
    trace = traced((plan, timeline))
    assert_disjoint(trace)
    assert {event["pid"] for event in slices(trace)} == set(range(timeline.schedule.ranks))


@given(st.sampled_from(NAMES), st.integers(2, 9), st.sampled_from(["star", "ring", "bus"]), SHARED)
def test_a_collective_is_complete(
    collective: Collective, name: str, ranks: int, shape: str, sharing: Sharing
) -> None:
    timeline = collective(name, ranks, 5e-10, shape, sharing)
    trace, schedule = traced(timeline), timeline.schedule
    assert_disjoint(trace)
    end = max((event["ts"] + event["dur"] for event in slices(trace)), default=0.0)
    assert end == pytest.approx(timeline.makespan * 1e6, abs=2e-3)
    sent: dict[tuple[int, str], float] = defaultdict(float)
    transfers = slices(trace, "sends")
    for event in transfers:
        sent[event["pid"], event["name"].partition(" to ")[0]] += event["args"]["bytes"]
    assert len(transfers) == int(schedule.remote.sum())
    nbytes = schedule.nbytes[schedule.remote].sum()
    assert sum(sent.values()) == pytest.approx(nbytes, abs=len(transfers))
    merged = schedule.nbytes[schedule.reduces == 1].sum() / 2e9
    merging = sum(event["dur"] for event in slices(trace, "merges"))
    assert merging == pytest.approx(merged * 1e6, abs=0.1)
    phases = slices(trace, "phases")
    assert len({(event["pid"], event["name"]) for event in phases}) == len(phases)
    for event in phases:
        total = sent.pop((event["pid"], event["name"]), 0.0)
        assert event["args"].get("bytes", 0) == pytest.approx(total, abs=ranks)
    assert not sent


@given(st.sampled_from(NAMES), st.sets(st.integers(0, 5), min_size=1), st.booleans())
def test_a_choice_leaves_out_ranks_and_transfers_and_changes_nothing_else(
    collective: Collective, name: str, ranks: set[int], transfers: bool
) -> None:
    timeline = collective(name, 6 if find_algorithm(name).defined(6) else 8, 5e-10)
    part = traced(timeline, choice=TraceChoice(tuple(sorted(ranks)), transfers))["traceEvents"]
    whole = traced(timeline)["traceEvents"]

    def without_track(events: list[dict[str, Any]]) -> list[str]:
        kept = [event for event in events if event["ph"] in "XC" and event["pid"] in ranks]
        kept = [event for event in kept if transfers or event.get("cat") != "transfer"]
        return [json.dumps({**event, "tid": 0}) for event in kept]

    assert without_track(part) == without_track(whole)
    assert {event["pid"] for event in part} == ranks


def test_a_phase_lasts_from_the_first_message_to_the_last(collective: Collective) -> None:
    phases = [
        (event["pid"], event["name"], round(event["ts"]), round(event["ts"] + event["dur"]))
        for event in slices(traced(collective("tree")), "phases")
    ]
    assert sorted(phases) == [
        *((0, "broadcast", 2004, 4006), (0, "reduce", 0, 2004)),
        *((1, "broadcast", 3004, 4006), (1, "reduce", 0, 1002)),
        *((2, "broadcast", 2004, 4008), (2, "reduce", 0, 2004)),
        *((3, "broadcast", 3006, 4008), (3, "reduce", 0, 1002)),
    ]


def test_ranks_and_tracks_are_named_once(run: Run, collective: Collective) -> None:
    asynchronous, apart = run(find("asgd")(), 3, steps=2), collective("parameter_server_apart", 3)
    for timeline, trace in ((asynchronous[1], traced(asynchronous)), (apart, traced(apart))):
        names = {event["pid"]: event["args"]["name"] for event in named(trace, "process")}
        assert names == {rank: rank_name(timeline.schedule, rank) for rank in range(4)}
        indices = [each for each in trace["traceEvents"] if each["name"] == "process_sort_index"]
        assert [event["args"]["sort_index"] for event in indices] == [0, 1, 2, 3]
        numbers = {event["tid"] for event in named(trace, "thread")}
        assert len(numbers) == len(named(trace, "thread"))
        assert 0 not in numbers
    tracks = [
        [event["args"]["name"] for event in named(traced(each), "thread") if event["pid"] == rank]
        for each, rank in ((asynchronous, 0), (apart, 3))
    ]
    assert tracks[0] == [
        *("steps", "compute", "bubbles", "communication", "communication (2)"),
        "sends on gpu0->switch",
    ]
    assert tracks[1] == ["phases", "phases (2)", "sends on gpu3->switch"]


def test_flows_that_share_a_port_are_side_by_side(run: Run) -> None:
    trace = traced(run(find("asgd")(), 4, sharing="fair"))
    tracks = [event["args"]["name"] for event in named(trace, "thread")]
    assert "sends on gpu4->switch (2)" in tracks


def test_communications_know_their_bytes_and_bubbles_what_they_wait_for(run: Run) -> None:
    trace = traced(run(DDP(bucket=1500.0, overlap=False), ranks=2, layers=3))
    talks, bubbles = (
        [(event["name"], event["args"]) for event in slices(trace, track) if event["pid"] == 0]
        for track in ("communication", "bubbles")
    )
    assert talks == [
        ("all-reduce bucket 0", {"bytes": 2000}),
        ("all-reduce bucket 1", {"bytes": 1000}),
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
    names = ["ProfilerStep#0 (lost)", "ProfilerStep#0", "ProfilerStep#1"]
    assert [(step["name"], step["args"]) for step in steps] == [(name, {}) for name in names]
    assert steps[1]["ts"] == pytest.approx(steps[0]["dur"])


def test_the_trace_says_how_it_was_made_and_names_may_have_any_letters(run: Run) -> None:
    trace = traced(run(ranks=2, name='a"\\\n$ü'), strategy="ddp", straggler=float("inf"))
    about = trace["otherData"]
    assert about["parameters"] == {"strategy": "ddp", "straggler": None}
    assert "simctl-collectives" in about["versions"]
    assert "note" not in about
    assert 'forward a"\\\n$ü0' in {event["name"] for event in slices(trace, "compute")}


@pytest.mark.parametrize("case", ["fifo", "fair", "ring"])
def test_arrows_lead_from_transfers_into_communications(
    run: Run, collective: Collective, case: str
) -> None:
    slow = Conditions(slower={1: 1.5})
    made = collective() if case == "ring" else run(ranks=3, sharing=case, conditions=slow)
    trace, timeline = traced(made), made if isinstance(made, Timeline) else made[1]
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


def test_what_is_too_large_loses_its_last_transfers_or_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = run(ranks=3)
    whole = slices(traced(made))
    sent = sorted(event["ts"] for event in slices(traced(made), "sends"))
    monkeypatch.setattr(writer, "EVENTS", len(whole) - 5)
    trace = traced(made)
    assert len(slices(trace)) == len(whole) - 5
    assert sorted(event["ts"] for event in slices(trace, "sends")) == sent[:-5]
    remark = f"the trace has the earliest {len(sent) - 5} of {len(sent)} transfers, and all else"
    assert trace["otherData"]["note"] == remark
    assert remark in capsys.readouterr().err
    monkeypatch.setattr(writer, "EVENTS", 10)
    assert "events without transfers, at most 10: take less" in refusal(traced, made)


def test_the_memory_of_each_rank_is_a_counter(run: Run) -> None:
    plan, timeline = run(ranks=3)
    memory = footprint(plan, timeline)
    events = traced((plan, timeline), memory)["traceEvents"]
    counted = [event for event in events if event["ph"] == "C"]
    assert {event["pid"] for event in counted} == {0, 1, 2}
    assert max(event["args"]["bytes"] for event in counted) == round(memory.peak)
    assert not [event for event in traced((plan, timeline))["traceEvents"] if event["ph"] == "C"]


@pytest.mark.parametrize("shape", ["star", "bus", "ring", "full_mesh"])
def test_in_turn_no_two_transfers_hold_a_medium_at_once(run: Run, shape: str) -> None:
    _, timeline = run(DDP(streams=2, bucket=0.0), 5, layers=4, shape=shape)
    sent = run_rows(timeline).sent
    assert len(sent.task) == int(timeline.schedule.remote.sum())
    for medium in set(sent.link.tolist()):
        mine = np.flatnonzero(sent.link == medium)
        mine = mine[np.argsort(sent.start[mine], kind="stable")]
        assert (sent.start[mine][1:] >= sent.end[mine][:-1] - 1e-12).all()


def test_a_transfer_holds_its_first_medium_for_its_bytes(run: Run) -> None:
    """Under fair sharing until its last byte is sent; of several media that which takes longest."""
    _, timeline = run(ASGD(), 2, bandwidth=1e6)
    sent, media = run_rows(timeline).sent, timeline.routed.topology.medium_names
    np.testing.assert_allclose(sent.end - sent.start, timeline.schedule.nbytes[sent.task] / 1e6)
    assert {media[k] for k in sent.link.tolist()} == {f"gpu{k}->switch" for k in range(3)}
    _, timeline = run(DDP(bucket=1000.0), 3, sharing="fair")
    np.testing.assert_allclose(
        run_rows(timeline).sent.end, timeline.sent[run_rows(timeline).sent.task]
    )
    _, timeline = run(ranks=3, shape="bus")
    media = timeline.routed.topology.medium_names
    assert {media[k] for k in run_rows(timeline).sent.link.tolist()} == {"bus"}
