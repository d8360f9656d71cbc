"""The step of a model under a plan on a machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from experiments.models.accelerators import accelerator
from experiments.models.block_cut import GRADIENTS
from experiments.models.device_times import DeviceTimes
from experiments.models.model_shapes import Shape
from experiments.models.transformer_blocks import blocks
from experiments.output import Value
from experiments.parallel.expert_routing import Routing, routing_of
from experiments.parallel.plan_text import Plan
from experiments.profiles.interval_levels import level_of
from experiments.simulations.rules import Rules
from simulator.parallel.blocks import Block, Part
from simulator.parallel.gradients import Gradients
from simulator.parallel.group_times import End, GroupTimes
from simulator.parallel.passes import Pass
from simulator.parallel.pipelines import Pipeline
from simulator.parallel.sharding import Sharding
from simulator.parallel.step import Detail, write
from simulator.parallel.step_measures import measure
from simulator.parallel.step_work import Work
from simulator.profile import Profile
from simulator.steps.kinds import FORWARD, INPUTS, WEIGHTS
from simulator.uncertainty.interval import Interval
from topologies.catalogue import Blueprint
from topologies.errors import InputError

UPDATE = 44.0
"""Bytes that an update with Adam moves for an element: its gradient becomes fp32 (6), and its norm
is found (4); parameter, gradient and two moments are read (16), and written but for the gradient
(12); the parameter is copied in 16 bits (6)."""
ENDS: tuple[End, ...] = ("expected", "low", "high")
Stages = tuple[tuple[Block, ...], ...]


@dataclass(frozen=True)
class Training:
    """A model on a device."""

    name: str
    """The name of the model."""
    shape: Shape
    """Its shape."""
    seq: int
    """Tokens of a sequence."""
    times: DeviceTimes
    """The times of the device."""

    @property
    def flops_per_token(self) -> float:
        """FLOPs of the model for a token: forward and backward, without what is computed again."""
        shape = self.shape
        table = 0 if shape.tied else shape.parts.embedding
        scores = shape.blocks * shape.heads * (shape.key_size + shape.value_size) * self.seq
        return 6.0 * (shape.active_parameters - table + scores)

    def mfu(self, tokens_per_s: float, gpus: int) -> float:
        """The model's FLOP/s of each of so many GPUs as a share of its peak: MFU."""
        peak = accelerator(self.times.device).peak[self.times.math]
        return tokens_per_s * self.flops_per_token / gpus / peak


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What trains on which machine, whatever the plan is."""

    training: Training
    """The model on a device."""
    machine: Blueprint
    rules: Rules
    """How to simulate collectives."""
    profile: Profile | None
    """A calibrated library, whose protocols are simulated."""
    parameters: Mapping[str, Value]
    """The options as the user writes them: stored with the result."""
    known: dict[int, GroupTimes] = field(default_factory=dict, repr=False)
    """Times of collectives that were simulated, by the ranks of the machine. Most of a step's
    simulation is these, so steps that calibrate the device share them with the plan."""

    def groups(self, plan: Plan) -> GroupTimes:
        """The times of collectives under a plan."""
        if (ranks := plan.degrees.ranks) not in self.known:
            # A shape has at least two devices, also for a single GPU.
            machine = self.machine.build(max(ranks, 2 if self.machine.kind == "shape" else 1))
            end: End | None = "time" if level_of(self.profile) else None
            self.known[ranks] = GroupTimes(
                machine, plan.degrees, profile=self.profile, run=self.rules.run, end=end
            )
        return self.known[ranks].under(plan.degrees)


def stages_of(training: Training, plan: Plan, routing: Routing | None = None) -> Stages:
    """The blocks of each stage of the pipeline. Raises InputError if the layers cannot be shared
    out evenly."""
    cut = plan if routing is None else replace(plan, imbalance=routing.imbalance)
    layers = blocks(
        training.shape,
        training.seq,
        cut,
        training.times,
        training.name,
        routed=routing is not None and not routing.even,
    )
    return share_out(layers, plan, plan.stages, training.name)


def share_out(layers: Sequence[Block], plan: Plan, stages: int, name: str) -> Stages:
    """The blocks of each stage of a model called `name`, from all of its blocks: the embedding in
    front of the first layer, the head behind the last one."""
    first, *layers, last = layers
    sizes = stage_sizes(len(layers), plan, stages)
    if sizes is None:
        raise InputError(_indivisible(name, plan, len(layers), stages))
    cut: list[tuple[Block, ...]] = []
    for stage, size in enumerate(sizes):
        ends = (first,) * (stage == 0), (last,) * (stage == stages - 1)
        cut.append((*ends[0], *layers[:size], *ends[1]))
        layers = layers[size:]
    return _scattered(cut, plan) if plan.scatter and plan.tp > 1 and not plan.sp else tuple(cut)


def _scattered(stages: list[tuple[Block, ...]], plan: Plan) -> Stages:
    """The stages, where each rank sends its share of a tensor and the next stage gathers it. Stages
    that were alike still are."""
    whole = stages[0][-1].output
    gather = (Part(group="tp", collective="all_gather", nbytes=whole),)

    @cache
    def first_of(block: Block) -> Block:
        return replace(block, forward=gather + block.forward)

    @cache
    def last_of(block: Block, *, sends: bool) -> Block:
        back = gather if sends else ()
        inputs, backward = back + block.inputs, back + block.backward
        return replace(block, inputs=inputs, backward=backward, output=whole / plan.tp)

    cut = []
    for number, stage in enumerate(stages):
        enters = [first_of(block) for block in stage[: number > 0]]
        passed = [*enters, *stage[len(enters) :]]
        cut.append((*passed[:-1], last_of(passed[-1], sends=number < len(stages) - 1)))
    return tuple(cut)


def stage_sizes(layers: int, plan: Plan, stages: int) -> list[int] | None:
    """The layers of each stage; None if they cannot be shared out evenly. If stages do not divide
    the layers, the embedding and the head count as a layer each."""
    if layers % stages == 0:
        return [layers // stages] * stages
    if (layers + 2) % stages == 0 and stages > 1:
        sizes = [(layers + 2) // stages] * stages
        sizes[0] -= 1
        sizes[-1] -= 1
        return sizes
    if not plan.uneven or layers < stages:
        return None
    sizes = [layers // stages] * stages
    middle = (stages - layers % stages) // 2
    for stage in range(middle, middle + layers % stages):
        sizes[stage] += 1
    return sizes


def _indivisible(name: str, plan: Plan, layers: int, stages: int) -> str:
    per_device = stages // plan.pp
    whole = [pp for pp in range(plan.pp, 0, -1) if layers % (pp * per_device) == 0]
    right = f"pp={whole[0]} or uneven=yes" if whole else "another pp or uneven=yes"
    return f"{name} has {layers} layers, which {stages} stages do not divide: take {right}"


def gradients_of(training: Training, plan: Plan, stages: Stages) -> Gradients:
    """How the gradients of the stages are reduced, and parameters updated."""
    shape = training.shape
    table = shape.parts.embedding / plan.tp * GRADIENTS[plan.grads][0]
    return Gradients(
        nbytes=GRADIENTS[plan.grads][0],
        zero=plan.zero,
        overlap=plan.overlap,
        bucket=plan.bucket,
        optimizer=tuple(_optimizer(stage, training.times, plan) for stage in stages),
        tied=table if shape.tied and plan.pp > 1 else 0.0,
    )


def sharding_of(training: Training, plan: Plan) -> Sharding:
    """How parameters and gradients are shared out."""
    bandwidth = 1.0 / training.times.traffic(1.0)
    return Sharding(plan.reshard, plan.shard, plan.sync, plan.fsdp, bandwidth=bandwidth)


def work_of(training: Training, plan: Plan, times: GroupTimes) -> Work:
    """What a step does. Raises InputError for a plan that does not fit the model."""
    routing = routing_of(training.shape, plan, training.seq, times.topology)
    if routing is not None:
        times = times.with_algorithms(routing.algorithms)
    stages = stages_of(training, plan, routing)
    gradients = gradients_of(training, plan, stages)
    pipeline = pipeline_of(plan, stages, times)
    synchronous = plan.synchronous and plan.pp > 1
    sharding = sharding_of(training, plan)
    return Work(
        stages,
        pipeline,
        times,
        gradients,
        plan.blocking,
        synchronous,
        sharding,
        plan.slowdown,
    )


def interval_of(work: Work, level: float, detail: Detail = "layers") -> Interval:
    """The interval of a step, in seconds, from those of its calls, which hold the share `level` of
    runs. Errors of a machine are shared by all of its calls, so all calls are at the same end of
    their intervals."""
    expected, low, high = (
        measure(write(replace(work, times=work.times.at(end)), detail)).step for end in ENDS
    )
    return Interval(expected, low, high, level)


def pipeline_of(plan: Plan, stages: Stages, times: GroupTimes) -> Pipeline:
    """The pipeline of the plan. A search takes the times of a stage in the middle, and of the
    transfer to the second device."""
    order, sizes = plan.pipeline, {"devices": plan.pp, "micro_batches": plan.micro_batches}
    if "forward" not in order.options:
        return order.build(**sizes)
    middle = stages[len(stages) // 2]
    forward, inputs, weights = (
        Pass(middle, kind, times).written().seconds for kind in (FORWARD, INPUTS, WEIGHTS)
    )
    kept = sum(block.kept for block in middle)
    later = sum(block.kept_for_weights for block in middle)
    return order.build(
        **sizes,
        forward=forward,
        inputs=inputs,
        weights=weights,
        transfer=times.transfer(0, min(1, plan.pp - 1), middle[-1].output),
        kept=min(100.0, 100 * later / kept) if kept else 100.0,
    )


def _optimizer(stage: tuple[Block, ...], times: DeviceTimes, plan: Plan) -> float:
    """Seconds of the optimizer of a stage."""
    degrees = plan.degrees
    shards = [
        (plan.shard or degrees.size(kind)) if plan.zero else 1 for kind in ("data", "experts")
    ]
    dense = sum(block.parameters for block in stage) / shards[0]
    experts = sum(block.expert_parameters for block in stage) / shards[1]
    return times.traffic(UPDATE * (dense + experts))
