"""The picture of a collective: a row for each rank and switch, a box for each message and merge."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from experiments.pictures.figure_file import to_bytes
from experiments.pictures.timelines.bars import Bars, arranged, longest
from experiments.pictures.timelines.painter import FULL, INK, Chart, Places, paint
from experiments.pictures.timelines.tracks import Boxes, all_computations, merges, sends
from simulator.schedules.timeline import Timeline

ROW = 0.36
"""Height of a row in inches."""


def collective_figure(timeline: Timeline, title: str, kind: str) -> bytes:
    """The picture of :func:`collective_drawing` as "png", "svg" or "pdf"."""
    return to_bytes(collective_drawing(timeline, title), kind)


def collective_drawing(timeline: Timeline, title: str) -> Figure:
    """Draw what every rank sends, merges and computes, coloured by phase; idle time is white.

    A message is drawn while it holds the first link of its sender. What a rank does at the same
    time is drawn side by side. Above 32 ranks there are no labels, narrow neighbours of one phase
    are one box, and of over 200,000 boxes the longest are drawn: the picture says so.
    """
    bars, remarks = longest(arranged(_boxes(timeline), timeline, timeline.schedule.phases))
    ranks = np.arange(timeline.schedule.ranks, dtype=np.int32)
    places = shared_rows(bars, len(ranks))
    idle = "idle: sends, merges\nand computes nothing"
    return paint(Chart(timeline, bars, places, ranks, len(ranks), idle, ROW), title, remarks)[0]


def _boxes(timeline: Timeline) -> Boxes:
    """Computations on lane 0 of each rank, messages and merges on lane 1."""
    schedule, sent = timeline.schedule, sends(timeline)
    operation = sent.operation
    messages = Boxes(
        rank=schedule.rank[operation],
        lane=np.ones_like(operation),
        start=sent.start,
        end=sent.end,
        phase=schedule.phase[operation].astype(np.int32),
        first=operation,
        last=operation,
    )
    computations = all_computations(timeline)
    computations = computations._replace(lane=np.zeros_like(computations.lane))
    messages = messages.take(messages.end > messages.start)
    return computations.joined(messages).joined(merges(timeline))


def shared_rows(bars: Bars, ranks: int) -> Places:
    """Divide the row of each rank into as many bands as it needs at once, computations first."""
    rank, lane = bars.boxes.rank, bars.boxes.lane
    depth = np.zeros((ranks, 2), dtype=np.int64)
    np.maximum.at(depth, (rank, lane), bars.band + 1)
    band = bars.band + np.where(lane == 1, depth[rank, 0], 0)
    height = FULL / np.maximum(depth.sum(axis=1), 1)[rank]
    middle = rank - FULL / 2 + (band + 0.5) * height
    return Places(middle, height * INK, np.arange(float(ranks)), np.full(ranks, FULL))
