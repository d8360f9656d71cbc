"""The spans of a training run or of a step of a plan: columns that every picture, page and trace of
them reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.names import rank_name, standing
from experiments.pictures.timelines.tracks import Boxes, all_computations, boxes_of
from simulator.analysis.bubble_spans import BubbleSpans, bubble_spans, gaps_without_causes
from simulator.parallel.passes import COPIES, HOST, SEND, STREAMS, TIED
from simulator.parallel.step import Step
from simulator.parallel.step_bubbles import step_bubbles
from simulator.schedules.schedule import COMPUTE as COMPUTATION
from simulator.schedules.timeline import Timeline
from simulator.steps.kinds import KINDS, RESTART, TRANSFER
from simulator.training.plan import COMPUTE, Plan
from topologies.topology import Floats, Ints


class Labels(NamedTuple):
    """What each operation is, a row each; -1 is none."""

    name: Ints
    """What people call it, a place in `names`."""
    phase: Ints
    """The part of the step that it belongs to, a place in `names`."""
    micro: Ints
    """The micro-batch."""
    stage: Ints
    """The stage of the model."""
    layer: Ints
    """The block within its stage."""
    bucket: Ints
    """The bucket of gradients that it all-reduces."""
    call: Ints
    """The collective or message that begins with it, a place in `calls`."""
    nbytes: Floats
    """The bytes of that; -1 if they are not known."""
    peer: Ints
    """The place that receives its message."""


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

    timeline: Timeline
    what: str
    """What a place is: "rank", or "device" of a pipeline."""
    places: Ints
    """The places that are shown."""
    workers: int
    """The places that train: those behind them serve."""
    ranks: Ints
    """The ranks for which each worker stands, shape (workers, ranks)."""
    lanes: tuple[str, ...]
    host: int
    """The lane of a CPU that only launches; -1 for none."""
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    """The kind of each name: all spans of a kind have one colour."""
    legend: tuple[str, ...]
    """All kinds, in the order in which a page lists them."""
    boxes: Boxes
    """Computations and communications that take time. A rank is a place, a phase is a place in
    `names`, and the first operation has the labels."""
    labels: Labels
    calls: tuple[Communication, ...]
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
        return rank_name(self.timeline.schedule, place).replace("rank", self.what)

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
    schedule, size = timeline.schedule, len(timeline.schedule)
    talks = boxes_of(timeline, *plan.spans)
    talks = talks.take(talks.end > talks.start)
    ends = np.concatenate((plan.spans.first, plan.spans.last))
    boxes = all_computations(timeline)
    boxes = boxes.take(~np.isin(boxes.first, ends[schedule.lane[ends] != COMPUTE])).joined(talks)
    kinds = tuple(KINDS[label.kind] for label in plan.labels)
    most = max(len(plan.lanes), schedule.lanes, int(plan.spans.lane.max(initial=0)) + 1)
    lanes = (*plan.lanes, *(f"lane {lane}" for lane in range(len(plan.lanes), most)))
    none, nbytes = np.full(size, -1, dtype=np.int32), np.full(size, -1.0)
    calls, call = dict[Communication, int](), none.copy()
    for first, lane, phase in zip(
        talks.first.tolist(), talks.lane.tolist(), talks.phase.tolist(), strict=True
    ):
        key = Communication(kinds[phase].replace("-", "_"), lanes[lane])
        call[first] = calls.setdefault(key, len(calls))
    nbytes[talks.first] = _bytes_of(timeline, talks)
    name, workers = schedule.phase.astype(np.int32), np.arange(plan.workers, dtype=np.int32)
    idle = gaps_without_causes if plan.blocks else bubble_spans
    remarks = [standing(len(plan.standing), plan.workers)] * (len(plan.standing) < plan.workers)
    if plan.blocks:
        remarks.append(
            "Collectives are timed as a whole: take --detail transfers to see their messages and "
            "why ranks wait."
        )
    return StepSpans(
        timeline=timeline,
        what="rank",
        places=np.union1d(plan.standing, boxes.rank).astype(np.int32),
        workers=plan.workers,
        ranks=workers[:, None],
        lanes=lanes,
        host=-1,
        names=schedule.phases,
        kinds=kinds,
        legend=tuple(dict.fromkeys(kinds)),
        boxes=boxes,
        labels=Labels(name, name, none, none, none, plan.column("bucket"), call, nbytes, none),
        calls=tuple(calls),
        groups={lanes[lane]: workers[None] for lane in np.unique(plan.spans.lane).tolist()},
        dtype=plan.model.gradient_dtype,
        idle=partial(idle, timeline, COMPUTE),
        ends=timeline.finish[plan.ends],
        numbers=plan.numbers,
        useful=plan.useful,
        together=plan.updates is None,
        remarks=tuple(remarks),
    )


def _bytes_of(timeline: Timeline, talks: Boxes) -> Floats:
    """The bytes of each communication: those of the slots that the rank enters with, or of the only
    transfer; -1 if they are not known."""
    schedule = timeline.schedule
    sums = np.concatenate(([0.0], np.cumsum(schedule.shares))) * schedule.nbytes_total
    slot, entered = schedule.target[talks.first], schedule.kind[talks.first] == COMPUTATION
    buffer_bytes = sums[slot + schedule.count[talks.first]] - sums[slot]
    nbytes = np.where(entered, buffer_bytes, schedule.nbytes[talks.first])
    known = np.where(entered, slot >= 0, talks.first == talks.last)
    return np.asarray(np.where(known, nbytes, -1.0))


def step_spans(step: Step) -> StepSpans:
    """The spans of a step of a plan. A place is a device of the pipeline, and stands for all of its
    ranks."""
    timeline, schedule, graph = step.timeline, step.schedule, step.graph
    lane, degrees = schedule.lane, step.work.times.degrees
    first, row = _distinct(lane, graph.kind, graph.micro, graph.call)
    calls, rows = dict[Communication, int](), list[tuple[str, str, int]]()
    names, phases = dict[str, str](), dict[str, str]()
    for operation, stream in zip(first.tolist(), lane[first].tolist(), strict=True):
        kind, micro, number = KINDS[graph.kind[operation]], int(graph.micro[operation]), -1
        phase = name = f"{kind} {micro}" if micro >= 0 else kind
        task_call = graph.call_of(operation)
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
    places, ranks = np.arange(schedule.ranks, dtype=np.int32), degrees.groups("pp").T
    some = "all " if len(ranks) == 1 else ""
    stands = f"A row stands for {some}{ranks.shape[1]} ranks" + f" of {ranks.size}" * (not some)
    communicating = {call.group for call in calls} - {STREAMS[SEND], STREAMS[TIED], COPY.group}
    groups = {kind: degrees.groups(kind) for kind in (*GROUPED, *sorted(communicating))}
    return StepSpans(
        timeline=timeline,
        what="device",
        places=places,
        workers=len(places),
        ranks=ranks,
        lanes=STREAMS,
        host=HOST,
        names=tuple(kinds),
        kinds=tuple(kinds.values()),
        legend=(*KINDS[:TRANSFER], *STREAMS, *KINDS[TRANSFER:RESTART]),
        boxes=_named(all_computations(timeline), name_of),
        labels=Labels(
            name_of,
            phase_of,
            graph.micro,
            graph.stage,
            graph.layer,
            np.full_like(name_of, -1),
            call_of,
            graph.nbytes,
            graph.peer,
        ),
        calls=tuple(calls),
        groups=groups,
        dtype="",
        idle=partial(step_bubbles, step),
        ends=np.full((1, len(places)), timeline.makespan),
        numbers=np.zeros(1, dtype=np.int32),
        useful=np.ones(1, dtype=np.int32),
        together=True,
        remarks=(f"{stands}: they do the same at the same time.",) * (ranks.shape[1] > 1),
    )


def _named(boxes: Boxes, name: Ints) -> Boxes:
    return boxes._replace(phase=name[boxes.first])


def _distinct(*columns: npt.NDArray[np.integer]) -> tuple[Ints, Ints]:
    """The first operation with each distinct row of columns, and the number of the row of each."""
    code = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        code = code * (int(np.ptp(column)) + 1) + column - column.min()
    _, first, row = np.unique(code, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order].astype(np.int32), np.argsort(order)[row].astype(np.int32)
