"""What the actions of a pipeline and the transfers between its stages wait for, and the times of a
pipeline whose stages take given times, on machines without other traffic.

An item is an action, or a transfer: the number of actions plus its place in
:attr:`Pipeline.transfers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from simulator.engines import Engine, simulate
from simulator.parallel.pipelines.pipeline import KEPT, Pipeline
from simulator.schedules.timeline import Timeline
from simulator.steps.group_meetings import topological_order
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, TRANSFER, WEIGHTS
from simulator.steps.step_graph import StepGraph, priced, step_graph, waits_of
from topologies.columns import sums
from topologies.errors import InputError
from topologies.shapes import line
from topologies.topology import Floats, Ints, Longs


class StageTimes(NamedTuple):
    """What the actions of a pipeline take. Each is a number of seconds, or one for each stage."""

    forward: float | Floats = 1.0
    """T_F: a forward."""
    inputs: float | Floats = 1.0
    """T_B: a backward for the inputs."""
    weights: float | Floats = 1.0
    """T_W: a backward for the weights. A whole backward takes T_B + T_W."""
    transfer: float = 0.0
    """T_comm: a result to the device of the next stage."""
    blocking: bool = False
    """Whether a device computes nothing while it sends."""


@dataclass(frozen=True, eq=False)
class PipelineTimes:
    """When the actions of a pipeline run."""

    pipeline: Pipeline
    timeline: Timeline
    """The timeline of its schedule, which has a rank for each device."""
    operations: Ints

    @property
    def start(self) -> Floats:
        """When each action begins."""
        return np.asarray(self.timeline.start[self.operations])

    @property
    def finish(self) -> Floats:
        """When each action ends."""
        return np.asarray(self.timeline.finish[self.operations])

    @property
    def step(self) -> float:
        """Seconds from the first action to the end of the last."""
        return float(self.finish.max())

    @cached_property
    def computing(self) -> Floats:
        """Seconds that each device computes."""
        seconds = self.timeline.schedule.seconds[self.operations]
        devices = self.pipeline.devices
        return sums(self.pipeline.device, seconds, devices)

    @property
    def idle(self) -> Floats:
        """Seconds of the step in which each device computes nothing."""
        first, last = self.pipeline.starts[:-1], self.pipeline.starts[1:] - 1
        return np.asarray(self.start[first] + self.idle_within + (self.step - self.finish[last]))

    @cached_property
    def idle_within(self) -> Floats:
        """Seconds between the first and the last action of each device in which it computes
        nothing. This is the bubble of steps without a barrier at the optimizer."""
        gaps = np.append(0.0, self.start[1:] - self.finish[:-1])
        gaps[self.pipeline.starts[:-1]] = 0.0
        devices = self.pipeline.devices
        return sums(self.pipeline.device, gaps, devices)


def item_waits(pipeline: Pipeline, *, blocking: bool = False, synchronous: bool = False) -> Ints:
    """The items that each item waits for, shape (items, 5); -1 is none.

    An action waits for the action before on its device and for what arrives, and if transfers are
    blocking or the device is synchronous for the transfers of the action before. The second action
    of a pair waits for what the first one waits for. A transfer waits for its sender, and if it is
    blocking for what the receiver does before.
    """
    count, before, (sender, receiver, slot) = len(pipeline), pipeline.before, pipeline.transfers[:3]
    sends = np.arange(count, count + len(sender))
    waits = np.full((count + len(sends), 5), -1, dtype=np.int32)
    waits[:count, 0] = before
    waits[receiver, 1 + slot] = sends
    if blocking or synchronous:
        sent, later = np.full((count + 1, 2), -1, dtype=np.int32), np.ones(len(sends), np.int32)
        later[np.unique(sender, return_index=True)[1]] = 0
        sent[sender, later] = sends
        waits[:count, 3:] = sent[before]
    waits[pipeline.second] = waits[pipeline.second - 1]
    waits[count:, 0] = sender
    if blocking:
        waits[count:, 1] = before[receiver]
    return waits


def item_order(pipeline: Pipeline, waits: Ints | None = None) -> Longs:
    """The items, each behind those that it waits for: without transfers that block, or with these
    `waits`. Raises InputError if devices wait for each other without end."""
    count, sender = len(pipeline), pipeline.transfers[0]
    turn = np.empty(count, dtype=np.int64)
    turn[pipeline.order] = np.arange(count)
    place = np.append(2 * turn, 2 * turn[sender] + 1)
    if waits is None:
        return np.argsort(place, kind="stable")
    later, column = np.nonzero(waits >= 0)
    order = topological_order(np.stack((waits[later, column], later)), place, np.arange(len(place)))
    if len(order) < len(place):
        stuck = int(np.setdiff1d(np.arange(len(place)), order)[0])
        row = stuck if stuck < count else int(sender[stuck - count])
        raise InputError(
            f"pipeline {pipeline.name}: with blocking transfers devices wait for each other, as "
            f"device {pipeline.device[row]} at {pipeline.text(row)}: leave blocking out"
        )
    return order


def of_stages(pipeline: Pipeline, times: StageTimes) -> StageTimes:
    """The times of each stage, from those of a device's whole share of the model."""
    share = pipeline.devices / pipeline.stages
    forward, inputs, weights = (
        float(np.multiply(part, share)) for part in (times.forward, times.inputs, times.weights)
    )
    return StageTimes(forward, inputs, weights, times.transfer, times.blocking)


