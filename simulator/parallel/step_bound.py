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

from simulator.parallel.blocks import Block, each_stage
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import Pass
from simulator.parallel.sharding import Sharding, UnitPass, gathers, reductions
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
    sharding: Sharding
    in_turn: bool = False
    """Whether device d alternates forwards and backwards behind its first `devices` - 1 - d
    forwards, as in 1F1B: no more than `devices` - d micro-batches are on their way behind it."""
    known: Known = field(default_factory=dict, repr=False)
    """What blocks take, as far as it is known: outlines of the same degrees share it."""

    @property
    def bound(self) -> float:
        """Seconds that the step does not go below."""
        passes, reduced = each_stage(self._pass, self.stages), list[float]()
        devices, sharding = self.times.degrees.pp, self.sharding
        reducing = self._reducing(devices)
        for device, end in enumerate(self._ends(passes)):
            launching = self._launching(self.stages[device::devices], passes[device::devices])
            reduced.append(max(end + reducing[device], launching))
        if sharding.tied and devices > 1:
            tied = self.times.seconds(f"0 to {devices - 1}", "all_reduce", sharding.tied)
            reduced[0] = reduced[-1] = max(reduced[0], reduced[-1]) + tied
        gathered = each_stage(lambda stage: gathers(stage, sharding), self.stages)
        for device in range(devices):
            mine = range(device, len(self.stages), devices)
            calls = [call for calls in gathered[device::devices] for call in calls]
            reduced[device] += sum(map(sharding.seconds_of, mine)) + self._longest(calls)
        # Sums in another order differ in their last digits.
        return max(reduced) * (1 - 1e-9)

    def _launching(self, stages: Sequence[Sequence[Block]], passes: Sequence[PassSeconds]) -> float:
        """Seconds in which the CPU of a device launches the passes of its stages. It may launch
        passes that are written in full beside others, so the longer of both counts."""
        count, full, rest = self.micro_batches, 0.0, 0.0
        for stage, each in zip(stages, passes, strict=True):
            forwards, backwards = self._in_full(stage)
            full += forwards * each.launch_forward + backwards * each.launch_backward
            rest += (count - forwards) * each.launch_forward
            rest += (count - backwards) * each.launch_backward
        return max(full, rest)

    def _in_full(self, stage: Sequence[Block]) -> tuple[int, int]:
        """How many forwards and backwards of a stage are written in full: those with collectives of
        units, and the last backward if gradients overlap."""
        sharding, overlapping = self.sharding, int(self.sharding.overlap)
        if sharding.zero < 2:
            return 0, overlapping

        def calls(kind: int, *, last: bool = False) -> bool:
            return bool(UnitPass(stage, kind, self.times, sharding=sharding, last=last).calls)

        forwards = self.micro_batches * calls(FORWARD)
        if calls(BACKWARD):
            return forwards, self.micro_batches
        return forwards, max(overlapping, int(calls(BACKWARD, last=True)))

    def _seconds(self, block: Block) -> PassSeconds:
        if id(block) not in self.known:
            passes = (Pass((block,), kind, self.times).written() for kind in (FORWARD, BACKWARD))
            forward, backward = passes
            # What a block does not hide other blocks of its stage may.
            seconds = forward.seconds - forward.excess, backward.seconds - backward.excess
            self.known[id(block)] = block, PassSeconds(*seconds, forward.launch, backward.launch)
        return self.known[id(block)][1]

    def _pass(self, stage: Sequence[Block]) -> PassSeconds:
        """What a stage takes for a micro-batch. From stage 2 of ZeRO on, a pass also takes as long
        as the collectives of its units, one after the other."""
        zero, times = PassSeconds(0, 0, 0, 0), self.times
        seconds = PassSeconds(*map(sum, zip(zero, *map(self._seconds, stage), strict=True)))
        if self.sharding.zero < 2:
            return seconds

        def least(kind: int, collective: str) -> float:
            shared = UnitPass(stage, kind, times, sharding=self.sharding, last=False)
            return sum(times.least(*c[:3]) for c in shared.calls if c.collective == collective)

        backward = least(BACKWARD, "all_gather"), least(BACKWARD, "reduce_scatter")
        return seconds._replace(
            forward=max(seconds.forward, least(FORWARD, "all_gather")),
            backward=max(seconds.backward, *backward),
        )

    def _ends(self, passes: Sequence[PassSeconds]) -> list[float]:
        """When each device ends its last backward, at the earliest."""
        devices, count, transfer = self.times.degrees.pp, self.micro_batches, self.times.transfer
        sizes = [stage[-1].output if stage else 0.0 for stage in self.stages[: devices - 1]]
        outward = [*(transfer(d, d + 1, nbytes) for d, nbytes in enumerate(sizes)), 0.0]
        back = [*(transfer(d + 1, d, nbytes) for d, nbytes in enumerate(sizes)), 0.0]
        begin, around, ends, rounds = 0.0, 0.0, [0.0] * devices, [0.0] * devices
        for device in reversed(range(devices)):
            around += passes[device].forward + passes[device].backward
            around += outward[device] + back[device]
            rounds[device] = around
        for device in range(devices):
            mine = passes[device::devices]
            busy = count * sum(each.forward + each.backward for each in mine)
            if self.in_turn and len(mine) == 1:
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

    def _reducing(self, devices: int) -> list[float]:
        """Seconds from each device's last backward to the end of its last reduction of gradients.
        What overlaps counts from the begin of the last backward, which is that of some stage."""
        if self.sharding.overlap:
            behind = each_stage(self._behind, self.stages)
            return [min(behind[device::devices]) for device in range(devices)]
        rows = each_stage(lambda stage: reductions(stage, self.sharding), self.stages)
        return [
            self._longest([call for each in rows[device::devices] for _, call in each])
            for device in range(devices)
        ]

    def _behind(self, stage: Sequence[Block]) -> float:
        """Seconds of the reductions of a stage behind its last backward: from each reduction on,
        those of a group come one after the other."""
        made = [self._seconds(block).backward for block in reversed(stage)]
        behind, queued = 0.0, defaultdict[str, float](float)
        for block, call in reversed(reductions(stage, self.sharding)):
            queued[call.group] += self.times.least(*call[:3])
            behind = max(behind, queued[call.group] - sum(made[block + 1 :]))
        return behind

    def _longest(self, collectives: Sequence[Call]) -> float:
        """Seconds of collectives, where those of each group come one after the other."""
        queued = defaultdict[str, float](float)
        for call in collectives:
            queued[call.group] += self.times.least(*call[:3])
        return max(queued.values(), default=0.0)
