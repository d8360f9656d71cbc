"""What a training step of a plan does."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.parallel.blocks import Block
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import Pass
from simulator.parallel.pipelines.pipeline import Pipeline
from simulator.parallel.shard_passes import BucketPass, UnitPass
from simulator.parallel.sharding import Sharding, buckets
from simulator.steps.kinds import BACKWARD, WEIGHTS
from topologies.errors import InputError


@dataclass(frozen=True, eq=False)
class Work:
    """What a step does."""

    stages: tuple[tuple[Block, ...], ...]
    pipeline: Pipeline
    times: GroupTimes
    """How long collectives take. Its degrees are those of the plan."""
    sharding: Sharding = field(default_factory=Sharding)
    """How gradients are reduced, and parameters updated and shared out."""
    blocking: bool = False
    """Whether both ends of a transfer between stages wait until it has ended."""
    synchronous: bool = False
    """Whether an action begins, and the CPU launches it, when the one before and its transfers have
    ended, as in Megatron-LM, which synchronizes with the device behind transfers."""
    slowdown: float = 0.0
    """By which share a computation takes longer while its device communicates: kernels of
    collectives take multiprocessors and memory bandwidth. It counts for operations of a step that
    run beside each other, not within a pass that is a single operation."""

    def __post_init__(self) -> None:
        degrees, zero = self.times.degrees, self.sharding.zero
        pipeline, devices = self.pipeline, degrees.pp
        if len(self.stages) != pipeline.stages:
            raise InputError(
                f"{len(self.stages)} stages of blocks: pipeline {pipeline.name} has "
                f"{pipeline.stages}"
            )
        if pipeline.devices != devices:
            raise InputError(
                f"pipeline {pipeline.name} has {pipeline.devices} devices: pp is {devices}"
            )
        if zero >= 2 and pipeline.copies > 1:
            raise InputError(
                f"pipeline {pipeline.name} has two copies of each stage: take zero=1, not {zero}"
            )
        if zero < 2 and self.sharding.shard:
            raise InputError(f"shard={self.sharding.shard}: take zero=2 or zero=3, not {zero}")
        if self.sharding.rules and (degrees.ep > 1 or degrees.size("data") == 1):
            raise InputError(
                "DDP reduces gradients in one group of two or more ranks: take dp=2 or more and "
                "ep=1, or ddp=no"
            )
        if not 0 <= self.slowdown < 100:
            raise InputError(f"slowdown is {self.slowdown}: a share from 0 on, like 0.1")
        for group in self.groups:
            self.sharding.check(group, degrees.size(group))

    @property
    def groups(self) -> tuple[str, ...]:
        """The kinds of groups whose ranks hold the same parameters."""
        experts = any(block.expert_parameters for stage in self.stages for block in stage)
        return ("data", "experts") if experts else ("data",)

    def action(self, stage: int, kind: int, *, last: bool = True) -> Pass:
        """The pass of a stage, without its rows. `last` is whether it is the last of its stage."""
        blocks, sharding = self.stages[stage], self.sharding
        shared = max(self.times.degrees.size(group) for group in self.groups) > 1
        if sharding.rules and last and kind in (BACKWARD, WEIGHTS):
            full = buckets(blocks, sharding)
            return BucketPass(blocks, kind, self.times, buckets=full, rules=sharding.rules)
        if sharding.zero < 2 or not shared:
            return Pass(blocks, kind, self.times)
        return UnitPass(blocks, kind, self.times, sharding=sharding, last=last)
