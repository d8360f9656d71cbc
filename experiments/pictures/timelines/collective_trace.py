"""A collective as a Chrome trace: phases, computations, merges and sends of each rank."""

from __future__ import annotations

import numpy as np

from experiments.pictures.timelines.trace_file import Trace, to_file
from experiments.pictures.timelines.trace_slices import Slices, described, slices_of
from experiments.pictures.timelines.tracks import (
    Boxes,
    all_computations,
    kind_of,
    merges,
    rank_phases,
)
from experiments.trace_choice import ALL, TraceChoice
from simulator.analysis import memory
from simulator.schedules.timeline import Timeline

TRACKS = ("compute", "merges", "phases")


def collective_trace(
    timeline: Timeline, parameters: dict[str, object], choice: TraceChoice = ALL
) -> str:
    """Chrome trace JSON of a collective: a process for each rank, server and switch.

    A rank has these tracks, if it does something on them:

    - its computations,
    - its merges: additions and local copies,
    - its phases, each from its first message to its last, with the bytes that it sends,
    - its sends, a track for each medium.

    The memory of each rank is a counter. See :func:`trace_file.to_file` for the rest.
    """
    phases = rank_phases(timeline)
    slices = [
        _slices(timeline, 0, all_computations(timeline)),
        _slices(timeline, 1, merges(timeline)),
        _phases(timeline, phases),
    ]
    usage = memory.trace(timeline.schedule, timeline)
    trace = Trace(timeline, slices, phases, TRACKS, usage, choice)
    return to_file(trace, parameters, "take fewer ranks")


def _slices(timeline: Timeline, track: int, boxes: Boxes) -> Slices:
    phases = [described(phase, kind_of(phase)) for phase in timeline.schedule.phases]
    about = [phases[phase] for phase in boxes.phase.tolist()]
    return slices_of(boxes.rank, track, boxes.start, boxes.end, about)


def _phases(timeline: Timeline, boxes: Boxes) -> Slices:
    schedule = timeline.schedule
    names, shape = schedule.phases, (schedule.ranks, len(schedule.phases))
    nbytes = np.zeros(shape)
    np.add.at(nbytes, (schedule.rank, schedule.phase), schedule.nbytes * schedule.remote)
    about = [
        described(names[phase], kind_of(names[phase]), bytes=round(nbytes[rank, phase]))
        for rank, phase in zip(boxes.rank.tolist(), boxes.phase.tolist(), strict=True)
    ]
    return slices_of(boxes.rank, TRACKS.index("phases"), boxes.start, boxes.end, about)
