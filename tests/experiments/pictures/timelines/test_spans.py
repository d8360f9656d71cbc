"""Spans as plain columns: of runs, of training, of plans; thinned, stored and read back."""

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.pictures.timelines.collective_spans import collective_spans
from experiments.pictures.timelines.spans import (
    Spans,
    bands,
    from_document,
    partition,
    thinned,
    to_document,
)
from experiments.pictures.timelines.step_spans import step_spans, strategy_spans
from simulator.analysis.bubbles import bubbles
from simulator.analysis.critical_path import critical_path, parts
from simulator.collectives import algorithms, find
from simulator.collectives.symmetry import fold
from simulator.engines import simulate
from simulator.parallel.blocks import Block, BlockPart
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.pipelines import find as find_pipeline
from simulator.parallel.step import write
from simulator.parallel.step_work import Work
from simulator.schedules.timeline import Timeline
from simulator.training import find as find_strategy
from simulator.training import strategies
from simulator.training.ddp import DDP
from simulator.training.model import Layer, Model, Tensor
from simulator.training.plan import Plan, Setting
from simulator.training.plan_simulation import train
from topologies.catalogue import find as find_machine
from topologies.errors import InputError
from topologies.shapes import ring, star


@cache
def run_of(name: str = "ring", ranks: int = 4) -> Timeline:
    return simulate(find(name).build(ranks, 4e6), star(ranks, bandwidth=1e9, latency=1e-6))


@cache
def training_of(symmetric: bool = False, steps: int = 2) -> tuple[Plan, Timeline]:
    layers = tuple(Layer(f"fc{k}", 1e-3, 2e-3, tensors=(Tensor("w", 1e6),)) for k in range(2))
    topology = star(4, bandwidth=1e9, latency=1e-6)
    setting = Setting(topology, 4, steps, symmetric=symmetric)
    plan = DDP(bucket=1e6).plan(Model("model", 8, layers, optimizer=5e-4), setting)
    return plan, train(plan)


def seconds_of(spans: Spans, row: int, cause: str) -> float:
    columns = spans.columns
    chosen = (columns.row == row) & (columns.cause == spans.causes.index(cause))
    return float((columns.end - columns.start)[chosen].sum())


def test_a_run_has_messages_and_why_ranks_wait() -> None:
    spans = collective_spans(run_of())
    columns = spans.columns
    assert spans.rows == ("rank 0", "rank 1", "rank 2", "rank 3")
    assert spans.lanes == ("sends", "receives")
    sends = columns.take((columns.lane == 0) & (columns.cause < 0))
    assert len(sends.row) == len(run_of().schedule)
    assert (sends.nbytes == 1e6).all()
    waits = columns.take(columns.cause == spans.causes.index("transfer"))
    peers = [spans.peers[peer] for peer in waits.peer[waits.row == 1].tolist()]
    assert set(peers) == {"rank 0"}
    assert {spans.links[link] for link in waits.link[waits.row == 1].tolist()} == {"switch->gpu1"}


def test_queues_name_the_link() -> None:
    spans = collective_spans(run_of("parameter_server"))
    columns = spans.columns
    queued = columns.take(columns.lane == spans.lanes.index("queues"))
    links = {spans.links[link] for link in queued.link.tolist()}
    assert any(link.startswith("switch->") for link in links)
    waits = columns.take(columns.waited > 0)
    assert waits.waited.sum() >= (queued.end - queued.start).sum() - 1e-12


def test_of_a_folded_run_some_ranks_stand_for_all() -> None:
    algorithm, machine = find("ring"), ring(16, bandwidth=1e9, latency=1e-6)
    folded = fold(algorithm, machine, 16, lambda shifts: True)
    assert folded is not None
    routed = folded[1]
    spans = collective_spans(simulate(routed.schedule, machine))
    assert len(spans.rows) == 1
    assert spans.remarks == (
        "1 of 16 ranks stands for all: the others do the same at the same time.",
    )
    sends = spans.columns.take(spans.columns.lane == spans.lanes.index("receives"))
    assert {spans.peers[peer] for peer in sends.peer.tolist()} == {"rank 15"}


@pytest.mark.parametrize("symmetric", [False, True])
def test_training_has_bubbles_by_cause(symmetric: bool) -> None:
    plan, timeline = training_of(symmetric)
    spans = strategy_spans(plan, timeline).spans(critical_path(timeline))
    expected = bubbles(timeline)
    for cause, seconds in enumerate(expected[0].tolist()):
        name = ("transfer", "contention", "slower peer", "drain")[cause]
        found = seconds_of(spans, 0, name) if name in spans.causes else 0.0
        assert found == pytest.approx(seconds, abs=1e-12)
    assert spans.lanes[spans.main] == "compute"
    assert spans.lanes[-1] == "messages"
    assert len(spans.steps) == 2
    talks = spans.columns.take(spans.columns.lane == 1)
    assert set(talks.nbytes.tolist()) == {1e6}


