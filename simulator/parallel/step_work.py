"""What a training step of a plan does: the passes of its actions, and what follows the backwards:
gradients are reduced, and parameters updated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from simulator.parallel.blocks import Block, elements
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.passes import COMPUTE, HOST, STREAMS, TIED, Pass, PassTask, Rows
from simulator.parallel.pipelines.pipeline import Pipeline
from simulator.parallel.sharding import BucketPass, Sharding, UnitPass, buckets, gathers, reductions
from simulator.steps.kinds import (
    BACKWARD,
    COPY,
    FORWARD,
    GATHER,
    LAUNCH,
    OPTIMIZER,
    REDUCE,
    WEIGHTS,
)
from simulator.steps.step_graph import Call
from topologies.errors import InputError


@dataclass(eq=False, kw_only=True)
class GatherPass(Pass):
    """A first forward beside which parameters are gathered, bucket by bucket: a bucket begins with
    the block that waits for it. Megatron-Core issues all of them when a step begins, or, if CPU and
    device wait for transfers between stages, when the input is there."""

    sharding: Sharding

    def __post_init__(self) -> None:
        self.ready = dict[int, Rows]()
        self.buckets = list[tuple[int, dict[str, float]]]()
        for layer, block in enumerate(self.stage):
            last = self.buckets[-1][1] if self.buckets else {}
            if not last or max(last.values()) * self.sharding.nbytes >= self.sharding.bucket:
                self.buckets.append((layer, last := {}))
            for group, count in elements([block]).items():
                last[group] = last.get(group, 0.0) + count

    @property
    def calls(self) -> list[Call]:
        return [call for _, bucket in self.buckets for call in self.sharding.gathering(bucket)]

    def written(self) -> Self:
        # The CPU issues them when it comes to the pass, which may wait for its input.
        self.launched = self.row(PassTask(HOST, 0.0, LAUNCH))
        for layer, bucket in self.buckets:
            self.ready[layer] = tuple(
                self._gather(layer, call) for call in self.sharding.gathering(bucket)
            )
        return super().written()

    def begin(self, layer: int) -> None:
        if rows := self.ready.get(layer):
            if not self.tails:
                self.compute(0.0, GATHER, (), layer)
            self.compute(0.0, GATHER, (*self.tails, *rows), layer)

    def _gather(self, layer: int, call: Call) -> int:
        lane, seconds = STREAMS.index(call.group), self.times.seconds(*call[:3])
        return self.row(PassTask(lane, seconds, GATHER, (self.launched,), layer, call=call))


@dataclass(frozen=True, eq=False)
class Work:
    """What a step does."""

    stages: tuple[tuple[Block, ...], ...]
    pipeline: Pipeline
    times: GroupTimes
    """How long collectives take. Its degrees are those of the plan."""
    sharding: Sharding = field(default_factory=Sharding)
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
        blocks = [block for stage in self.stages for block in stage]
        experts = any(block.expert_parameters or block.frozen_experts for block in blocks)
        return ("data", "experts") if experts else ("data",)

    def action(self, stage: int, kind: int, *, last: bool = True, first: bool = False) -> Pass:
        """The pass of a stage, without its rows. `last` is whether it is the last of its stage, and
        `first` whether it is the first forward."""
        blocks, sharding = self.stages[stage], self.sharding
        shared = max(self.times.degrees.size(group) for group in self.groups) > 1
        if sharding.rules and last and kind in (BACKWARD, WEIGHTS):
            full = buckets(blocks, sharding)
            return BucketPass(blocks, kind, self.times, buckets=full, rules=sharding.rules)
        if sharding.ahead and shared and first and kind == FORWARD:
            return GatherPass(blocks, kind, self.times, sharding=sharding)
        if sharding.zero < 2 or not shared:
            return Pass(blocks, kind, self.times)
        return UnitPass(blocks, kind, self.times, sharding=sharding, last=last)


def updates(
    work: Work, first: int, ends: Sequence[Rows], blocks: Sequence[Sequence[Rows]]
) -> list[tuple[int, int, PassTask]]:
    """Device, stage and row of the reductions of gradients, of what copies these out of buckets, of
    the optimizers, and of what gathers parameters, from task `first` on.

    `ends` are the tasks with which each device ends its last action, `blocks` those with which each
    block ends its last backward, by copy and stage and in the order of the backward.
    """
    pipeline, sharding, rows = work.pipeline, work.sharding, list[tuple[int, int, PassTask]]()

    def add(device: int, stage: int, row: PassTask) -> int:
        rows.append((device, stage, row))
        return first + len(rows) - 1

    def add_call(device: int, stage: int, lane: int, kind: int, before: Rows, call: Call) -> int:
        seconds = work.times.seconds(*call[:3])
        return add(device, stage, PassTask(lane, seconds, kind, before, call=call))

    pending = [list(end) for end in ends]
    for number, made in enumerate(blocks):
        copy, stage = divmod(number, pipeline.stages)
        device = int(pipeline.place[copy, stage])
        if sharding.zero >= 2:
            pending[device] += made[-1] if made else ()
        done = []
        for block, reduced in reductions(work.stages[stage], sharding):
            before = made[block] if block >= 0 else ends[device]
            lane = STREAMS.index(reduced.group)
            done.append(add_call(device, stage, lane, REDUCE, before, reduced))
        pending[device] += done
        rules, full = sharding.rules, buckets(work.stages[stage], sharding)
        for reduction, seconds in zip(done, rules.copies_out(full) if rules else (), strict=False):
            back = PassTask(COMPUTE, seconds, COPY, (*ends[device], reduction))
            pending[device].append(add(device, stage, back))
    for *pair, nbytes, stage in tied_gradients(work):
        tied = Call(f"{pair[0]} to {pair[1]}", "all_reduce", nbytes)
        before = (*pending[pair[0]], *pending[pair[1]])
        for device in pair:
            pending[device].append(add_call(device, stage, TIED, REDUCE, before, tied))
    for device in range(pipeline.devices):
        stages = np.flatnonzero((pipeline.place == device).any(axis=0)).tolist()
        seconds = sum(sharding.seconds_of(stage) for stage in stages)
        updated = add(device, -1, PassTask(COMPUTE, seconds, OPTIMIZER, tuple(pending[device])))
        for stage in stages:
            for gathered in gathers(work.stages[stage], sharding):
                lane = STREAMS.index(gathered.group.partition("/")[0])
                add_call(device, stage, lane, GATHER, (updated,), gathered)
    return rows


def tied_gradients(work: Work) -> list[tuple[int, int, float, int]]:
    """Two devices, the bytes of gradients that they share, and their stage: of the embedding at
    both ends of the pipeline, and of a stage of which two devices have a copy."""
    pipeline, sharding = work.pipeline, work.sharding
    shared = [(row[0], row[-1], sharding.tied, 0) for row in pipeline.place.tolist()]
    for stage, devices in enumerate(pipeline.place.T.tolist() if pipeline.copies > 1 else ()):
        nbytes = sum(call.nbytes for _, call in reductions(work.stages[stage], sharding))
        share = work.times.degrees.size("data") if sharding.zero else 1
        shared.append((devices[0], devices[1], nbytes / share, stage))
    return [row for row in shared if row[0] != row[1] and row[2]]
