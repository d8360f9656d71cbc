"""What a training step of a plan does."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.parallel.blocks import Block
from simulator.parallel.gradients import Gradients
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.pipelines.pipeline import Pipeline
from topologies.errors import InputError


@dataclass(frozen=True, eq=False)
class Work:
    """What a step does."""

    stages: tuple[tuple[Block, ...], ...]
    """The blocks of each stage of the pipeline."""
    pipeline: Pipeline
    """The order of the actions of all devices."""
    times: GroupTimes
    """How long collectives take. Its degrees are those of the plan."""
    gradients: Gradients = field(default_factory=Gradients)
    """How gradients are reduced, and parameters updated."""
    blocking: bool = False
    """Whether both ends of a transfer between stages wait until it has ended."""
    synchronous: bool = False
    """Whether the CPU launches an action when the one before has ended and what it needs has
    arrived, as in Megatron-LM, which synchronizes with the device behind transfers."""

    def __post_init__(self) -> None:
        pipeline, devices = self.pipeline, self.times.degrees.pp
        if len(self.stages) != pipeline.stages:
            raise InputError(
                f"{len(self.stages)} stages of blocks: pipeline {pipeline.name} has "
                f"{pipeline.stages}"
            )
        if pipeline.devices != devices:
            raise InputError(
                f"pipeline {pipeline.name} has {pipeline.devices} devices: pp is {devices}"
            )
