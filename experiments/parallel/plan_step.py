"""The step of a model under a plan on a machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate

from experiments.models.accelerators import NARROW, PRECISIONS, accelerator
from experiments.models.block_cut import GRADIENTS, MODULES, modules_of, parse_recomputation
from experiments.models.device_times import DeviceTimes
from experiments.models.model_blocks import blocks
from experiments.models.model_shapes import TransformerShape
from experiments.models.narrow_casts import reads, stored
from experiments.models.transformer_blocks import Writer
from experiments.models.transformers import with_tensors
from experiments.parallel.expert_routing import Routing, routing_of, with_kernels
from experiments.parallel.factor_fit import Sureness
from experiments.parallel.offloading import host_bandwidth, offload_stages
from experiments.parallel.plan_text import Plan, layer_numbers
from simulator.parallel.blocks import Block, BlockPart, each_stage, elements
from simulator.parallel.group_times import End, GroupTimes
from simulator.parallel.passes import Pass
from simulator.parallel.pipelines import Pipeline
from simulator.parallel.plan_memory import State, StepMemory, memory
from simulator.parallel.sharding import Sharding
from simulator.parallel.step import Detail, Step, write
from simulator.parallel.step_measures import length_of
from simulator.parallel.step_work import Work
from simulator.steps.kinds import FORWARD, INPUTS, WEIGHTS
from simulator.training.buckets import BucketRules
from simulator.uncertainty.interval import Interval
from topologies.errors import InputError

COMMUNICATOR, CONTEXT, FRAGMENTATION = 300 * 2.0**20, 2.0**30, 1.05
"""Recalled: a communicator of NCCL takes 200 to 400 MiB, the context of CUDA with the workspaces of
its libraries 0.5 to 1.5 GiB. The allocator needs 5% more than what comes and goes: with it, the
fullest of 162 published runs of MPT under FSDP takes 95% of its GPU."""
RESERVED = 1.23
"""What PyTorch's allocator reserves for what comes and goes, where memory is left: least squares on
the ranks of four runs of Megatron-LM on B200 (SimuMax). torchtitan's, not fitted, are within 6%."""
JITTER = 60e-6
"""The standard deviation of the moments at which ranks enter a collective, in seconds. Learnt from
steps on A100 of two papers on links alone. Under NCCL's law errors of most files spread least."""
Stages = tuple[tuple[Block, ...], ...]