def pipeline_times(pipeline: Pipeline, times: StageTimes, engine: Engine = "auto") -> PipelineTimes:
    """Simulate a pipeline. Raises InputError if a time is not 0 or more."""
    graph, tasks = pipeline_graph(pipeline, times)
    machine = line(max(2, pipeline.devices), bandwidth=1.0)
    return PipelineTimes(pipeline, simulate(priced(graph), machine, engine), tasks)


def pipeline_graph(pipeline: Pipeline, times: StageTimes) -> tuple[StepGraph, Ints]:
    """A pipeline as a graph with a place for each device, and the task of each action.

    A transfer is a task on a lane of the sender: lane 1 to later devices, lane 2 to earlier ones,
    and lane 0, where the device computes, if it blocks. Transfers that take no time are left out.
    """
    rows, device, (sender, receiver) = len(pipeline), pipeline.device, pipeline.transfers[:2]
    takes_time, count, order = times.transfer > 0, len(sender), item_order(pipeline)
    order = order if takes_time else order[order < rows]
    # The task of each item. A transfer that takes no time stands for its sender, the last is none.
    task = np.full(rows + count + 1, -1, dtype=np.int32)
    task[order] = np.arange(len(order))
    if not takes_time:
        task[rows:-1] = task[sender]
    back = 0 if times.blocking else np.where(device[receiver] > device[sender], 1, 2)
    columns = {
        "place": np.append(device, device[sender])[order],
        "lane": np.append(np.zeros_like(device), np.broadcast_to(back, count))[order],
        "kind": np.append(pipeline.kind, np.full(count, TRANSFER))[order],
        "seconds": np.append(_seconds(pipeline, times), np.full(count, times.transfer))[order],
    }
    waits = np.append(task[item_waits(pipeline)[order]], np.full((len(order), 1), -1), axis=1)
    # What computes, and blocks, follows the task before it on the same device.
    main = np.flatnonzero(columns["lane"] == 0)
    main = main[np.argsort(columns["place"][main], kind="stable")]
    follows = np.flatnonzero(np.diff(columns["place"][main]) == 0)
    waits[main[follows + 1], -1] = main[follows]
    graph = step_graph(
        np.arange(pipeline.devices), ("compute", "send", "send back"), columns, waits_of([waits])
    )
    return graph, task[:rows]


def peak_activations(pipeline: Pipeline, kept: float = 1.0, kept_for_weights: float = 0.0) -> Ints:
    """What each device holds when it holds most, of shape (devices, 2): chunks of activations kept
    for the backward (each of size `kept`), and chunks kept for that of the weights alone (each of
    size `kept_for_weights`).

    A chunk is what a stage keeps of a micro-batch. It is held from the start of its forward to the
    end of its backward, whole or for the inputs; the rest until the backward for the weights ends.
    """
    chunks = np.cumsum(KEPT[pipeline.kind], axis=0, dtype=np.int32)
    # Every device ends with nothing, so that the sums of the devices before are 0.
    return np.asarray(chunks[pipeline.fullest(chunks @ np.array([kept, kept_for_weights]))])


def _seconds(pipeline: Pipeline, times: StageTimes) -> Floats:
    table = np.zeros((4, pipeline.stages))
    for kind, name in ((FORWARD, "forward"), (INPUTS, "inputs"), (WEIGHTS, "weights")):
        value = np.asarray(getattr(times, name), dtype=np.float64)
        if value.shape not in ((), (pipeline.stages,)) or not np.all(
            (value >= 0) & np.isfinite(value)
        ):
            raise InputError(
                f"pipeline {pipeline.name}: the time {name} is not 0 or more, or not one for each "
                f"of {pipeline.stages} stages"
            )
        table[kind] = value
    if not 0 <= times.transfer < np.inf:
        raise InputError(
            f"pipeline {pipeline.name}: a transfer takes {times.transfer} s: 0 or more"
        )
    table[BACKWARD] = table[INPUTS] + table[WEIGHTS]
    return np.asarray(table[pipeline.kind, pipeline.stage])
