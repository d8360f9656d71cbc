"""The spans of a training run or of a step of a plan: columns that every picture, page and trace of
them reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from experiments.names import members_name, rank_name, standing
from experiments.pictures.timelines.collective_spans import RunRows, last_link, sender_at
from experiments.pictures.timelines.spans import IDLE, MESSAGES, STEPS, Columns, Spans
from simulator.analysis.bubbles import BUBBLE_CAUSES, CONTENTION, BubbleSpans, bubble_spans
from simulator.analysis.critical_path import SEGMENT_PARTS, CriticalPath
from simulator.parallel.passes import COPIES, HOST, SEND, STREAMS, TIED
from simulator.parallel.step import Step
from simulator.parallel.step_measures import step_bubbles
from simulator.schedules.timeline import Timeline
from simulator.steps.kinds import CALL, HOOKS, KINDS, RESTART, TRANSFER
from simulator.steps.step_graph import Call, StepGraph
from simulator.training.conditions import Attempt
from simulator.training.plan import COMPUTE, Plan
from topologies.columns import distinct_rows
from topologies.topology import Floats, Ints

GROUPED = ("tp", "cp", "ep", "data", "experts")
"""Groups of a plan that traces list, whether they communicate or not."""
MESSAGE_LANES = STREAMS[SEND], STREAMS[TIED]
"""Lanes of a plan whose messages have no group."""


def collective(call: Call) -> str:
    """What a call of a plan is called."""
    return "send" if call.is_message else call.collective


@dataclass(frozen=True, eq=False)
class StepSpans:
    """When places do what, and why they are idle."""

    graph: StepGraph
    """The tasks."""
    timeline: Timeline
    first: Ints
    """The operation of the timeline with which each task begins, in ascending order."""
    last: Ints
    """The operation with which each task ends."""
    what: str
    """What a place is: "rank", "device" of a pipeline, or else "place" if ranks of a device
    differ."""
    workers: int
    """The places that train: those behind them serve."""
    kinds: Mapping[str, str]
    """What people call operations and parts of the step, and the kind of each: all spans of a kind
    have one colour."""
    legend: tuple[str, ...]
    """All kinds, in the order in which a page lists them."""
    name: Ints
    """The name of each operation, a place in `kinds`."""
    phase: Ints
    """The part of the step that each task belongs to, a place in `kinds`."""
    groups: Mapping[str, Ints]
    """The ranks of all groups of each kind, shape (groups, ranks of a group)."""
    idle: Callable[[], BubbleSpans]
    """Works out when main lanes are idle."""
    ends: Floats
    """When each step ends at each worker, shape (steps, workers)."""
    numbers: Ints
    """The number of each step."""
    useful: Ints
    """Whether each step counts: not if a failure loses its result."""
    remarks: tuple[str, ...]
    """Sentences: what is not shown, and who stands for others."""
    together: bool = True
    """Whether all workers end a step together."""
    dtype: str = ""
    """The type of the numbers in calls; "" for bytes."""

    def communication(self, task: int) -> tuple[str, str]:
        """The collective of a task and its group, a key of `groups`, or the lane of a message; two
        empty texts for a task without a call."""
        graph, call = self.graph, self.graph.call_of(task)
        kind, lane = KINDS[graph.kind[task]], graph.lanes[graph.lane[task]]
        if call is None:
            return "", ""
        if self.what == "rank":
            return kind.replace("-", "_"), lane
        return collective(call), lane if lane in MESSAGE_LANES else call.group

    def place_name(self, place: int) -> str:
        """What a place is called."""
        if self.what == "place":
            return members_name(self.graph, place)
        return rank_name(self.timeline.schedule, place).replace("rank", self.what)

    @cached_property
    def places(self) -> Ints:
        """The places that are shown."""
        place = self.graph.place
        taking = self.timeline.finish[self.last] > self.timeline.start[self.first]
        return np.union1d(place[place < self.workers], place[taking]).astype(np.int32)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(self.kinds)

    @cached_property
    def kind(self) -> Ints:
        """The kind of each name, a place in `legend`."""
        kinds = [self.legend.index(kind) for kind in self.kinds.values()]
        return np.array(kinds, dtype=np.int32)

    @property
    def worker_of(self) -> Ints:
        """The worker that stands for each rank."""
        return self.graph.place_of[self.graph.place_of < self.workers]

    @cached_property
    def boxes(self) -> Columns:
        """Computations and communications that take time. A communication lasts from entering to
        leaving."""
        start, end = self.timeline.start[self.first], self.timeline.finish[self.last]
        task, graph = np.flatnonzero(end > start), self.graph
        name = self.name[self.first[task]]
        return Columns.of(
            np.searchsorted(self.places, graph.place[task]),
            start[task],
            end[task],
            lane=graph.lane[task],
            kind=self.kind[name],
            name=name,
            nbytes=graph.nbytes[task],
            peer=graph.peer[task],
            task=task,
        )

    @property
    def device_boxes(self) -> Columns:
        """All boxes but those of a CPU that only launches."""
        return self.boxes if self.what == "rank" else self.boxes.take(self.boxes.lane != HOST)

    @cached_property
    def bubbles(self) -> Columns:
        """The idle time of the main lane of the workers that are shown. The peer is who sends or
        computes what the worker waits for; none for a collective that is timed as a whole."""
        spans, timeline = self.idle(), self.timeline
        spans = spans.take((spans.rank < self.workers) & np.isin(spans.rank, self.places))
        operation, known, calls = spans.operation, spans.operation >= 0, timeline.causes.calls
        peer = np.where(known, sender_at(timeline, operation), -1)
        if len(calls):
            peer[calls[operation] >= 0] = -1
        return Columns.of(
            np.searchsorted(self.places, spans.rank),
            spans.start,
            spans.end,
            lane=spans.lane,
            kind=len(self.legend),
            name=len(self.names),
            cause=spans.cause,
            awaited=np.where(known, self.name[operation], -1),
            peer=peer,
            link=np.where(spans.cause == CONTENTION, spans.medium, last_link(timeline, operation)),
        )

    def spans(self, path: CriticalPath | None = None) -> Spans:
        """What pictures and pages show, and the critical path if that is given. Below
        communications are their messages, if they were simulated at their time."""
        run = RunRows(self.timeline, self.places, path or CriticalPath.empty())
        boxes, task = self.boxes, self.boxes.task
        critical = run.through[self.first[task]] | run.through[self.last[task]]
        boxes = boxes._replace(critical=critical.astype(np.int32))
        return self._described(run).having(boxes, self.bubbles, self._messages(run))

    def traced_spans(self) -> Spans:
        """What a trace shows: all spans of all places, also the steps of each worker; of devices
        of a pipeline the work alone."""
        run = RunRows(self.timeline, np.arange(self.timeline.schedule.ranks, dtype=np.int32))
        spans = self._described(run)
        boxes, bubbles = (
            part._replace(row=self.places[part.row]) for part in (self.boxes, self.bubbles)
        )
        # A trace sorts communications by the part of the step that they belong to.
        boxes = boxes._replace(kind=self.kind[self.phase[boxes.task]])
        if self.what == "device":
            names = tuple(rank_name(self.timeline.schedule, place) for place in run.ranks.tolist())
            return replace(spans, rows=names).having(boxes, most=None)
        steps, workers = np.indices(self.ends.shape).reshape(2, -1)
        start = np.vstack((np.zeros(self.ends.shape[1]), self.ends[:-1]))
        lane, kind = len(spans.lanes) - 1, len(spans.kinds) - 1
        times, name = (start.ravel(), self.ends.ravel()), len(self.names) + 1 + steps
        each = Columns.of(workers, *times, lane=lane, kind=kind, name=name)
        return spans.having(each, bubbles, boxes, self._messages(run), most=None)

    def _messages(self, run: RunRows) -> Columns:
        sent = run.sends(len(self.graph.lanes))
        name = self.name[sent.task]
        return sent._replace(name=name, kind=self.kind[name])

    def _described(self, run: RunRows) -> Spans:
        """The spans of places without columns."""
        graph, ends, path = self.graph, self.ends, run.path
        lost = ["" if useful else " (lost)" for useful in self.useful.tolist()]
        steps = [f"{k}{lost}" for k, lost in zip(self.numbers.tolist(), lost, strict=True)]
        if self.together:
            ends = ends.max(axis=1, keepdims=True)
        schedule = self.timeline.schedule
        computes = (path.part == SEGMENT_PARTS.index("compute")) & (path.operation >= 0)
        lane = np.where(computes, schedule.lane[path.operation], len(graph.lanes))
        return run.described(
            [self.place_name(place) for place in range(schedule.ranks)],
            run.ranks,
            lane.astype(np.int32),
            lanes=(*graph.lanes, MESSAGES, STEPS),
            kinds=(*self.legend, IDLE, "user_annotation"),
            names=(*self.names, IDLE, *(f"ProfilerStep#{step}" for step in steps)),
            causes=BUBBLE_CAUSES,
            main=COMPUTE,
            steps=np.maximum.accumulate(ends) if len(ends) > 1 else np.zeros((0, 1)),
            remarks=self.remarks,
            workers=int((run.ranks < self.workers).sum()),
            step_names=[f"step {step}" for step in steps],
            labels={"stage": graph.stage, "layer": graph.layer, "micro_batch": graph.micro},
        )


def strategy_spans(plan: Plan, timeline: Timeline) -> StepSpans:
    """The spans of a training run.

    A communication lasts from entering to leaving. Of a plan with symmetry, the places are the
    workers that stand for all.
    """
    schedule, graph = timeline.schedule, plan.graph
    phase = schedule.phase.astype(np.int32)
    kind = np.full(len(schedule.phases), CALL)
    kind[phase[plan.first]] = graph.kind
    kinds = {name: KINDS[number] for name, number in zip(schedule.phases, kind, strict=True)}
    talks, workers = graph.lane[graph.call >= 0].tolist(), np.arange(plan.workers, dtype=np.int32)
    remarks = [standing(len(plan.standing), plan.workers)] * (len(plan.standing) < plan.workers)
    if plan.is_priced:
        remarks.append(
            "Collectives are timed as a whole: take --detail transfers to see their messages."
        )
    return StepSpans(
        graph=graph,
        timeline=timeline,
        first=plan.first,
        last=plan.last,
        what="rank",
        workers=plan.workers,
        kinds=kinds,
        legend=tuple(dict.fromkeys(kinds.values())),
        name=phase,
        phase=phase[plan.first],
        groups={graph.lanes[lane]: workers[None] for lane in dict.fromkeys(talks)},
        idle=partial(bubble_spans, timeline, COMPUTE),
        ends=timeline.finish[plan.ends],
        numbers=plan.numbers,
        useful=plan.useful,
        remarks=tuple(remarks),
        together=plan.updates is None,
        dtype=plan.model.gradient_dtype,
    )


def step_spans(step: Step, attempts: Sequence[Attempt] = (Attempt(0),)) -> StepSpans:
    """The spans of a step of a plan, or of several `attempts` at steps. A place is a device of the
    pipeline, or a part of its ranks if these differ, and stands for all of its ranks."""
    timeline, graph, degrees = step.timeline, step.graph, step.work.times.degrees
    kinds, name, phase = _plan_names(graph)
    operations, places = np.arange(len(graph), dtype=np.int32), graph.places
    each, some = graph.ranks // places, "all " if places == 1 else ""
    stands = f"A row stands for {some}{each} ranks" + f" of {graph.ranks}" * (not some)
    ends = np.zeros(len(attempts))
    np.maximum.at(ends, np.maximum(graph.step, 0), timeline.finish)
    calls = np.unique(graph.call[(graph.call >= 0) & ~np.isin(graph.lane, (SEND, TIED))])
    communicating = {graph.calls[call].group for call in calls.tolist()} - {""}
    return StepSpans(
        graph=graph,
        timeline=timeline,
        first=operations,
        last=operations,
        what="device" if places == degrees.pp else "place",
        workers=places,
        kinds=kinds,
        legend=(*KINDS[:TRANSFER], *STREAMS, *KINDS[TRANSFER : RESTART + 1], *KINDS[HOOKS:]),
        name=name,
        phase=phase,
        groups={kind: degrees.groups(kind) for kind in (*GROUPED, *sorted(communicating))},
        idle=partial(step_bubbles, step),
        ends=ends.repeat(places).reshape(-1, places),
        numbers=np.array([attempt.step for attempt in attempts], dtype=np.int32),
        useful=np.array([not attempt.lost for attempt in attempts], dtype=np.int32),
        remarks=(f"{stands}: they do the same at the same time.",)
        * (places == degrees.pp < graph.ranks),
    )


def _plan_names(graph: StepGraph) -> tuple[dict[str, str], Ints, Ints]:
    """The kinds of names, and the name and the part of the step of each task."""
    first, row = distinct_rows(graph.lane, graph.kind, graph.micro, graph.call, met=True)
    names, phases, pairs = dict[str, str](), dict[str, str](), list[tuple[str, str]]()
    for task in first.tolist():
        lane, kind, call = graph.lane[task], KINDS[graph.kind[task]], graph.call_of(task)
        phase = name = f"{kind} {graph.micro[task]}" if graph.micro[task] >= 0 else kind
        communicates = call is not None or lane == COPIES
        if communicates:
            name = " ".join(dict.fromkeys((STREAMS[lane], collective(call) if call else "copy")))
        elif lane == HOST:
            phase = kind
        names.setdefault(name, STREAMS[lane] if communicates or lane == HOST else kind)
        phases.setdefault(phase, kind)
        pairs.append((name, phase))
    kinds = names | phases | names
    place = {name: number for number, name in enumerate(kinds)}
    columns = [[place[word] for word in pair] for pair in pairs]
    name_of, phase_of = np.array(columns, dtype=np.int32)[row].T
    return kinds, name_of, phase_of
