"""ZB-1p and ZB-2p: an order that is searched for, from the times of the three parts and a limit of
memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf

from simulator.parallel.pipelines.pipeline import Pipeline, PipelineOrder, assemble, check_sizes
from simulator.steps.kinds import FORWARD, INPUTS, WEIGHTS
from topologies.errors import InputError


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
    # A search takes seconds.
    if devices * micro_batches > (most := 2**16):
        raise InputError(
            f"pipeline zb_auto: {devices} devices x {micro_batches} micro-batches are too many to "
            f"search: at most {most}"
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
    searches = []
    # Gaps, as shares of T_W, from which on a device fills a gap with a backward for weights.
    for patience in (0.0, 0.25, 0.5, 0.75, 1.0):
        line = [
            _Device(stage, memory * devices + 1e-9, memory * (devices - stage), patience * weights)
            for stage in range(devices)
        ]
        line[0].arrivals[FORWARD] = [0.0] * micro_batches
        rows = _search(line, seconds, transfer, kept / 100)
        searches.append((max(device.free - device.start for device in line), rows))
    name = "zb_auto" if memory == 1 else f"zb_auto:memory={memory}"
    best = min(searches, key=lambda search: search[0])[1]
    return assemble(name, [range(devices)], micro_batches, best)


@dataclass
class _Device:
    """A device, and what has come to it."""

    stage: int
    memory: float
    """What it holds at most, in activations of a micro-batch."""
    most: float
    """Micro-batches that are behind its forward and have not come back, at most."""
    gap: float
    """From which length on it fills a gap with a backward for weights."""
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

    def choose(self, time: float) -> tuple[int | None, float]:
        """The kind of the action that is best at this time; None to wait until the second value."""
        waiting = self.done[FORWARD] - self.done[INPUTS]
        room = self.held + 1 <= self.memory and waiting < self.most
        forward, backward = self.arrival(FORWARD) if room else inf, self.arrival(INPUTS)
        following = min(forward, backward)
        if following <= time:
            first = forward <= time and (backward > time or self.last == INPUTS)
            return FORWARD if first else INPUTS, time
        full = self.arrival(FORWARD) <= time and not room
        fills = self.arrival(WEIGHTS) <= time and (full or following - time >= self.gap)
        return WEIGHTS if fills else None, following


def _search(
    devices: Sequence[_Device],
    seconds: tuple[float, float, float, float],
    transfer: float,
    kept: float,
) -> list[tuple[int, int, int, int]]:
    """Kind, stage, micro-batch and turn of the actions of a greedy order: events in order of their
    times. An action takes `seconds` by its kind. The share `kept` stays for the weights."""
    rows, numbers = list[tuple[int, int, int, int]](), count(len(devices))
    events = [(0.0, device.stage, device.stage) for device in devices]

    def wake(stage: int, time: float, kind: int | None = None) -> None:
        """An event of a device. With a kind, the next action of that kind has what it needs."""
        if kind is not None:
            devices[stage].arrivals[kind].append(time)
            time = max(time, devices[stage].free)
        heappush(events, (time, next(numbers), stage))

    while events:
        time, _, stage = heappop(events)
        device = devices[stage]
        if time < device.free:
            continue
        kind, following = device.choose(time)
        if kind is None:
            if following < inf:
                wake(stage, following)
            continue
        rows.append((kind, stage, device.done[kind], len(rows)))
        device.last = device.last if kind == WEIGHTS else kind
        device.done[kind] += 1
        device.held += (1.0, 0.0, kept - 1.0, -kept)[kind]
        device.start, device.free = min(device.start, time), time + seconds[kind]
        if kind == FORWARD and stage == len(devices) - 1:
            wake(stage, device.free, INPUTS)
        elif kind == FORWARD:
            wake(stage + 1, device.free + transfer, FORWARD)
        elif kind == INPUTS and stage:
            wake(stage - 1, device.free + transfer, INPUTS)
        if kind == INPUTS:
            wake(stage, device.free, WEIGHTS)
        wake(stage, device.free)
    return rows


ORDERS = (
    PipelineOrder(
        "zb_auto",
        zb_auto,
        "searched for these times and this memory",
        {"memory": 1, "forward": 1, "inputs": 1, "weights": 1, "transfer": 0, "kept": 50},
    ),
)
