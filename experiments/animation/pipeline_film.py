"""The animation of a pipeline: micro-batches move from device to device."""

from __future__ import annotations

import numpy as np

from experiments.animation.step_film import (
    SAMPLES,
    Boxes,
    Changes,
    Event,
    Figure,
    Flights,
    Look,
    StepFilm,
    covered,
    merged,
    sorted_changes,
)
from simulator.parallel.pipeline_times import PipelineTimes
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS
from topologies.errors import InputError
from topologies.topology import Floats

KINDS = (
    Look("forward", "#56b4e9", "F"),
    Look("backward", "#0072b2", "B"),
    Look("backward for inputs", "#009e73", "I"),
    Look("backward for weights", "#e69f00", "W"),
)
STATES = (
    Look("not here yet", "#dfe3e8"),
    Look("waits", "#f0e442", "…"),
    *KINDS,
    Look("activations kept", "#cc79a7", "▪"),
    Look("done", "#8a8f98", "✓"),
)
WAITS, FIRST_KIND, KEPT, DONE = 1, 2, 6, 7
SEEN = 0.25
"""A transfer is drawn for at least this share of the shortest action, so that it can be seen."""
MOST_DEVICES, MOST_ACTIONS = 32, 8_000
NAMED = 6
"""Devices that a sentence names."""


def pipeline_film(times: PipelineTimes, transfer: float) -> StepFilm:
    """The animation of a pipeline whose transfers take so many seconds.

    Raises InputError for too many devices or actions.
    """
    pipeline = times.pipeline
    if not 2 <= pipeline.devices <= MOST_DEVICES:
        raise InputError(
            f"{pipeline.devices} devices: an animation shows 2 to {MOST_DEVICES} of them"
        )
    if len(pipeline) > MOST_ACTIONS:
        raise InputError(
            f"{len(pipeline)} actions: an animation shows at most {MOST_ACTIONS}, take fewer "
            f"micro-batches"
        )
    boxes = Boxes(
        pipeline.device,
        np.zeros(len(pipeline), dtype=np.int32),
        times.start,
        times.finish,
        pipeline.kind.astype(np.int32),
        pipeline.micro,
    )
    flights = _flights(times, transfer)
    return StepFilm(
        rows=[f"device {device}" for device in range(pipeline.devices)],
        lanes=["compute"],
        items="micro-batch",
        count=pipeline.micro_batches,
        kinds=KINDS,
        states=STATES,
        boxes=boxes,
        changes=_changes(times, flights),
        flights=flights,
        end=times.step,
        events=_events(times),
        figures=_figures(times),
    )


def _flights(times: PipelineTimes, transfer: float) -> Flights:
    """Results on their way to the device of the next stage."""
    pipeline = times.pipeline
    need = pipeline.needs[:, 0]
    chosen = np.flatnonzero((need >= 0) & (pipeline.device[need] != pipeline.device))
    sender, length = need[chosen], times.finish - times.start
    shortest = float(length[length > 0].min(initial=times.step))
    begin = times.finish[sender]
    arrive = begin + max(transfer, SEEN * shortest)
    return Flights(
        begin, arrive, pipeline.device[sender], pipeline.device[chosen], pipeline.micro[chosen]
    )


def _changes(times: PipelineTimes, flights: Flights) -> Changes:
    """Where each micro-batch is at each device."""
    pipeline, rows = times.pipeline, list[tuple[float, int, int, int]]()
    first: dict[tuple[int, int], float] = {}
    for device, kind, micro, start, finish in zip(
        pipeline.device.tolist(),
        pipeline.kind.tolist(),
        pipeline.micro.tolist(),
        times.start.tolist(),
        times.finish.tolist(),
        strict=True,
    ):
        after = KEPT if kind in (FORWARD, INPUTS) else DONE
        rows += [(start, device, micro, FIRST_KIND + kind), (finish, device, micro, after)]
        first[device, micro] = min(start, first.get((device, micro), start))
    arrivals = zip(flights.end.tolist(), flights.peer.tolist(), flights.item.tolist(), strict=True)
    rows += [
        (arrive, device, micro, WAITS)
        for arrive, device, micro in arrivals
        if arrive < first[device, micro]
    ]
    return sorted_changes(rows)


def _events(times: PipelineTimes) -> list[Event]:
    """The moments at which actions end, and what devices do until then."""
    pipeline, step = times.pipeline, times.step
    ends = np.unique(np.round(times.finish / step, 9)) * step
    events, before = list[Event](), 0.0
    for end in ends.tolist():
        middle = (before + end) / 2
        running = np.flatnonzero((times.start < middle) & (middle < times.finish))
        count = len(np.unique(pipeline.device[running]))
        title = f"{count} of {pipeline.devices} devices compute"
        events.append(Event(end, title, _sentence(times, running.tolist())))
        before = end
    return merged(events, step)


def _sentence(times: PipelineTimes, running: list[int]) -> str:
    pipeline = times.pipeline
    does = [
        f"device {pipeline.device[row]} runs the {KINDS[pipeline.kind[row]].name} of "
        f"{pipeline.micro[row]}"
        for row in running[:NAMED]
    ]
    more = len(running) - NAMED
    text = ", ".join(does) + (f", and {more} more" if more > 0 else "")
    return f"{text[:1].upper()}{text[1:]}." if text else "All devices wait."


def _figures(times: PipelineTimes) -> list[Figure]:
    pipeline, moments = times.pipeline, np.linspace(0.0, times.step, SAMPLES)
    work = np.zeros(len(moments))
    for device in range(pipeline.devices):
        mine = slice(*pipeline.starts[device : device + 2])
        work += covered(times.start[mine], times.finish[mine], moments)
    with np.errstate(divide="ignore", invalid="ignore"):
        idle = np.where(moments > 0, 1 - work / (pipeline.devices * moments), 0.0)
    last = np.zeros(pipeline.micro_batches)
    np.maximum.at(last, pipeline.micro, times.finish)
    done = (last <= moments[:, None] + 1e-12).sum(axis=1).astype(np.float64)
    return [
        Figure("micro-batches done", "count", done),
        Figure("idle so far", "share", np.maximum(idle, 0.0)),
        Figure("activations of the fullest device", "count", _held(times, moments)),
    ]


def _held(times: PipelineTimes, moments: Floats) -> Floats:
    """Micro-batches whose activations the fullest device keeps, in shares of its stages."""
    pipeline = times.pipeline
    most = np.zeros(len(moments))
    for device in range(pipeline.devices):
        mine = pipeline.device == device
        appear = np.sort(times.start[mine & (pipeline.kind == FORWARD)])
        ends = (pipeline.kind == BACKWARD) | (pipeline.kind == INPUTS)
        vanish = np.sort(times.finish[mine & ends])
        held = np.searchsorted(appear, moments, side="right").astype(np.float64)
        held -= np.searchsorted(vanish, moments, side="right")
        stages = len(np.unique(pipeline.stage[mine]))
        most = np.maximum(most, held / stages)
    return most
