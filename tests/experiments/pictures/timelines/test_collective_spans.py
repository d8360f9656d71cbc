"""What ranks send, how long they hold links, and the trace of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chrome_traces import assert_disjoint, covering, slices
from experiments.names import rank_name
from experiments.pictures.timelines.chrome_trace import chrome_trace
from experiments.pictures.timelines.collective_spans import sends, traced_spans
from experiments.trace_choice import TraceChoice
from simulator.collectives import find
from simulator.engines import simulate
from simulator.schedules.timeline import Sharing, Timeline
from simulator.training.asgd import ASGD
from simulator.training.ddp import DDP
from simulator.training.plan import Plan
from topologies.catalogue import find as machine

Run = Callable[..., tuple[Plan, Timeline]]
SHARED = st.sampled_from(["fifo", "fair"])
NAMES = ["ring", "tree", "naive", "parameter_server_apart", "pairwise", "halving_doubling"]


def ran(
    name: str = "ring",
    ranks: int = 4,
    *,
    shape: str = "star",
    sharing: Sharing = "fifo",
    reduction: float = 5e-10,
) -> Timeline:
    """A collective of 1 MB on links of 1 GB/s, whose ranks add at 2 GB/s."""
    algorithm = find(name)
    links = machine(shape).with_links(bandwidth=1e9, latency=1e-6)
    topology = replace(links, reduction=reduction).build(ranks, algorithm.servers)
    return simulate(algorithm.build(ranks, 1e6), topology, sharing=sharing)


def traced(timeline: Timeline, **parameters: object) -> dict[str, Any]:
    text = chrome_trace(traced_spans(timeline), timeline, parameters, "take fewer ranks")
    trace: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return trace


@given(st.sampled_from(NAMES), st.sets(st.integers(0, 5), min_size=1), st.booleans())
def test_a_choice_leaves_out_ranks_and_transfers_and_changes_nothing_else(
    name: str, ranks: set[int], transfers: bool
) -> None:
    timeline = ran(name, 6 if find(name).defined(6) else 8)
    choice = TraceChoice(tuple(sorted(ranks)), transfers)
    text = chrome_trace(traced_spans(timeline), timeline, {}, "", choice=choice)
    part = json.loads(text)["traceEvents"]
    whole = traced(timeline)["traceEvents"]

    def without_track(events: list[dict[str, Any]]) -> list[str]:
        kept = [event for event in events if event["ph"] in "XC" and event["pid"] in ranks]
        kept = [event for event in kept if transfers or event.get("cat") != "transfer"]
        return [json.dumps({**event, "tid": 0}) for event in kept]

    assert without_track(part) == without_track(whole)
    assert {event["pid"] for event in part} == ranks


@given(st.sampled_from(NAMES), st.integers(2, 9), st.sampled_from(["star", "ring", "bus"]), SHARED)
def test_nothing_overlaps_on_a_track(name: str, ranks: int, shape: str, sharing: Sharing) -> None:
    timeline = ran(name, ranks, shape=shape, sharing=sharing)
    trace = traced(timeline)
    assert_disjoint(trace)
    end = max((event["ts"] + event["dur"] for event in slices(trace)), default=0.0)
    assert end == pytest.approx(timeline.makespan * 1e6, abs=2e-3)


@given(st.sampled_from(NAMES), st.integers(2, 9))
def test_sends_and_merges_add_up(name: str, ranks: int) -> None:
    timeline = ran(name, ranks)
    trace, schedule = traced(timeline), timeline.schedule
    sends = slices(trace, "sends")
    assert len(sends) == int(schedule.remote.sum())
    nbytes = schedule.nbytes[schedule.remote].sum()
    assert sum(event["dur"] for event in sends) == pytest.approx(nbytes / 1e9 * 1e6, abs=0.1)
    assert sum(event["args"]["bytes"] for event in sends) == pytest.approx(nbytes, abs=len(sends))
    merged = schedule.nbytes[schedule.reduces == 1].sum() / 2e9
    assert sum(event["dur"] for event in slices(trace, "merges")) == pytest.approx(
        merged * 1e6, abs=0.1
    )


@given(st.sampled_from(NAMES), st.integers(2, 9), SHARED)
def test_a_rank_sends_the_bytes_of_its_phases(name: str, ranks: int, sharing: Sharing) -> None:
    trace = traced(ran(name, ranks, sharing=sharing))
    sent: dict[tuple[int, str], float] = defaultdict(float)
    for event in slices(trace, "sends"):
        sent[event["pid"], event["name"].partition(" to ")[0]] += event["args"]["bytes"]
    phases = slices(trace, "phases")
    assert len({(event["pid"], event["name"]) for event in phases}) == len(phases)
    for event in phases:
        total = sent.pop((event["pid"], event["name"]), 0.0)
        assert event["args"].get("bytes", 0) == pytest.approx(total, abs=ranks)
    assert not sent


def test_a_phase_lasts_from_the_first_message_to_the_last() -> None:
    timeline = ran("tree", 4, reduction=0.0)
    trace = traced(timeline)
    phases = [
        (event["pid"], event["name"], round(event["ts"]), round(event["ts"] + event["dur"]))
        for event in slices(trace, "phases")
    ]
    assert sorted(phases) == [
        (0, "broadcast", 2004, 4006),
        (0, "reduce", 0, 2004),
        (1, "broadcast", 3004, 4006),
        (1, "reduce", 0, 1002),
        (2, "broadcast", 2004, 4008),
        (2, "reduce", 0, 2004),
        (3, "broadcast", 3006, 4008),
        (3, "reduce", 0, 1002),
    ]


def test_ranks_servers_and_tracks_have_names_and_numbers() -> None:
    timeline = ran("parameter_server_apart", 3)
    trace = traced(timeline, p=3)
    named = [event for event in trace["traceEvents"] if event["name"] == "process_name"]
    assert {event["pid"]: event["args"]["name"] for event in named} == {
        rank: rank_name(timeline.schedule, rank) for rank in range(4)
    }
    tracks = [event for event in trace["traceEvents"] if event["name"] == "thread_name"]
    assert len({event["tid"] for event in tracks}) == len(tracks)
    assert [event["args"]["name"] for event in tracks if event["pid"] == 3] == [
        "merges",
        "phases",
        "phases (2)",
        "sends on gpu3->switch",
    ]
    assert trace["otherData"]["parameters"] == {"p": 3}


def test_arrows_lead_from_transfers_into_phases() -> None:
    timeline = ran("ring", 4)
    trace = traced(timeline)
    ends = {end: {e["id"]: e for e in trace["traceEvents"] if e["ph"] == end} for end in "sf"}
    assert len(ends["s"]) == len(ends["f"]) == int(timeline.schedule.remote.sum())
    for number, arrow in ends["s"].items():
        assert covering(trace, arrow)["cat"] == "transfer"
        phase = covering(trace, arrow)["name"].partition(" to ")[0]
        assert covering(trace, ends["f"][number])["name"] == phase


@pytest.mark.parametrize("shape", ["star", "bus", "ring", "full_mesh"])
def test_in_turn_no_two_transfers_hold_a_medium_at_once(run: Run, shape: str) -> None:
    _, timeline = run(DDP(streams=2, bucket=0.0), 5, layers=4, shape=shape)
    sent = sends(timeline)
    assert len(sent.task) == int(timeline.schedule.remote.sum())
    for medium in set(sent.link.tolist()):
        mine = np.flatnonzero(sent.link == medium)
        mine = mine[np.argsort(sent.start[mine], kind="stable")]
        assert (sent.start[mine][1:] >= sent.end[mine][:-1] - 1e-12).all()


def test_a_transfer_holds_its_first_medium_for_its_bytes(run: Run) -> None:
    _, timeline = run(ASGD(), 2, bandwidth=1e6)
    sent = sends(timeline)
    np.testing.assert_allclose(sent.end - sent.start, timeline.schedule.nbytes[sent.task] / 1e6)
    names = [timeline.routed.topology.medium_names[medium] for medium in sent.link.tolist()]
    assert set(names) == {"gpu0->switch", "gpu1->switch", "gpu2->switch"}


def test_under_fair_sharing_a_transfer_holds_it_until_its_last_byte_is_sent(run: Run) -> None:
    _, timeline = run(DDP(bucket=1000.0), 3, sharing="fair")
    sent = sends(timeline)
    np.testing.assert_allclose(sent.end, timeline.sent[sent.task])


def test_of_the_media_of_its_first_link_it_is_the_one_that_it_holds_longest(run: Run) -> None:
    _, timeline = run(ranks=3, shape="bus")
    medium = sends(timeline).link.tolist()
    assert {timeline.routed.topology.medium_names[number] for number in medium} == {"bus"}
