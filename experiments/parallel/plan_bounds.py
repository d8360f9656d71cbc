"""Bounds of many plans of a model: of the step's time and of the memory. Plans share the blocks of
a cut and the times of collectives."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from experiments.models.block_cut import Cut
from experiments.models.transformer_blocks import blocks
from experiments.parallel.plan_step import (
    OVERHEADS,
    Stages,
    Training,
    gradients_of,
    sharding_of,
    share_out,
    state_of,
)
from experiments.parallel.plan_text import Plan
from simulator.parallel.blocks import Block
from simulator.parallel.group_times import GroupTimes
from simulator.parallel.sharding import elements
from simulator.parallel.step_bound import BlockSeconds, Outline, bound


@dataclass
class PlanBounds:
    """Bounds of plans, with what they share."""

    training: Training
    """The model on a device."""
    times: GroupTimes
    """The times of collectives, under any degrees."""
    _blocks: dict[tuple[object, ...], list[Block]] = field(default_factory=dict, repr=False)
    _seconds: dict[str, BlockSeconds] = field(default_factory=dict, repr=False)

    def stages(self, plan: Plan) -> Stages:
        """The blocks of each stage."""
        training = self.training
        cut = plan.accumulated, *(getattr(plan, each.name) for each in fields(Cut))
        if cut not in self._blocks:
            self._blocks[cut] = blocks(
                training.shape, training.seq, plan, training.times, training.name
            )
        return share_out(self._blocks[cut], plan, plan.pp * plan.v, training.name)

    def seconds(self, plan: Plan) -> float:
        """Seconds that the step of a plan does not go below."""
        stages, key = self.stages(plan), str(plan.degrees)
        if key not in self._seconds:
            self._seconds[key] = BlockSeconds(self.times.under(plan.degrees))
        outline = Outline(
            stages,
            plan.micro_batches,
            self._seconds[key],
            gradients_of(self.training, plan, stages),
            sharding_of(self.training, plan),
            in_turn=plan.v == 1,
        )
        return bound(outline)

    def memory(self, plan: Plan) -> float:
        """Bytes that the fullest rank holds at least: parameters, gradients, optimizer, the
        activations of the micro-batches that are on their way, and overheads."""
        stages, size = self.stages(plan), plan.degrees.size
        state, has_experts = state_of(self.training, plan), False
        held = []
        for device in range(plan.pp):
            blocks = [block for stage in stages[device :: plan.pp] for block in stage]
            counts = dict(elements(blocks))
            has_experts |= "experts" in counts
            held.append(
                sum(n * sum(state.shared(plan.zero, size(kind))) for kind, n in counts.items())
                + OVERHEADS.fragmentation * _activations(plan, stages, device)
            )
        kinds = ["tp", "cp", "pp", "ep", "data", *(["experts"] * has_experts)]
        groups = sum(size(kind) > 1 for kind in kinds)
        return max(held) + groups * OVERHEADS.communicator + OVERHEADS.context


def _activations(plan: Plan, stages: Stages, device: int) -> float:
    """Bytes of what the forwards of a device keep when most are on their way, and of what one
    backward computes again. Interleaved 1F1B runs 2 (pp - 1 - d) + (v - 1) pp + 1 forwards of
    chunks ahead (Narayanan et al., 2021)."""
    mine, pp, count = stages[device :: plan.pp], plan.pp, plan.micro_batches
    keeps = [sum(block.kept for block in stage) for stage in mine]
    again = max(block.working for stage in mine for block in stage)
    if device == pp - 1:
        # The logits are free before anything is computed again.
        again = max(0.0, again - stages[-1][-1].kept)
    if plan.v == 1:
        return min(pp - device, count) * keeps[0] + again
    ahead = min(2 * (pp - 1 - device) + (plan.v - 1) * pp + 1, count * plan.v)
    whole, rest = divmod(ahead, plan.v * pp)
    flying = [whole * pp + min(max(rest - chunk * pp, 0), pp) for chunk in range(plan.v)]
    return sum(kept * number for kept, number in zip(keeps, flying, strict=True)) + again