def test_the_critical_path_runs_from_the_start_to_the_end() -> None:
    path = critical_path(run_of())
    spans = collective_spans(run_of(), path)
    pieces = spans.path
    assert pieces.start[0] == 0.0
    assert pieces.end[-1] == pytest.approx(spans.makespan)
    assert pieces.start[1:] == pytest.approx(pieces.end[:-1])
    for name, seconds in parts(path).items():
        chosen = pieces.kind == spans.parts.index(name) if name in spans.parts else []
        assert (pieces.end - pieces.start)[chosen].sum() == pytest.approx(seconds)


def test_a_step_of_a_plan_has_a_row_for_each_device() -> None:
    degrees = Degrees(tp=2, pp=2, dp=2)
    stage = (
        Block("layer", (BlockPart(1.0),), (BlockPart(1.0),), (BlockPart(1.0),), (BlockPart(2.0),)),
    )
    times = GroupTimes(star(degrees.ranks, bandwidth=1e9), degrees)
    pipeline = find_pipeline("1f1b").build(devices=2, micro_batches=4)
    step = write(Work((stage,) * 2, pipeline, times))
    spans = step_spans(step).spans(critical_path(step.timeline))
    assert spans.rows == ("device 0", "device 1")
    assert spans.remarks == ("A row stands for 4 ranks of 8: they do the same at the same time.",)
    assert "forward 3" in spans.names
    assert {"slower peer", "fill"} <= set(spans.causes)


@given(most=st.integers(1, 60))
def test_thinned_spans_stand_for_all_and_say_so(most: int) -> None:
    spans = collective_spans(run_of())
    fewer = thinned(spans, most)
    total = int(spans.columns.members.sum())
    assert len(fewer.columns.row) <= most
    shown = int(fewer.columns.members.sum())
    assert shown <= total
    assert f"{total:,} spans are drawn as" in fewer.remarks[-1]
    assert (f"the shortest {total - shown:,} are left out" in fewer.remarks[-1]) == (shown < total)
    assert (fewer.columns.start <= fewer.columns.end).all()


INTERVALS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 9)).map(lambda pair: (pair[0], sum(pair)))
)


@given(INTERVALS)
def test_bands_do_not_overlap_and_are_as_few_as_can_be(intervals: list[tuple[int, int]]) -> None:
    start, end = np.array(sorted(intervals), dtype=np.int64).reshape(-1, 2).T
    band = partition(start, end)
    for number in set(band.tolist()):
        mine = band == number
        assert (start[mine][1:] >= end[mine][:-1]).all()
    deepest = max((((start <= time) & (time < end)).sum() for time in range(40)), default=0)
    points = int((start == end).any())
    assert deepest <= band.max(initial=-1) + 1 <= deepest + points


def test_only_crowded_tracks_have_several_bands() -> None:
    track, start, end = np.array([[0, 0, 1, 1, 1], [0, 5, 0, 3, 6], [5, 9, 6, 4, 7]])
    assert bands(track, start, end).tolist() == [0, 0, 0, 1, 0]


def test_spans_come_back_from_a_file() -> None:
    spans = collective_spans(run_of())
    back = from_document(json.loads(json.dumps(to_document(spans))))
    assert to_document(back) == to_document(spans)


def test_many_ranks_are_drawn_as_few_spans() -> None:
    spans = collective_spans(run_of("ring", 64))
    small = thinned(spans, 500)
    assert len(small.columns.row) <= 500
    assert np.unique(small.columns.row).size == 64


@pytest.mark.exhaustive
def test_every_algorithm_and_strategy_has_spans() -> None:
    for name in algorithms():
        algorithm = find(name)
        topology = find_machine("hgx_h100").build(8, algorithm.servers)
        try:
            fitted = algorithm.on(topology, 8, 1e6)
        except InputError:
            continue
        timeline = simulate(fitted.schedule, fitted.topology)
        check(collective_spans(timeline, critical_path(timeline)))
    layers = tuple(Layer(f"fc{k}", 1e-3, 2e-3, tensors=(Tensor("w", 1e6),)) for k in range(2))
    for name in strategies():
        strategy = find_strategy(name)()
        topology = find_machine("star").build(4, strategy.servers(4))
        plan = strategy.plan(Model("model", 8, layers), Setting(topology, 4, 2))
        timeline = train(plan)
        check(strategy_spans(plan, timeline).spans(critical_path(timeline)))


def check(spans: Spans) -> None:
    """Spans lie within the run, the path fills it, and both come back from a file."""
    columns, path = spans.columns, spans.path
    assert (columns.start <= columns.end).all()
    assert columns.end.max() <= spans.makespan * (1 + 1e-9)
    assert (path.end - path.start).sum() == pytest.approx(spans.makespan)
    made = json.loads(json.dumps(to_document(spans)))
    assert json.loads(json.dumps(to_document(from_document(made)))) == made
