"""ZB-1p and ZB-2p: an order that is searched for, from the times of the three parts and a limit of
memory."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import NamedTuple

from simulator.parallel.pipelines.device_actions import DeviceActions, join
from simulator.parallel.pipelines.pipeline import Pipeline, check_sizes
from simulator.parallel.pipelines.pipeline_order import PipelineOrder
from simulator.steps.kinds import FORWARD, INPUTS, WEIGHTS
from topologies.errors import InputError

MOST = 2**16
"""Devices times micro-batches, at most: a search takes seconds."""
PATIENCE = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Gaps, as shares of T_W, from which on a device fills a gap with a backward for weights."""


class Costs(NamedTuple):
    """What the search knows."""

    seconds: tuple[float, float, float, float]
    """What an action takes, by its kind."""
    transfer: float
    """What a transfer takes."""
    memory: int
    """The limit of memory, as a multiple of what 1F1B needs on the first device."""
    kept: float
    """What is kept for the weights, as a share of what is kept for a whole backward."""


def zb_auto(
    devices: int,
    micro_batches: int,
    memory: int = 1,
    forward: float = 1,
    inputs: float = 1,
    weights: float = 1,
    transfer: float = 0,
    kept: float = 50,
) -> Pipeline:
    """The best of a few greedy orders, after the heuristic of Qi et al. (2023), section 3.1.

    A device runs forwards and backwards for inputs in turn, as they come and as memory allows. It
    fills gaps with backwards for weights. How short a gap may be is tried out. `memory` is a
    multiple of what 1F1B needs, `kept` a percentage. The times are in any unit.
    """
    check_sizes("zb_auto", devices, micro_batches)
    if devices * micro_batches > MOST:
        raise InputError(
            f"pipeline zb_auto: {devices} devices x {micro_batches} micro-batches are too many to "
            f"search: at most {MOST}"
        )
    times = {"forward": forward, "inputs": inputs, "weights": weights, "transfer": transfer}
    for name, value in times.items():
        if not 0 <= value < inf:
            raise InputError(f"pipeline zb_auto: {name} is {value}: 0 or more")
    if not (1 <= memory < inf and 0 <= kept <= 100):
        raise InputError(
            f"pipeline zb_auto: memory is {memory}, kept is {kept}: 1 or more, and at most 100"
        )
    costs = Costs((forward, inputs + weights, inputs, weights), transfer, memory, kept / 100)
    searches = [_Search(devices, micro_batches, costs, patience) for patience in PATIENCE]
    best = min(searches, key=lambda search: search.span)
    rows = [row for device in best.devices for row in device.actions.rows]
    name = "zb_auto" if memory == 1 else f"zb_auto:memory={memory}"
    return join(name, [range(devices)], micro_batches, rows)


class _Device:
    """A device, and what has come to it."""

    def __init__(self, stage: int, most: int) -> None:
        self.stage, self.most = stage, most
        self.actions = DeviceActions()
        self.arrivals: dict[int, list[float]] = {FORWARD: [], INPUTS: [], WEIGHTS: []}
        """When what is needed comes, for each micro-batch of which that is known."""
        self.done = {FORWARD: 0, INPUTS: 0, WEIGHTS: 0}
        self.start, self.free, self.held, self.last = inf, 0.0, 0.0, INPUTS

    def arrival(self, kind: int) -> float:
        """When the next action of a kind has what it needs; inf if that is not known."""
        arrivals, number = self.arrivals[kind], self.done[kind]
        return arrivals[number] if number < len(arrivals) else inf

    def has_room(self, memory: float) -> bool:
        """Whether another forward fits, and would come back in time."""
        waiting = self.done[FORWARD] - self.done[INPUTS]
        return self.held + 1 <= memory and waiting < self.most


class _Search:
    """A greedy order: events in order of their times."""

    def __init__(self, devices: int, micro_batches: int, costs: Costs, patience: float) -> None:
        self.costs, self.patience = costs, patience
        self.memory = costs.memory * devices + 1e-9
        self.devices = [
            _Device(stage, costs.memory * (devices - stage)) for stage in range(devices)
        ]
        self.devices[0].arrivals[FORWARD] = [0.0] * micro_batches
        self._numbers = count(devices)
        self._events = [(0.0, stage, stage) for stage in range(devices)]
        heapify(self._events)
        while self._events:
            time, _, stage = heappop(self._events)
            if time >= self.devices[stage].free:
                self._decide(self.devices[stage], time)
        self.span = max(device.free - device.start for device in self.devices)

    def _decide(self, device: _Device, time: float) -> None:
        """Run the action that is best at this time, or wait for what comes next."""
        room = device.has_room(self.memory)
        forward = device.arrival(FORWARD) if room else inf
        backward = device.arrival(INPUTS)
        following = min(forward, backward)
        if following <= time:
            if forward <= time and (backward > time or device.last == INPUTS):
                self._run(device, FORWARD, time)
            else:
                self._run(device, INPUTS, time)
            return
        full = device.arrival(FORWARD) <= time and not room
        gap = self.patience * self.costs.seconds[WEIGHTS]
        if device.arrival(WEIGHTS) <= time and (full or following - time >= gap):
            self._run(device, WEIGHTS, time)
        elif following < inf:
            self._wake(device, following)

    def _run(self, device: _Device, kind: int, time: float) -> None:
        if kind == WEIGHTS:
            device.actions.add_weights()
        else:
            device.actions.add(kind, device.stage)
            device.last = kind
        device.done[kind] += 1
        device.held += (1.0, 0.0, self.costs.kept - 1.0, -self.costs.kept)[kind]
        device.start = min(device.start, time)
        device.free = end = time + self.costs.seconds[kind]
        for receiver, needed, arrival in self._results(device, kind, end):
            receiver.arrivals[needed].append(arrival)
            self._wake(receiver, max(arrival, receiver.free))
        self._wake(device, end)

    def _results(
        self, device: _Device, kind: int, end: float
    ) -> Iterator[tuple[_Device, int, float]]:
        """The devices that need what has been computed, for which kind, and when it is there."""
        step = {FORWARD: 1, INPUTS: -1}.get(kind, 0)
        if kind == FORWARD and device is self.devices[-1]:
            yield device, INPUTS, end
        elif step and 0 <= device.stage + step < len(self.devices):
            yield self.devices[device.stage + step], kind, end + self.costs.transfer
        if kind == INPUTS:
            yield device, WEIGHTS, end

    def _wake(self, device: _Device, time: float) -> None:
        heappush(self._events, (time, next(self._numbers), device.stage))


ORDERS = (
    PipelineOrder(
        "zb_auto",
        zb_auto,
        "searched for these times and this memory",
        {"memory": 1, "forward": 1, "inputs": 1, "weights": 1, "transfer": 0, "kept": 50},
    ),
)
