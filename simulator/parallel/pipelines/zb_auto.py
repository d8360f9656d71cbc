"""ZB-1p and ZB-2p: an order that is searched for, from the times of the three parts and a limit of
memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf

from simulator.parallel.pipelines.pipeline import Pipeline, assemble, check_sizes
from simulator.parallel.pipelines.pipeline_order import PipelineOrder
from simulator.steps.kinds import FORWARD, INPUTS, WEIGHTS
from topologies.errors import InputError

MOST = 2**16
"""Devices times micro-batches, at most: a search takes seconds."""
PATIENCE = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Gaps, as shares of T_W, from which on a device fills a gap with a backward for weights."""


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
    seconds = forward, inputs + weights, inputs, weights
    searches = [
        _Search(
            [_Device(stage, memory * (devices - stage)) for stage in range(devices)],
            seconds,
            transfer,
            memory * devices + 1e-9,
            kept / 100,
            patience * weights,
        )
        for patience in PATIENCE
    ]
    best = min(searches, key=lambda search: search.span(micro_batches))
    name = "zb_auto" if memory == 1 else f"zb_auto:memory={memory}"
    return assemble(name, [range(devices)], micro_batches, best.rows)


@dataclass
class _Device:
    """A device, and what has come to it."""

    stage: int
    most: float
    """Micro-batches that are behind its forward and have not come back, at most."""
    arrivals: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    """When what an action of each kind needs comes, for each micro-batch of which that is known."""
    done: Counter[int] = field(default_factory=Counter)
    """Actions of each kind so far."""
    start: float = inf
    free: float = 0.0
    held: float = 0.0
    last: int = INPUTS
    """The kind of its last action, but for the weights."""

    def arrival(self, kind: int) -> float:
        """When the next action of a kind has what it needs; inf if that is not known."""
        arrivals, number = self.arrivals[kind], self.done[kind]
        return arrivals[number] if number < len(arrivals) else inf


@dataclass
class _Search:
    """A greedy order: events in order of their times."""

    devices: list[_Device]
    seconds: tuple[float, float, float, float]
    """What an action takes, by its kind."""
    transfer: float
    memory: float
    """What a device holds at most, in activations of a micro-batch."""
    kept: float
    """What is kept for the weights, as a share of what is kept for a whole backward."""
    gap: float
    """From which length on a gap is filled with a backward for weights."""
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Kind, stage, micro-batch and turn of the actions so far."""
    _events: list[tuple[float, int, int]] = field(default_factory=list)
    """Time, number and device of what comes."""
    _numbers: Iterator[int] = field(default_factory=count)

    def span(self, micro_batches: int) -> float:
        """Run all actions. Returns the time between the first and the last action of a device."""
        self.devices[0].arrivals[FORWARD] = [0.0] * micro_batches
        for device in self.devices:
            self._wake(device, 0.0)
        while self._events:
            time, _, stage = heappop(self._events)
            if time >= self.devices[stage].free:
                self._decide(self.devices[stage], time)
        return max(device.free - device.start for device in self.devices)

    def _decide(self, device: _Device, time: float) -> None:
        """Run the action that is best at this time, or wait for what comes next."""
        waiting = device.done[FORWARD] - device.done[INPUTS]
        room = device.held + 1 <= self.memory and waiting < device.most
        forward = device.arrival(FORWARD) if room else inf
        backward = device.arrival(INPUTS)
        following = min(forward, backward)
        full = device.arrival(FORWARD) <= time and not room
        if following <= time:
            first = forward <= time and (backward > time or device.last == INPUTS)
            self._run(device, FORWARD if first else INPUTS, time)
        elif device.arrival(WEIGHTS) <= time and (full or following - time >= self.gap):
            self._run(device, WEIGHTS, time)
        elif following < inf:
            self._wake(device, following)

    def _run(self, device: _Device, kind: int, time: float) -> None:
        stage, end = device.stage, time + self.seconds[kind]
        self.rows.append((kind, stage, device.done[kind], len(self.rows)))
        device.last = device.last if kind == WEIGHTS else kind
        device.done[kind] += 1
        device.held += (1.0, 0.0, self.kept - 1.0, -self.kept)[kind]
        device.start, device.free = min(device.start, time), end
        if kind == FORWARD and stage == len(self.devices) - 1:
            self._arrive(device, INPUTS, end)
        elif kind == FORWARD:
            self._arrive(self.devices[stage + 1], FORWARD, end + self.transfer)
        elif kind == INPUTS and stage:
            self._arrive(self.devices[stage - 1], INPUTS, end + self.transfer)
        if kind == INPUTS:
            self._arrive(device, WEIGHTS, end)
        self._wake(device, end)

    def _arrive(self, device: _Device, kind: int, time: float) -> None:
        """What the next action of a kind needs comes."""
        device.arrivals[kind].append(time)
        self._wake(device, max(time, device.free))

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