@dataclass(frozen=True)
class Training:
    """A model on a device."""

    name: str
    shape: TransformerShape
    seq: int
    """Tokens of a sequence."""
    times: DeviceTimes
    tokens: float = 0.0
    """Tokens of the whole training; 0: unknown."""
    sureness: Sureness | None = None
    """What measured steps left open; None: there was none."""

    def duration(self, tokens_per_s: float, gpus: int) -> dict[str, float]:
        """The days and GPU hours of the training; empty if its tokens are unknown."""
        hours = self.tokens / tokens_per_s / 3600 if tokens_per_s else 0.0
        return {"days": hours / 24, "gpu_hours": hours * gpus} if hours else {}

    def under(self, plan: Plan) -> Training:
        """The model in the precision of a plan that names one. Raises InputError, with those that
        the device has, if it lacks this one."""
        dtype = plan.precision or self.times.dtype
        times = replace(self.times, dtype=dtype)
        for key in ("scaling", "bf16_layers", "fp8_gather"):
            takes = ["fp8"] if key == "scaling" else [*NARROW]
            if getattr(plan, key) != getattr(Plan, key) and times.math not in takes:
                right = ", ".join(takes)
                raise InputError(f"plan: {key} goes with precision={right}: it is {dtype}")
        self._refuse_what_is_absent(plan)
        return replace(self, times=times)

    def _refuse_what_is_absent(self, plan: Plan) -> None:
        """Raise InputError for keys that name more layers, or other modules, than the model has."""
        shape, ends = self.shape, sum(plan.wide_ends)
        if ends > shape.blocks:
            raise InputError(
                f"plan: bf16_layers={plan.bf16_layers} is {ends} layers, and {self.name} has "
                f"{shape.blocks}: take fewer"
            )
        if plan.lora > shape.width:
            raise InputError(
                f"plan: lora={plan.lora} is more than the {shape.width} elements of a token of "
                f"{self.name}: take fewer, like lora=16"
            )
        if plan.fp8_activations and not shape.gated:
            raise InputError(
                f"plan: fp8_activations=yes: MLPs of {self.name} are not gated: leave it out"
            )
        present = {module for kind in {*shape.kinds} for module in modules_of(shape, kind)}
        for word in parse_recomputation(plan.recompute).words:
            if word in MODULES and word not in present:
                raise InputError(
                    f"plan: recompute={plan.recompute}: {self.name} has no {word}: leave it out"
                )

    def cast_share(self, plan: Plan) -> float:
        """The share of the parameters that layers multiply below 16 bits."""
        shape = self.shape
        if not self.times.narrow:
            return 0.0
        layers = max(0, shape.blocks - sum(plan.wide_ends)) / shape.blocks
        return layers * shape.multiplied / shape.parameters

    @property
    def flops_per_token(self) -> float:
        """FLOPs of the model for a token: forward and backward, without what is computed again."""
        shape = self.shape
        table = 0 if shape.tied else shape.embedding
        scores = shape.seen(self.seq) * shape.heads * (shape.key_size + shape.value_size)
        scans = shape.parts["M"] * shape.mamba.scan if shape.mamba else 0
        return 6.0 * (shape.active_parameters - table + scores + scans)

    def flops(self, plan: Plan, tokens_per_s: float) -> float:
        """The model's FLOP/s of each GPU of a plan. Frozen matrices have no backward for
        weights."""
        share = 2 / 3 if plan.lora else 1.0
        return tokens_per_s * share * self.flops_per_token / plan.degrees.ranks

    def mfu(self, plan: Plan, tokens_per_s: float) -> float:
        """The model's FLOP/s of each GPU of a plan as a share of its peak: MFU."""
        peak = accelerator(self.times.device).peak[self.times.math]
        return self.flops(plan, tokens_per_s) / peak


def stages_of(training: Training, plan: Plan, routing: Routing | None = None) -> Stages:
    """The blocks of each stage of the pipeline. Raises InputError if the layers cannot be shared
    out evenly."""
    cut = plan if routing is None else replace(plan, imbalance=routing.imbalance)

    def written(recompute: str) -> list[Block]:
        layers = blocks(
            training.shape,
            training.seq,
            replace(cut, recompute=recompute),
            training.times,
            training.name,
            routed=routing is not None and not routing.even,
        )
        if plan.ddp == "no":
            return layers
        return with_tensors(layers, Writer(training.times, plan, training.shape, training.seq))

    return share_out(written, plan, plan.stages, training.name)


def share_out(
    written: Callable[[str], Sequence[Block]], plan: Plan, stages: int, name: str
) -> Stages:
    """The blocks of each stage of a model called `name`, from all of its blocks as they are
    `written` with what they compute again: the embedding in front of the first layer, the head
    behind the last one."""
    layers = written(plan.recompute)
    # A further token that is predicted has three blocks.
    tail = 1 + 3 * plan.mtp
    count = len(layers) - 1 - tail
    sizes = stage_sizes(count, plan, stages)
    if sizes is None:
        pp = next(
            (pp for pp in range(plan.pp, 0, -1) if count * plan.pp % (pp * stages) == 0), None
        )
        size, more = divmod(count, stages)
        numbers = (more, size + 1), (stages - more, size)
        right = f"layers={'+'.join(f'{n}x{each}' for n, each in numbers if n)}"
        if not size:
            right = "v=1" if plan.v > 1 else f"pp={count}"
        wrong = f"{name} has {count} layers, which {stages} stages do not divide"
        if plan.layers:
            wrong = (
                f"{name} has {count} layers for {stages} stages: layers={plan.layers} has others"
            )
        elif pp:
            right = f"pp={pp} or uneven=yes" if size else f"pp={pp}"
        raise InputError(f"{wrong}: take {right}")
    again = parse_recomputation(plan.recompute)
    if again.is_partial:
        chosen = [True, *(each for size in sizes for each in again.layers(size)), *[True] * tail]
        plain = written("none")
        layers = [layers[k] if full else plain[k] for k, full in enumerate(chosen)]
    sizes[0] += 1
    sizes[-1] += tail
    ends = accumulate(sizes)
    cut = tuple(tuple(layers[end - size : end]) for size, end in zip(sizes, ends, strict=True))
    return _scattered(cut, plan.tp) if plan.scatter and plan.tp > 1 and not plan.sp else cut


