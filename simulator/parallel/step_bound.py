"""A lower bound of the time of a step, by closed forms: nothing is simulated but the collectives.

No device ends before all that it computes and all communication of its passes, one after the other.
It begins when the first micro-batch has come through the stages before. The last one still has to
go back through them. Then gradients are reduced and parameters updated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from simulator.parallel.blocks import Block
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import Pass
from simulator.parallel.shard_passes import UnitPass
from simulator.parallel.sharding import Sharding, gathers, reductions
from simulator.steps.kinds import BACKWARD, FORWARD
from simulator.steps.step_graph import Call


class PassSeconds(NamedTuple):
    """Seconds of the device for a block and a micro-batch, and of the CPU that launches. Backwards
    have what is computed again."""

    forward: float
    backward: float
    launch_forward: float
    launch_backward: float


Known = dict[int, tuple[Block, PassSeconds]]
"""What blocks take, by their identity."""


@dataclass(frozen=True)
class Outline:
    """A step as its bound sees it: stage s is on device s modulo the devices, and each device runs
    forwards and whole backwards."""

    stages: Sequence[Sequence[Block]]
    micro_batches: int
    times: GroupTimes
    """Its degrees are those of the plan."""
    sharding: Sharding
    in_turn: bool = False
    """Whether device d alternates forwards and backwards behind its first `devices` - 1 - d
    forwards, as in 1F1B: no more than `devices` - d micro-batches are on their way behind it."""
    known: Known = field(default_factory=dict, repr=False)
    """What blocks take, as far as it is known: outlines of the same degrees share it."""

    @property
    def devices(self) -> int:
        """Devices of the pipeline."""
        return self.times.degrees.pp

    def seconds(self, block: Block) -> PassSeconds:
        """What a block takes."""
        if id(block) not in self.known:
            passes = (Pass((block,), kind, self.times).written() for kind in (FORWARD, BACKWARD))
            forward, backward = passes
            made = forward.seconds, backward.seconds, forward.launch, backward.launch
            self.known[id(block)] = block, PassSeconds(*made)
        return self.known[id(block)][1]


def bound(outline: Outline) -> float:
    """Seconds that the step does not go below."""
    passes = [_pass(outline, stage) for stage in outline.stages]
    reduced = []
    for device, end in enumerate(_ends(outline, passes)):
        launching = _launching(outline, passes[device :: outline.devices])
        reducing = _reducing(outline, outline.stages[device :: outline.devices])
        reduced.append(max(end + reducing, launching))
    last = outline.devices - 1
    if outline.sharding.tied and last:
        nbytes = outline.sharding.tied
        tied = outline.times.seconds(f"0 to {last}", "all_reduce", nbytes)
        reduced[0] = reduced[last] = max(reduced[0], reduced[last]) + tied
    total = [end + _updating(outline, device) for device, end in enumerate(reduced)]
    # Sums in another order differ in their last digits.
    return max(total) * (1 - 1e-9)


def _pass(outline: Outline, stage: Sequence[Block]) -> PassSeconds:
    """What a stage takes for a micro-batch. From stage 2 of ZeRO on, a pass also takes as long as
    the collectives of its units, one after the other."""
    zero = PassSeconds(0, 0, 0, 0)
    seconds = PassSeconds(*map(sum, zip(zero, *map(outline.seconds, stage), strict=True)))
    if outline.sharding.zero < 2:
        return seconds

    def least(kind: int, collective: str) -> float:
        shared = UnitPass(stage, kind, outline.times, sharding=outline.sharding, last=False)
        return sum(outline.times.least(*c[:3]) for c in shared.calls if c.collective == collective)

    backward = least(BACKWARD, "all_gather"), least(BACKWARD, "reduce_scatter")
    return seconds._replace(
        forward=max(seconds.forward, least(FORWARD, "all_gather")),
        backward=max(seconds.backward, *backward),
    )


def _ends(outline: Outline, passes: Sequence[PassSeconds]) -> list[float]:
    """When each device ends its last backward, at the earliest."""
    devices, count = outline.devices, outline.micro_batches
    sizes = [stage[-1].output if stage else 0.0 for stage in outline.stages[: devices - 1]]
    transfer = outline.times.transfer
    outward = [*(transfer(d, d + 1, nbytes) for d, nbytes in enumerate(sizes)), 0.0]
    back = [*(transfer(d + 1, d, nbytes) for d, nbytes in enumerate(sizes)), 0.0]
    begin, around, ends = 0.0, 0.0, [0.0] * devices
    rounds = [0.0] * devices
    for device in reversed(range(devices)):
        around += passes[device].forward + passes[device].backward
        around += outward[device] + back[device]
        rounds[device] = around
    for device in range(devices):
        mine = passes[device::devices]
        busy = count * sum(each.forward + each.backward for each in mine)
        if outline.in_turn and len(mine) == 1:
            flying = min(devices - device, count)
            whole = -(-count // flying)
            left = count - 1 - (whole - 1) * flying
            busy = max(busy, whole * rounds[device] + left * mine[0].backward)
        ends[device] = begin + busy
        begin += passes[device].forward + outward[device]
    for device in reversed(range(devices - 1)):
        through = ends[device + 1] + back[device] + passes[device].backward
        ends[device] = max(ends[device], through)
    return ends


def _launching(outline: Outline, passes: Sequence[PassSeconds]) -> float:
    """Seconds of the CPU. It may run ahead during passes that are written in full: the last
    backward if gradients overlap, and backwards of stage 2 of ZeRO."""
    count, zero = outline.micro_batches, outline.sharding.zero
    ahead = count - 1 if outline.sharding.overlap and zero < 2 else count
    count *= zero != 2
    return sum(count * each.launch_forward + ahead * each.launch_backward for each in passes)


def _reducing(outline: Outline, stages: Sequence[Sequence[Block]]) -> float:
    """Seconds from a device's last backward to the end of its last reduction of gradients. What
    overlaps counts from the begin of the last backward, which is that of some stage."""
    if outline.sharding.overlap:
        return min(_behind(outline, stage) for stage in stages)
    reduced = [row for stage in stages for row in reductions(stage, outline.sharding)]
    return _longest(outline, [call for _, call in reduced])


def _behind(outline: Outline, stage: Sequence[Block]) -> float:
    """Seconds from the last backward of a stage to the end of its reductions: from each one on,
    reductions of a group come one after the other."""
    made = [outline.seconds(block).backward for block in reversed(stage)]
    behind, queued = 0.0, defaultdict[str, float](float)
    for block, call in reversed(reductions(stage, outline.sharding)):
        queued[call.group] += outline.times.least(*call[:3])
        behind = max(behind, queued[call.group] - sum(made[block + 1 :]))
    return behind


def _updating(outline: Outline, device: int) -> float:
    """Seconds of the optimizer of a device, and of what gathers its parameters."""
    sharding, total, calls = outline.sharding, 0.0, list[Call]()
    for number in range(device, len(outline.stages), outline.devices):
        total += sharding.seconds_of(number)
        calls += gathers(outline.stages[number], sharding)
    return total + _longest(outline, calls)


def _longest(outline: Outline, collectives: Sequence[Call]) -> float:
    """Seconds of collectives, where those of each group come one after the other."""
    queued = defaultdict[str, float](float)
    for call in collectives:
        queued[call.group] += outline.times.least(*call[:3])
    return max(queued.values(), default=0.0)
