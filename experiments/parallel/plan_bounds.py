"""Bounds of the plans of a search: of the time of a step and of the memory of a rank."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import accumulate

from experiments.models.model_blocks import blocks
from experiments.parallel.expert_routing import with_kernels
from experiments.parallel.plan_step import (
    COMMUNICATOR,
    CONTEXT,
    FRAGMENTATION,
    Stages,
    Training,
    sharding_of,
    share_out,
    state_of,
)
from experiments.parallel.plan_text import CUT, Plan
from simulator.parallel.blocks import Block, elements
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.plan_memory import state_bytes
from simulator.parallel.step_bound import Known, Outline


@dataclass
class PlanBounds:
    """Bounds of plans: of the step's time and of the memory. Plans share the blocks of a cut and
    the times of collectives."""

    training: Training
    times: GroupTimes
    """The times of collectives, under any degrees."""
    _blocks: dict[tuple[object, ...], list[Block]] = field(default_factory=dict, repr=False)
    _stages: dict[tuple[object, ...], Stages] = field(default_factory=dict, repr=False)
    _known: dict[str, tuple[GroupTimes, Known]] = field(default_factory=dict, repr=False)

    def stages(self, plan: Plan) -> Stages:
        """The blocks of each stage."""
        training = self.training

        differs = training.times.narrow or training.shape.experts
        casts = differs and (plan.casts_weights, plan.keeps_casts)
        cut = plan.accumulated, plan.hides_exchanges, casts, *(getattr(plan, name) for name in CUT)

        def written(recompute: str) -> list[Block]:
            under = cut, recompute
            if under not in self._blocks:
                again = replace(plan, recompute=recompute)
                made = blocks(training.shape, training.seq, again, training.times, training.name)
                self._blocks[under] = made
            return self._blocks[under]

        key = cut, plan.pp, plan.v, plan.uneven
        if key not in self._stages:
            self._stages[key] = share_out(written, plan, plan.pp * plan.v, training.name)
        return self._stages[key]

    def seconds(self, plan: Plan) -> float:
        """Seconds that the step of a plan does not go below."""
        stages, degrees = self.stages(plan), plan.degrees
        # What kernels that dispatch tokens take depends on the tokens of a micro-batch.
        name = f"{degrees} {plan.dispatcher != 'all_to_all' and plan.micro}"
        if name not in self._known:
            training, times = self.training, replace(self.times.under(degrees), bounds=True)
            sizes = training.shape, training.seq, plan, None, training.times.device
            self._known[name] = with_kernels(times, *sizes), {}
        times, known = self._known[name]
        sharding = sharding_of(self.training, plan, stages)
        return Outline(stages, plan.micro_batches, times, sharding, plan.v == 1, known).bound

    def memory(self, plan: Plan) -> float:
        """Bytes that the fullest rank holds at least: parameters, gradients, optimizer, the
        activations of the micro-batches that are on their way, and overheads."""
        stages, size = self.stages(plan), plan.degrees.size
        state, has_experts = state_of(self.training, plan), False
        device_bytes = []
        # Of devices with the same blocks the first one has most micro-batches on their way.
        firsts = {
            tuple(id(block) for stage in stages[n :: plan.pp] for block in stage): n
            for n in reversed(range(plan.pp))
        }
        for device in firsts.values():
            blocks = [block for stage in stages[device :: plan.pp] for block in stage]
            has_experts |= "experts" in elements(blocks, frozen=True)
            between = float(state_bytes(blocks, state, plan.zero, size).sum())
            device_bytes.append(between + FRAGMENTATION * _activations(plan, stages, device))
        kinds = ["tp", "cp", "pp", "ep", "data", *(["experts"] * has_experts)]
        groups = sum(size(kind) > 1 for kind in kinds)
        return max(device_bytes) + groups * COMMUNICATOR + CONTEXT


def _activations(plan: Plan, stages: Stages, device: int) -> float:
    """Bytes of what the forwards of a device keep when most are on their way, and of what one
    backward computes again. Interleaved 1F1B runs 2 (pp - 1 - d) + (v - 1) pp + 1 forwards of
    chunks ahead (Narayanan et al., 2021)."""
    mine, pp, count = stages[device :: plan.pp], plan.pp, plan.micro_batches
    keeps = [sum(block.kept for block in stage) for stage in mine]
    # The last stage runs its backward first. What blocks behind one keep is free when it runs.
    behind = accumulate(block.kept for block in mine[-1])
    holds = (kept + block.working for kept, block in zip(behind, mine[-1], strict=True))
    again = max(holds) - keeps[-1]
    if plan.v == 1:
        return min(pp - device, count) * keeps[0] + again
    ahead = min(2 * (pp - 1 - device) + (plan.v - 1) * pp + 1, count * plan.v)
    whole, rest = divmod(ahead, plan.v * pp)
    flying = [whole * pp + min(max(rest - chunk * pp, 0), pp) for chunk in range(plan.v)]
    return sum(kept * number for kept, number in zip(keeps, flying, strict=True)) + again