def _scattered(stages: Stages, tp: int) -> Stages:
    """The stages, where each rank sends its share of a tensor and the next stage gathers it. Stages
    that were alike still are."""
    whole, end = stages[0][-1].output, len(stages) - 1
    gather = (BlockPart(group="tp", collective="all_gather", nbytes=whole),)

    @cache
    def cut(stage: tuple[Block, ...], *, receives: bool, sends: bool) -> tuple[Block, ...]:
        first, *rest = stage
        if receives:
            first = replace(first, forward=gather + first.forward)
        *rest, last = first, *rest
        back = gather if sends else ()
        inputs, backward = back + last.inputs, back + last.backward
        return (*rest, replace(last, inputs=inputs, backward=backward, output=whole / tp))

    return tuple(
        cut(stage, receives=number > 0, sends=number < end) for number, stage in enumerate(stages)
    )


def stage_sizes(layers: int, plan: Plan, stages: int) -> list[int] | None:
    """The layers of each stage; None if they cannot be shared out evenly. If stages do not divide
    the layers, the embedding and the head count as a layer each, unless the plan says so."""
    ends = [plan.layers.count(word) for word in ("embedding", "loss")]
    if plan.layers and not any(ends):
        sizes = layer_numbers(plan.layers)
        right = len(sizes) == stages and sum(sizes) == layers and 0 not in sizes[1:-1]
        return sizes if right else None
    size, rest = divmod(layers + sum(ends), stages)
    if plan.layers:
        sizes = [size] * stages
        sizes[0] -= ends[0]
        sizes[-1] -= ends[1]
        return None if rest or min(sizes) < 0 else sizes
    if not rest:
        return [size] * stages
    if (layers + 2) % stages == 0:
        inner = (layers + 2) // stages
        return [inner - 1, *[inner] * (stages - 2), inner - 1]
    if not plan.uneven or not size:
        return None
    middle = (stages - rest) // 2
    return [size + (middle <= stage < middle + rest) for stage in range(stages)]


def sharding_of(training: Training, plan: Plan, stages: Stages) -> Sharding:
    """How the gradients of the stages are reduced, and parameters updated and shared out."""
    shape, nbytes = training.shape, GRADIENTS[plan.grads][0]
    shards = {
        group: (plan.shard or plan.degrees.size(group)) if plan.zero else 1
        for group in ("data", "experts")
    }
    trained = each_stage(elements, stages)
    updated = [sum(count / shards[group] for group, count in each.items()) for each in trained]
    # Bytes that an update with Adam moves for an element: its gradient becomes fp32 (6), and its
    # norm is found (4); parameter, gradient and two moments are read (16), and written but for the
    # gradient (12); the parameter is copied in 16 bits (6). Moments in 16 bits take half.
    update = 44.0 if plan.moments == "fp32" else 36.0
    moved = [update * count for count in updated]
    if training.times.narrow and not plan.casts_weights:
        # Once a step weights are cast, of all ranks or of each rank's share.
        times, share = training.times, training.cast_share(plan)
        nbytes_cast = share * (2.0 * reads(times, plan.scaling) + stored(times))
        whole = [float(sum(elements(stage).values())) for stage in stages]
        counts = updated if plan.fp8_gather else whole
        moved = [each + nbytes_cast * n for each, n in zip(moved, counts, strict=True)]
    # Copies into buckets have the bandwidth of the data sheet, as in the strategy.
    copied = accelerator(training.times.device).bandwidth / training.times.scale
    return Sharding(
        nbytes=nbytes,
        zero=plan.zero,
        overlap=plan.overlap,
        ahead=plan.overlap_gather and plan.zero == 1,
        bucket=plan.bucket,
        optimizer=tuple(training.times.traffic(each) for each in moved),
        gathered=_gathered(training, plan),
        tied=shape.embedding / plan.tp * nbytes
        if shape.tied and plan.pp > 1 and not plan.lora
        else 0.0,
        reshard=plan.reshard,
        shard=plan.shard,
        sync=plan.sync,
        fsdp=plan.fsdp,
        bandwidth=1.0 / training.times.traffic(1.0),
        ddp=BucketRules(copied, views=plan.ddp == "view") if plan.ddp != "no" else None,
    )


