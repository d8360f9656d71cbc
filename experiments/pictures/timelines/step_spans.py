"""The spans of a training run or of a step of a plan: columns that every picture, page and trace of
them reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.names import members_name, rank_name, standing
from experiments.pictures.timelines.tracks import Boxes, boxes_of
from simulator.analysis.bubble_spans import BubbleSpans, bubble_spans, gaps_without_causes
from simulator.parallel.passes import COPIES, HOST, SEND, STREAMS, TIED
from simulator.parallel.step import Step
from simulator.parallel.step_bubbles import step_bubbles
from simulator.schedules.timeline import Timeline
from simulator.steps.kinds import CALL, HOOKS, KINDS, RESTART, TRANSFER
from simulator.steps.step_graph import StepGraph
from simulator.training.conditions import Attempt
from simulator.training.plan import COMPUTE, Plan
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

    def tasks(self, boxes: Boxes) -> Ints:
        """The task of each box."""
        return np.asarray(np.searchsorted(self.first, boxes.first, side="right") - 1)

    @property
    def lanes(self) -> tuple[str, ...]:
        """The names of the lanes of a place."""
        return self.graph.lanes

    @cached_property
    def boxes(self) -> Boxes:
        """Computations and communications that take time. A rank is a place, a phase is a place in
        `names`."""
        graph, first, last = self.graph, self.first, self.last
        boxes = boxes_of(self.timeline, graph.place, graph.lane, first, last)
        return boxes._replace(phase=self.name[first]).take(boxes.end > boxes.start)

    @cached_property
    def places(self) -> Ints:
        """The places that are shown."""
        place = self.graph.place
        return np.union1d(place[place < self.workers], self.boxes.rank).astype(np.int32)

    @cached_property
    def bubbles(self) -> BubbleSpans:
        """The idle time of the main lane of the workers that are shown."""
        spans = self.idle()
        return spans.take((spans.rank < self.workers) & np.isin(spans.rank, self.places))

    @property
    def device_boxes(self) -> Boxes:
        """All boxes but those of a CPU."""
        return self.boxes.take(self.boxes.lane != self.host)


def strategy_spans(plan: Plan, timeline: Timeline) -> StepSpans:
    """The spans of a training run.

    A communication lasts from entering to leaving. Of a plan with symmetry, the places are the
    workers that stand for all. Of an outline, the causes of bubbles are not known.
    """
    schedule, graph = timeline.schedule, plan.graph
    phase = schedule.phase.astype(np.int32)
    kind = np.full(len(schedule.phases), CALL)
    kind[phase[plan.first]] = graph.kind
    kinds = tuple(KINDS[number] for number in kind.tolist())
    talks = np.flatnonzero(graph.call >= 0)
    first, row = _distinct(graph.kind[talks], graph.lane[talks])
    calls = [
        Communication(KINDS[graph.kind[task]].replace("-", "_"), graph.lanes[graph.lane[task]])
        for task in talks[first].tolist()
    ]
    call = np.full(len(graph), -1, dtype=np.int32)
    call[talks] = row
    workers = np.arange(plan.workers, dtype=np.int32)
    remarks = [standing(len(plan.standing), plan.workers)] * (len(plan.standing) < plan.workers)
    if plan.is_outline:
        remarks.append(
            "Collectives are timed as a whole: take --detail transfers to see their messages and "
            "why ranks wait."
        )
    idle = gaps_without_causes if plan.is_outline else bubble_spans
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
    first, row = _distinct(lane, graph.kind, graph.micro, graph.call)
    calls, rows = dict[Communication, int](), list[tuple[str, str, int]]()
    names, phases = dict[str, str](), dict[str, str]()
    for task, stream in zip(first.tolist(), lane[first].tolist(), strict=True):
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
        legend=(*KINDS[:TRANSFER], *STREAMS, *KINDS[TRANSFER:RESTART], KINDS[HOOKS]),
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


def _distinct(*columns: npt.NDArray[np.integer]) -> tuple[Ints, Ints]:
    """The first row with each distinct value of columns, and the number of the value of each."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        code = code * (int(np.ptp(column)) + 1) + column - column.min() if len(column) else code
    _, first, row = np.unique(code, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order].astype(np.int32), np.argsort(order)[row].astype(np.int32)
