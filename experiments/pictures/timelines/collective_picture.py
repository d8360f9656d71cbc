"""The picture of a collective: a row for each rank and switch, a box for each message and merge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from experiments.names import link_name
from experiments.pictures.timelines.bars import BOXES, arranged, longest, thinnest, widened
from experiments.pictures.timelines.painter import Chart, paint
from experiments.pictures.timelines.palette import QUEUE
from experiments.pictures.timelines.rows import Group, Lane, places_of
from experiments.pictures.timelines.tracks import (
    Boxes,
    all_computations,
    joined_times,
    merges,
    receives,
    sends,
)
from simulator.analysis.queue_spans import queue_spans
from simulator.schedules.timeline import Timeline
from topologies.topology import Ints

ROW, LANE = 0.16, 0.13
"""Inches: the height of a row, and of each of its lanes."""
COMPUTE, SEND, RECEIVE, ADD = range(4)
LINKS = 3
"""Links that are named as those for which messages wait longest."""
LANES = ("compute", "send", "receive", "add")
"""The lanes of a rank, from the top."""


def collective_drawing(timeline: Timeline, title: str) -> Figure:
    """Draw what every rank computes, sends, receives and adds, coloured by phase.

    A message is drawn at its sender while it holds the first link, and at its receiver while it
    holds the last. Hatched boxes are messages that wait behind other ranks. What a rank does at the
    same time is drawn side by side. Above 32 ranks there are no labels, narrow neighbours of one
    phase are one box, and of over 200,000 boxes the longest are drawn: the picture says so.
    """
    schedule, media = timeline.schedule, timeline.routed.topology.medium_names
    queues, medium = _queues(timeline)
    waits = [f"waits for {link_name(media[each])}" for each in medium]
    kinds = (*schedule.phases, *(QUEUE for _ in waits))
    boxes, remarks = everyone(timeline, _boxes(timeline).joined(queues))
    bars, more = longest(widened(arranged(boxes, timeline, kinds), timeline))
    ranks = np.arange(schedule.ranks, dtype=np.int32)
    if remarks:
        ranks = np.union1d(schedule.rank, timeline.routed.peer).astype(np.int32)
    used = np.unique(boxes.lane).tolist() or [SEND]
    lanes = {lane: Lane(LANES[lane]) for lane in used}
    places = places_of(bars, ranks, [Group(np.ones(len(ranks), dtype=np.bool_), lanes)])
    height = ROW + LANE * len(lanes)
    chart = Chart(timeline, bars, places, ranks, height, (*schedule.phases, *waits))
    *first, last = [f"{LANES[lane]}s" for lane in used]
    shown = f"what each rank {' and '.join([', '.join(first), last] if first else [last])}"
    return paint(chart, title, [shown, *_longest_waits(queues, kinds, waits), *remarks, *more])[0]


def _longest_waits(queues: Boxes, kinds: Sequence[str], waits: Sequence[str]) -> list[str]:
    """A remark that names the links for which messages wait longest."""
    place = queues.phase - (len(kinds) - len(waits))
    seconds = np.bincount(place, queues.end - queues.start, len(waits))
    order = np.argsort(-seconds, kind="stable").tolist()
    names = list(dict.fromkeys(waits[k].removeprefix("waits for ") for k in order))[:LINKS]
    return [f"messages wait longest for {', '.join(names)}"] if names else []


def everyone(timeline: Timeline, boxes: Boxes) -> tuple[Boxes, list[str]]:
    """Of a folded schedule: the boxes of all ranks, each like those of the rank that stands for it.
    If these are too many, the boxes of the ranks that stand for others, and a remark."""
    schedule = timeline.schedule
    if schedule.fold is None:
        return boxes, []
    shifts = schedule.fold.shifts
    boxes = boxes._replace(rank=shifts.folded(boxes.rank).astype(np.int32))
    if len(boxes.rank) * schedule.members > BOXES:
        standing = len(np.unique(boxes.rank))
        return boxes, [f"{standing} of {schedule.ranks} ranks drawn: the others do the same"]
    ranks = np.arange(schedule.ranks, dtype=np.int32)
    stands = shifts.folded(ranks)
    order = np.argsort(boxes.rank, kind="stable")
    low, high = (np.searchsorted(boxes.rank[order], stands, side) for side in ("left", "right"))
    copies = [order[begin:end] for begin, end in zip(low.tolist(), high.tolist(), strict=True)]
    every = boxes.take(np.concatenate(copies))
    return every._replace(rank=np.repeat(ranks, high - low)), []


def _boxes(timeline: Timeline) -> Boxes:
    """Computations, messages at both ends, and merges, each on its lane."""
    computations = all_computations(timeline)
    computations = computations._replace(lane=np.full_like(computations.lane, COMPUTE))
    added = merges(timeline)
    boxes = computations.joined(added._replace(lane=np.full_like(added.lane, ADD)))
    schedule = timeline.schedule
    ends = (
        (sends(timeline), schedule.rank, SEND),
        (receives(timeline), timeline.routed.peer, RECEIVE),
    )
    for moved, rank, lane in ends:
        operation = moved.operation
        messages = Boxes(
            rank=rank[operation],
            lane=np.full_like(operation, lane),
            start=moved.start,
            end=moved.end,
            phase=schedule.phase[operation].astype(np.int32),
            first=operation,
            last=operation,
        )
        boxes = boxes.joined(messages.take(messages.end > messages.start))
    return boxes


def _queues(timeline: Timeline) -> tuple[Boxes, Ints]:
    """Messages that wait behind other ranks, at their senders, and the media for which they wait.

    A message that crosses its first link while it waits further on is drawn there first. Messages
    of one rank that wait for one medium at the same time are one box. The phase of a box is the
    place of its medium behind all phases.
    """
    schedule, waits = timeline.schedule, queue_spans(timeline)
    crossing, until = sends(timeline), np.zeros(len(schedule))
    until[crossing.operation] = crossing.end
    sent = until[waits.operation]
    begins = timeline.start[waits.operation]
    start = np.where(waits.start >= begins, np.maximum(waits.start, sent), waits.start)
    shown = np.flatnonzero(waits.end - start >= thinnest(timeline))
    media, place = np.unique(waits.medium[shown], return_inverse=True)
    operation = waits.operation[shown]
    wait = (schedule.rank[operation] * len(media) + place).astype(np.int32)
    times = joined_times(wait, start[shown], waits.end[shown], 0.0)
    known, number = [*times], [each.shape[1] for each in times.values()]
    rank, place = np.divmod(np.repeat(np.array(known, dtype=np.int32), number), max(len(media), 1))
    begin, end = np.concatenate([np.zeros((2, 0)), *times.values()], axis=1)
    none = np.full_like(rank, -1)
    phase = (len(schedule.phases) + place).astype(np.int32)
    return Boxes(rank, np.full_like(rank, SEND), begin, end, phase, none, none), media
