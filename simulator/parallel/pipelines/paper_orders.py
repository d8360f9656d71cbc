"""The orders of published pipelines: GPipe, 1F1B, interleaved 1F1B, Zero Bubble and DualPipe."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf

import numpy as np

from simulator.parallel.pipelines.pipeline import (
    LETTERS,
    Pipeline,
    PipelineOrder,
    assemble,
    check_sizes,
)
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, WEIGHTS
from topologies.errors import InputError
from topologies.topology import Longs


def gpipe(devices: int, micro_batches: int) -> Pipeline:
    """All forwards, then all backwards (Huang et al., 2019)."""
    return _one_stage_each("gpipe", devices, micro_batches, 0, micro_batches)


def one_f_one_b(devices: int, micro_batches: int) -> Pipeline:
    """A forward, then a backward, in turn (Narayanan et al., 2021). Device d first runs
    devices - 1 - d forwards."""
    return _one_stage_each("1f1b", devices, micro_batches, 1)


def interleaved(devices: int, micro_batches: int, chunks: int = 2) -> Pipeline:
    """1F1B with `chunks` stages on each device, in Megatron's order (Narayanan et al., 2021).

    Micro-batches go in groups of as many as devices through chunk after chunk. Device d first runs
    2 (devices - 1 - d) + (chunks - 1) devices forwards.
    """
    check_sizes("interleaved", devices, micro_batches, chunks)
    if micro_batches % devices:
        raise InputError(
            f"pipeline interleaved: {micro_batches} micro-batches on {devices} devices: take a "
            f"multiple of {devices}"
        )
    device, number = np.arange(devices)[:, None], np.arange(micro_batches * chunks)
    group, within = np.divmod(number, devices * chunks)
    chunk, place = np.divmod(within, devices)
    micro = group * devices + place
    warm = 2 * (devices - 1 - device) + (chunks - 1) * devices
    last = chunks - 1
    stage, back = chunk * devices + device, (last - chunk) * devices + device
    actions = [
        (FORWARD, stage, micro, 2 * number),
        (BACKWARD, back, micro, 2 * (number + warm) + 1),
    ]
    stages = np.arange(devices * chunks) % devices
    name = "interleaved" if chunks == 2 else f"interleaved:chunks={chunks}"
    return assemble(name, [stages.tolist()], micro_batches, _table(actions))


def zb_h1(devices: int, micro_batches: int) -> Pipeline:
    """1F1B in two parts: device d runs the backward for weights d micro-batches late, and so holds
    no more than in 1F1B (Qi et al., 2023)."""
    return _one_stage_each("zb_h1", devices, micro_batches, 1, split=True)


def zb_h2(devices: int, micro_batches: int) -> Pipeline:
    """As :func:`zb_h1`, with twice as many forwards first, and twice the delay: no idle time
    between the first and the last action of a device if all three parts take equally long."""
    return _one_stage_each("zb_h2", devices, micro_batches, 2, split=True)


def _one_stage_each(
    name: str, devices: int, micro_batches: int, ahead: int, first: int = 0, *, split: bool = False
) -> Pipeline:
    """A pipeline of one stage a device. Forwards, backwards and backwards for weights take turns.
    A device runs `first` forwards before the first backward, and `ahead` more for each device
    behind it."""
    check_sizes(name, devices, micro_batches)
    stage, micro = np.arange(devices)[:, None], np.arange(micro_batches)
    backward = micro + first + ahead * (devices - 1 - stage)
    actions = [
        (FORWARD, stage, micro, 3 * micro),
        (INPUTS if split else BACKWARD, stage, micro, 3 * backward + 1),
        (WEIGHTS, stage, micro, 3 * (backward + ahead * stage) + 2),
    ]
    return assemble(name, [range(devices)], micro_batches, _table(actions[: 2 + split]))


def _table(actions: Sequence[tuple[int, Longs, Longs, Longs]]) -> Longs:
    """Kind, stage, micro-batch and turn of actions of each kind, which broadcast to one shape, a
    row an action."""
    tables = [np.stack(np.broadcast_arrays(*columns), axis=-1) for columns in actions]
    return np.concatenate([table.reshape(-1, 4) for table in tables])


def zb_v(devices: int, micro_batches: int) -> Pipeline:
    """Device d has stages d and 2 devices - 1 - d, and no device is idle between its first and last
    action if all three parts take equally long (Qi et al., 2024).

    Fewer than 2 devices - 1 micro-batches run as the first ones of so many.
    """
    check_sizes("zb_v", devices, micro_batches, 2)
    place = [min(stage, 2 * devices - 1 - stage) for stage in range(2 * devices)]
    count, rows = max(micro_batches, 2 * devices - 1), []
    check_sizes("zb_v", devices, count, 2)
    for device in range(devices):
        left = devices - device
        text = "F" * (2 * left - 1) + "fF" * device + "fiw" * left
        text += "FIWfiw" * (count - devices - left + 1) + "IWfiw" * (left - 1)
        text += "Ii" * device + "IW" * left + "w" * device
        rows += _rows(text, device, 2 * devices - 1 - device)
    return assemble("zb_v", [place], micro_batches, rows)


def dual_pipe(devices: int, micro_batches: int) -> Pipeline:
    """Half of the micro-batches enter at device 0, the others at the last device. A forward of a
    copy runs together with a backward of the other copy (DeepSeek-AI, 2024)."""
    check_sizes("dual_pipe", devices, micro_batches)
    if devices % 2:
        raise InputError(f"pipeline dual_pipe: {devices} devices: take an even number")
    if micro_batches % 2 or micro_batches < 2 * devices:
        raise InputError(
            f"pipeline dual_pipe: {micro_batches} micro-batches on {devices} devices: take an even "
            f"number, {2 * devices} or more"
        )
    half, rows = micro_batches // 2, []
    for device in range(devices):
        near = min(device, devices - 1 - device)
        inner = devices // 2 - 1 - near
        text = "F" * (2 * inner) + "Ff" * (near + 1) + "i*f" * inner
        text += "(Fb)(fB)" * (half - devices + near + 1) + "b(fB)" * inner
        # The second half of the last backwards runs in two parts, which fills the end of the step.
        last = range(2 * (near + 1))
        text += "".join("bBiI"[number % 2 + 2 * (number > near)] for number in last)
        text += "*I" * inner
        for kind, stage, micro, turn in _rows(text, near, devices - 1 - near):
            # Copy 0 has stage d on device d. The second half of the micro-batches goes
            # through copy 1.
            rows.append((kind, stage, micro + half * (stage != device), turn))
    ends = list(range(devices))
    return assemble("dual_pipe", [ends, ends[::-1]], micro_batches, rows)


def _rows(text: str, upper: int, lower: int) -> list[tuple[int, int, int, int]]:
    """Kind, stage, micro-batch and turn of the actions of a device, from a letter for each: those
    of stage `upper` in capitals. Each stage takes its micro-batches one after the other.

    "*" is the backward for weights that waits for the longest time, and those that still wait come
    last. Two actions in brackets run together.
    """
    rows, waiting = list[tuple[int, int, int, int]](), list[tuple[int, int]]()
    counts: Counter[tuple[bool, int]] = Counter()
    for actions in re.findall(r"\(..\)|.", text):
        turn = len(rows)
        for letter in actions.strip("()"):
            stage = upper if letter.isupper() else lower
            if letter in "Ww*":
                stage, micro = next(row for row in waiting if letter == "*" or row[0] == stage)
                waiting.remove((stage, micro))
                rows.append((WEIGHTS, stage, micro, turn))
                continue
            kind = LETTERS.index(letter.upper())
            micro = counts[kind == FORWARD, stage]
            counts[kind == FORWARD, stage] += 1
            waiting += [(stage, micro)] if kind == INPUTS else []
            rows.append((kind, stage, micro, turn))
    last = len(rows)
    return rows + [(WEIGHTS, *row, last + number) for number, row in enumerate(waiting)]


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
    activations: float = 0.0
    """Those in its memory, of a micro-batch each."""
    last: int = INPUTS
    """The kind of its last action, but for the weights."""

    def arrival(self, kind: int) -> float:
        """When the next action of a kind has what it needs; inf if that is not known."""
        arrivals, number = self.arrivals[kind], self.done[kind]
        return arrivals[number] if number < len(arrivals) else inf

    def choose(self, time: float) -> tuple[int | None, float]:
        """The kind of the action that is best at this time; None to wait until the second value."""
        waiting = self.done[FORWARD] - self.done[INPUTS]
        room = self.activations + 1 <= self.memory and waiting < self.most
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
        device.activations += (1.0, 0.0, kept - 1.0, -kept)[kind]
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
    PipelineOrder("gpipe", gpipe, "all forwards, then all backwards"),
    PipelineOrder("1f1b", one_f_one_b, "forwards and backwards in turn"),
    PipelineOrder("interleaved", interleaved, "1F1B with several chunks a device", {"chunks": 2}),
    PipelineOrder("zb_h1", zb_h1, "1F1B with late backwards for weights, in the same memory"),
    PipelineOrder("zb_h2", zb_h2, "the same with twice the memory"),
    PipelineOrder("zb_v", zb_v, "two stages a device in a V, without idle time"),
    PipelineOrder("dual_pipe", dual_pipe, "two copies of the model, entered from both ends"),
    PipelineOrder(
        "zb_auto",
        zb_auto,
        "searched for these times and this memory",
        {"memory": 1, "forward": 1, "inputs": 1, "weights": 1, "transfer": 0, "kept": 50},
    ),
)
