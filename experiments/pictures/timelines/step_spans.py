"""The spans of a training run or of a step of a plan: columns that every picture, page and trace of
them reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from experiments.names import members_name, rank_name, standing
from experiments.pictures.timelines.collective_spans import (
    RunRows,
    last_link,
    on_path,
    sender_at,
)
from experiments.pictures.timelines.spans import (
    IDLE,
    MESSAGES,
    NO_PATH,
    STEPS,
    Columns,
    Spans,
    path_pieces,
)
from simulator.analysis.bubbles import (
    BUBBLE_CAUSES,
    CONTENTION,
    BubbleSpans,
    bubble_spans,
    gaps_without_causes,
)
from simulator.analysis.critical_path import PARTS, SEGMENT_PARTS, CriticalPath
from simulator.parallel.passes import COPIES, HOST, SEND, STREAMS, TIED
from simulator.parallel.step import Step
from simulator.parallel.step_measures import step_bubbles
from simulator.schedules.timeline import Timeline
from simulator.steps.kinds import CALL, HOOKS, KINDS, RESTART, TRANSFER
from simulator.steps.step_graph import StepGraph
from simulator.training.conditions import Attempt
from simulator.training.plan import COMPUTE, Plan
from topologies.columns import distinct_rows, plain_rows
from topologies.topology import Floats, Ints


class Communication(NamedTuple):
    """A kind of communication."""

    collective: str
    group: str
    """The kind of group that communicates, a key of `groups`; another word for a message between
    two ranks, and "" for a copy within a rank."""


COPY = Communication("copy", "")
GROUPED = ("tp", "cp", "ep", "data", "experts")
"""Groups of a plan that traces list, whether they communicate or not."""


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
    worker_of: Ints
    """The worker that stands for each rank."""
    host: int
    """The lane of a CPU that only launches; -1 for none."""
    names: tuple[str, ...]
    """What people call operations and parts of the step."""
    kinds: tuple[str, ...]
    """The kind of each name: all spans of a kind have one colour."""
    legend: tuple[str, ...]
    """All kinds, in the order in which a page lists them."""
    name: Ints
    """The name of each operation, a place in `names`."""
    phase: Ints
    """The part of the step that each task belongs to, a place in `names`."""
    calls: tuple[Communication, ...]
    call: Ints
    """The collective or message of each task, a place in `calls`; -1 for none."""
    groups: Mapping[str, Ints]
    """The ranks of all groups of each kind, shape (groups, ranks of a group)."""
    dtype: str
    """The type of the numbers in calls; "" for bytes."""
    idle: Callable[[], BubbleSpans]
    """Works out when main lanes are idle. A cause of -1 is not known."""
    ends: Floats
    """When each step ends at each worker, shape (steps, workers)."""
    numbers: Ints
    """The number of each step."""
    useful: Ints
    """Whether each step counts: not if a failure loses its result."""
    together: bool
    """Whether all workers end a step together."""
    remarks: tuple[str, ...]
    """Sentences: what is not shown, and who stands for others."""

    def place_name(self, place: int) -> str:
        """What a place is called."""
        if self.what == "place":
            return members_name(self.graph, place)
        return rank_name(self.timeline.schedule, place).replace("rank", self.what)

    @property
    def lanes(self) -> tuple[str, ...]:
        """The names of the lanes of a place."""
        return self.graph.lanes

    @cached_property
    def places(self) -> Ints:
        """The places that are shown."""
        place = self.graph.place
        taking = self.timeline.finish[self.last] > self.timeline.start[self.first]
        return np.union1d(place[place < self.workers], place[taking]).astype(np.int32)

    @cached_property
    def kind(self) -> Ints:
        """The kind of each name, a place in `legend`."""
        return np.array([self.legend.index(kind) for kind in self.kinds], dtype=np.int32)

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
            nbytes=np.where(self.call[task] < 0, 0.0, graph.nbytes[task]),
            peer=graph.peer[task],
            task=task,
        )

    @property
    def device_boxes(self) -> Columns:
        """All boxes but those of a CPU."""
        return self.boxes.take(self.boxes.lane != self.host)

    @cached_property
    def bubbles(self) -> Columns:
        """The idle time of the main lane of the workers that are shown. The peer is who sends or
        computes what the worker waits for."""
        spans, timeline = self.idle(), self.timeline
        spans = spans.take((spans.rank < self.workers) & np.isin(spans.rank, self.places))
        operation, known = spans.operation, spans.operation >= 0
        return Columns.of(
            np.searchsorted(self.places, spans.rank),
            spans.start,
            spans.end,
            lane=spans.lane,
            kind=len(self.legend),
            name=len(self.names),
            cause=spans.cause,
            awaited=np.where(known, self.name[operation], -1),
            peer=np.where(known & (spans.cause >= 0), sender_at(timeline, operation), -1),
            link=np.where(spans.cause == CONTENTION, spans.medium, last_link(timeline, operation)),
        )

    def spans(self, path: CriticalPath | None = None) -> Spans:
        """What pictures and pages show, and the critical path if that is given. Below
        communications are their messages, if they were simulated at their time."""
        run = RunRows(self.timeline, self.places, on_path(self.timeline, path))
        boxes, task = self.boxes, self.boxes.task
        critical = run.through[self.first[task]] | run.through[self.last[task]]
        boxes = boxes._replace(critical=critical.astype(np.int32))
        parts = boxes, self.bubbles, self._messages(run)
        return self._described(run.ranks, path).having(*parts)

    def traced_spans(self) -> Spans:
        """What a trace shows: all spans of all places, also the steps of each worker; of devices
        of a pipeline the work alone."""
        every = np.arange(self.timeline.schedule.ranks, dtype=np.int32)
        run, spans = (
            RunRows(self.timeline, every, on_path(self.timeline, None)),
            self._described(every),
        )
        steps, workers = np.indices(self.ends.shape).reshape(2, -1)
        start = np.vstack((np.zeros(self.ends.shape[1]), self.ends[:-1]))
        kind, name = len(spans.kinds) - 1, len(self.names) + 1 + steps
        times = start.ravel(), self.ends.ravel()
        each = Columns.of(workers, *times, lane=len(spans.lanes) - 1, kind=kind, name=name)
        boxes, bubbles = (
            part._replace(row=self.places[part.row]) for part in (self.boxes, self.bubbles)
        )
        # A trace sorts communications by the part of the step that they belong to.
        boxes = boxes._replace(kind=self.kind[self.phase[boxes.task]])
        if self.what == "device":
            names = tuple(rank_name(self.timeline.schedule, place) for place in every.tolist())
            return replace(spans, rows=names).having(boxes, most=None)
        return spans.having(each, bubbles, boxes, self._messages(run), most=None)

    def _messages(self, run: RunRows) -> Columns:
        sent = run.sends(len(self.lanes))
        name = self.name[sent.task]
        return sent._replace(name=name, kind=self.kind[name])

    def _described(self, places: Ints, path: CriticalPath | None = None) -> Spans:
        """The spans without columns, and the places that are rows."""
        timeline, graph = self.timeline, self.graph
        machine, lanes = timeline.routed.machine, (*self.lanes, MESSAGES, STEPS)
        names, ends = [self.place_name(k) for k in range(timeline.schedule.ranks)], self.ends
        lost = ["" if useful else " (lost)" for useful in self.useful.tolist()]
        steps = [f"{k}{lost}" for k, lost in zip(self.numbers.tolist(), lost, strict=True)]
        if self.together:
            ends = ends.max(axis=1, keepdims=True)
        return Spans(
            rows=tuple(names[place] for place in places.tolist()),
            nodes=machine.node[machine.placement[places]].astype(np.int32),
            lanes=lanes,
            kinds=(*self.legend, IDLE, "user_annotation"),
            names=(*self.names, IDLE, *(f"ProfilerStep#{step}" for step in steps)),
            peers=names,
            links=timeline.routed.topology.medium_names,
            causes=BUBBLE_CAUSES,
            parts=PARTS,
            main=COMPUTE,
            steps=np.maximum.accumulate(ends) if len(ends) > 1 else np.zeros((0, 1)),
            makespan=timeline.makespan,
            remarks=self.remarks,
            columns=self.boxes,
            path=NO_PATH if path is None else path_pieces(path, places, self._lanes_of(path)),
            workers=int((places < self.workers).sum()),
            places=places,
            step_names=[f"step {step}" for step in steps],
            labels={"stage": graph.stage, "layer": graph.layer, "micro_batch": graph.micro},
        )

    def _lanes_of(self, path: CriticalPath) -> Ints:
        lane, messages = self.timeline.schedule.lane[path.operation], len(self.lanes)
        computes = (path.part == SEGMENT_PARTS.index("compute")) & (path.operation >= 0)
        return np.where(computes, lane, messages).astype(np.int32)


def strategy_spans(plan: Plan, timeline: Timeline) -> StepSpans:
    """The spans of a training run.

    A communication lasts from entering to leaving. Of a plan with symmetry, the places are the
    workers that stand for all. Where collectives are timed as a whole, gaps have no causes.
    """
    schedule, graph = timeline.schedule, plan.graph
    phase = schedule.phase.astype(np.int32)
    kind = np.full(len(schedule.phases), CALL)
    kind[phase[plan.first]] = graph.kind
    kinds = tuple(KINDS[number] for number in kind.tolist())
    talks = np.flatnonzero(graph.call >= 0)
    first, row = distinct_rows(graph.kind[talks], graph.lane[talks], met=True)
    calls = [
        Communication(KINDS[graph.kind[task]].replace("-", "_"), graph.lanes[graph.lane[task]])
        for task in talks[first].tolist()
    ]
    call = np.full(len(graph), -1, dtype=np.int32)
    call[talks] = row
    workers = np.arange(plan.workers, dtype=np.int32)
    remarks = [standing(len(plan.standing), plan.workers)] * (len(plan.standing) < plan.workers)
    if plan.is_priced:
        remarks.append(
            "Collectives are timed as a whole: take --detail transfers to see their messages and "
            "why ranks wait."
        )
    idle = gaps_without_causes if plan.is_priced else bubble_spans
    return StepSpans(
        graph=graph,
        timeline=timeline,
        first=plan.first,
        last=plan.last,
        what="rank",
        workers=plan.workers,
        worker_of=workers,
        host=-1,
        names=schedule.phases,
        kinds=kinds,
        legend=tuple(dict.fromkeys(kinds)),
        name=phase,
        phase=phase[plan.first],
        calls=tuple(calls),
        call=call,
        groups={call.group: workers[None] for call in calls},
        dtype=plan.model.gradient_dtype,
        idle=partial(idle, timeline, COMPUTE),
        ends=timeline.finish[plan.ends],
        numbers=plan.numbers,
        useful=plan.useful,
        together=plan.updates is None,
        remarks=tuple(remarks),
    )


def step_spans(step: Step, attempts: Sequence[Attempt] = (Attempt(0),)) -> StepSpans:
    """The spans of a step of a plan, or of several `attempts` at steps. A place is a device of the
    pipeline, or a part of its ranks if these differ, and stands for all of its ranks."""
    timeline, graph = step.timeline, step.graph
    lane, degrees = graph.lane, step.work.times.degrees
    first, row = distinct_rows(lane, graph.kind, graph.micro, graph.call, met=True)
    calls, rows = dict[Communication, int](), list[tuple[str, str, int]]()
    names, phases = dict[str, str](), dict[str, str]()
    for task, stream in plain_rows(first, lane[first]):
        kind, micro, number = KINDS[graph.kind[task]], int(graph.micro[task]), -1
        phase = name = f"{kind} {micro}" if micro >= 0 else kind
        task_call = graph.call_of(task)
        if stream == COPIES or task_call is not None:
            call = COPY
            if task_call is not None:
                group = STREAMS[stream] if stream in (SEND, TIED) else task_call.group
                call = Communication(
                    "send" if task_call.is_message else task_call.collective, group
                )
            number = calls.setdefault(call, len(calls))
            name = " ".join(dict.fromkeys((STREAMS[stream], call.collective)))
        elif stream == HOST:
            phase = kind
        names.setdefault(name, STREAMS[stream] if number >= 0 or stream == HOST else kind)
        phases.setdefault(phase, kind)
        rows.append((name, phase, number))
    kinds = names | {phase: kind for phase, kind in phases.items() if phase not in names}
    place = {name: number for number, name in enumerate(kinds)}
    columns = [(place[name], place[phase], number) for name, phase, number in rows]
    name_of, phase_of, call_of = np.array(columns, dtype=np.int32)[row].T
    operations, places = np.arange(len(graph), dtype=np.int32), graph.places
    each, some = graph.ranks // places, "all " if places == 1 else ""
    stands = f"A row stands for {some}{each} ranks" + f" of {graph.ranks}" * (not some)
    ends = np.zeros(len(attempts))
    np.maximum.at(ends, np.maximum(graph.step, 0), timeline.finish)
    communicating = {call.group for call in calls} - {STREAMS[SEND], STREAMS[TIED], COPY.group}
    groups = {kind: degrees.groups(kind) for kind in (*GROUPED, *sorted(communicating))}
    return StepSpans(
        graph=graph,
        timeline=timeline,
        first=operations,
        last=operations,
        what="device" if places == degrees.pp else "place",
        workers=places,
        worker_of=graph.place_of,
        host=HOST,
        names=tuple(kinds),
        kinds=tuple(kinds.values()),
        legend=(*KINDS[:TRANSFER], *STREAMS, *KINDS[TRANSFER : RESTART + 1], *KINDS[HOOKS:]),
        name=name_of,
        phase=phase_of,
        calls=tuple(calls),
        call=call_of,
        groups=groups,
        dtype="",
        idle=partial(step_bubbles, step),
        ends=ends.repeat(places).reshape(-1, places),
        numbers=np.array([attempt.step for attempt in attempts], dtype=np.int32),
        useful=np.array([not attempt.lost for attempt in attempts], dtype=np.int32),
        together=True,
        remarks=(f"{stands}: they do the same at the same time.",)
        * (places == degrees.pp < graph.ranks),
    )