def _gathered(training: Training, plan: Plan) -> float:
    """Bytes of an element of a parameter that is gathered. Megatron-Core gathers parameters in
    mxfp8, whose layouts differ, in 16 bits, and nvfp4 too."""
    math = training.times.math
    if not plan.fp8_gather or math not in ("fp8", "fp8_block"):
        return 2.0
    return 2.0 + training.cast_share(plan) * (NARROW[math] - 2.0)


def state_of(training: Training, plan: Plan) -> State:
    """What is held between steps for each element of the parameters.

    FSDP holds shares of parameters and gradients in fp32, and converts what it gathers; others hold
    a copy of the parameters in fp32 with the optimizer. Below 16 bits they keep the weights cast
    beside those in 16 bits, or in place of them.
    """
    moments = 8.0 if plan.moments == "fp32" else 4.0
    if PRECISIONS[training.times.dtype].width > 2 or plan.zero == 3:
        return State(4.0, 4.0, moments)
    parameters = 2.0
    if training.times.narrow:
        replaced = 2.0 if plan.fp8_gather else 0.0
        casts = stored(training.times, plan.holds_once)
        parameters += training.cast_share(plan) * (casts - replaced)
    return State(parameters, GRADIENTS[plan.grads][0], 4.0 + moments)


def memory_of(training: Training, plan: Plan, work: Work) -> StepMemory:
    """The memory of a step. A pool of CUDA graphs gives back nothing where memory is short."""
    return memory(
        work,
        state_of(training, plan),
        communicator=COMMUNICATOR,
        context=CONTEXT,
        fragmentation=RESERVED if plan.graphs == "yes" else FRAGMENTATION,
    )


def work_of(training: Training, plan: Plan, times: GroupTimes) -> Work:
    """What a step does. Raises InputError for a plan that does not fit the model."""
    routing = routing_of(training.shape, plan, training.seq, times.topology)
    if routing is not None:
        times = times.with_algorithms(routing.algorithms)
    if plan.jitter and times.laws:
        times = replace(times, jitter=JITTER)
    times = with_kernels(times, training.shape, training.seq, plan, routing, training.times.device)
    stages = stages_of(training, plan, routing)
    if plan.offload:
        stages = offload_stages(stages, plan.offload, host_bandwidth(times.topology))
    return Work(
        stages,
        pipeline_of(plan, stages, times),
        times,
        sharding_of(training, plan, stages),
        plan.blocking,
        plan.synchronous and plan.pp > 1,
        plan.slowdown,
    )


def interval_of(
    work: Work,
    level: float,
    detail: Detail = "layers",
    seconds: Callable[[Step], float] = length_of,
) -> Interval:
    """The interval of a step, in `seconds`, from those of its calls, which hold the share `level`
    of runs. Errors of a machine are shared by all of its calls, so all calls are at the same end of
    their intervals."""

    def at(end: End) -> float:
        return seconds(write(replace(work, times=work.times.at(end)), detail))

    return Interval(at("expected"), at("low"), at("high"), level)


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
