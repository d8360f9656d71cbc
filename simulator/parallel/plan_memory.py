"""The memory of the ranks of a plan: what they hold between steps, also under other stages of ZeRO,
and what they hold at most.

Between steps a rank holds parameters, gradients and the optimizer, or its share of them (ZeRO,
Rajbhandari et al., arXiv 1910.02054, section 3). In a step come activations, units that are
gathered, and gradients that have not been scattered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from simulator.parallel.blocks import Block, Unit, elements, units
from simulator.parallel.pipelines.pipeline import KEPT, Pipeline
from simulator.parallel.sharding import buckets, gathers, reductions
from simulator.parallel.step_work import Work, tied_gradients
from simulator.steps.kinds import BACKWARD, FORWARD, INPUTS, WEIGHTS
from simulator.steps.step_graph import Call
from topologies.errors import InputError
from topologies.topology import Floats


class State(NamedTuple):
    """Bytes of each element of the parameters that are held between steps."""

    parameters: float = 2.0
    gradients: float = 2.0
    optimizer: float = 12.0
    """A copy of the parameters in fp32, and two moments of Adam."""

    def shared(self, zero: int, ranks: int) -> State:
        """Bytes of each element on a rank, if so many ranks share what a stage of ZeRO says.

        >>> [round(7.5 * sum(State().shared(zero, 64)), 2) for zero in range(4)]
        [120.0, 31.41, 16.64, 1.88]
        """
        shares = (ranks if zero >= least else 1 for least in (3, 2, 1))
        return State(*(nbytes / share for nbytes, share in zip(self, shares, strict=True)))


STATE = State()
FROZEN = 2.0
"""Bytes of an element of a parameter that is not trained, from stage 3 of ZeRO on. Before, it takes
as many as another parameter."""
PARTS = (
    *State._fields,
    *("activations", "logits", "again", "gathered", "unsharded", "reducing"),
    *("buffers", "context", "fragmentation"),
)
"""The parts of the memory of a rank.

- activations, logits: what blocks keep for their backward, and what the head holds.
- again: what is computed again for the block whose backward runs, and gradients inside it.
- gathered: parameters of units that are gathered.
- unsharded: gradients that have not been scattered.
- reducing: input and output of a reduction of sharding.
- buffers: those of communicators.
"""
ACTIVATIONS, LOGITS, AGAIN, GATHERED, UNSHARDED, REDUCING = range(3, 9)


@dataclass(frozen=True, eq=False)
class StepMemory:
    """Bytes of a rank of each device of a pipeline."""

    pipeline: Pipeline
    held: Floats
    """What each action of the pipeline holds when it holds most, shape (actions, parts)."""

    @cached_property
    def peaks(self) -> Floats:
        """The parts at the moment at which each device holds most, shape (devices, parts)."""
        return np.asarray(self.held[self.pipeline.fullest(self.held.sum(axis=1))])

    @property
    def fullest(self) -> int:
        """The device that holds most."""
        return int(self.peaks.sum(axis=1).argmax())

    @property
    def peak(self) -> float:
        """Bytes that a rank of the fullest device holds at most."""
        return float(self.peaks.sum(axis=1).max())

    @property
    def moving(self) -> Floats:
        """Bytes of each device that come and go in a step, when it holds most."""
        return np.asarray(self.peaks[:, ACTIVATIONS : REDUCING + 1].sum(axis=1))

    @property
    def allocated(self) -> Floats:
        """Bytes that tensors of each device have, when it holds most."""
        return np.asarray(self.peaks[:, : REDUCING + 1].sum(axis=1))

    def parts(self, device: int) -> dict[str, float]:
        """The parts of a device when it holds most; those without bytes are left out."""
        row = self.peaks[device].tolist()
        return {name: nbytes for name, nbytes in zip(PARTS, row, strict=True) if nbytes}


def memory(
    work: Work,
    state: State = STATE,
    *,
    communicator: float = 0.0,
    context: float = 0.0,
    fragmentation: float = 1.0,
) -> StepMemory:
    """The memory of a step. It follows from the order of actions: nothing is simulated.

    Each group of more than one rank has the buffers of a `communicator`, and the device a
    `context` with its libraries, in bytes. The allocator takes `fragmentation` bytes for each byte
    that comes and goes in a step.
    """
    if not fragmentation >= 1:
        raise InputError(f"fragmentation is {fragmentation}: 1 or more")
    pipeline, fixed = work.pipeline, _fixed(work, state, communicator)
    fixed[:, PARTS.index("context")] = context
    kind, stage = pipeline.kind, pipeline.stage
    most = np.zeros((4, pipeline.stages, len(PARTS)))
    for number, place in np.unique(np.stack((kind, stage), axis=1), axis=0).tolist():
        moments = _moments(work, place, number)
        most[number, place] = moments[moments.sum(axis=1).argmax()]
    # What a stage keeps of a micro-batch for its backward, and for that of the weights alone.
    keeps = np.array([_kept(blocks).sum(axis=1) for blocks in work.stages])
    changes = KEPT[kind, :, None] * keeps[stage]
    # Every device ends with nothing, so that the sums of the devices before are 0.
    before = np.cumsum(changes.sum(axis=1), axis=0) - changes.sum(axis=1)
    moving = before + np.minimum(changes, 0.0).sum(axis=1) + most[kind, stage]
    moving[pipeline.second] += (most[FORWARD] - keeps[:, 0])[stage[pipeline.second - 1]]
    amounts = fixed[pipeline.device] + moving
    # These parts come and go in a step.
    amounts[:, -1] = (fragmentation - 1) * amounts[:, ACTIVATIONS : REDUCING + 1].sum(axis=1)
    return StepMemory(pipeline, amounts)


def _kept(blocks: Sequence[Block]) -> Floats:
    """What blocks keep of a micro-batch for their backward, and for that of the weights alone,
    shape (2, blocks, parts)."""
    table = np.zeros((2, len(blocks), len(PARTS)))
    for place, block in enumerate(blocks):
        part = LOGITS if block.name == "head" else ACTIVATIONS
        table[:, place, part] = block.kept, block.kept_for_weights
    return table


def _moments(work: Work, stage: int, kind: int) -> Floats:
    """What a pass of a `kind` holds of its micro-batch while each block runs, behind the backward
    of each unit, and behind all blocks, shape (moments, parts).

    Blocks behind that which runs have not run forward yet, or backward already.
    """
    blocks, sharding = work.stages[stage], work.sharding
    keeps, later = _kept(blocks)
    rows = np.cumsum(later if kind == WEIGHTS else keeps, axis=0)
    if kind == INPUTS:
        rows += np.cumsum(later[::-1], axis=0)[::-1]
    for row, block in zip(rows, blocks if kind in (BACKWARD, INPUTS) else (), strict=False):
        row[LOGITS if block.name == "head" else AGAIN] += block.working
    ranks = work.times.degrees.size(sharding.sharing("data"))
    shared = units(blocks, sharding.root) if sharding.zero >= 2 and ranks > 1 else []
    single = {unit.blocks[0]: unit.parameters for unit in shared if not unit.root}
    trained = {unit.blocks[0]: unit.gradients for unit in shared if not unit.root}
    whole = sum(unit.parameters for unit in shared if unit.root)
    gradients = sum(unit.gradients for unit in shared if unit.root)
    order = sorted(single, reverse=kind != FORWARD)
    sizes, end = np.array([single[layer] for layer in order]), np.zeros((1, len(PARTS)))
    behind = np.append(end, rows, axis=0)[order]
    element = sharding.element if sharding.zero == 3 and kind != WEIGHTS else 0.0
    for layer, row in enumerate(rows):
        coming = [each for each in order if (each > layer if kind == FORWARD else each < layer)]
        live = [layer, *coming[:1]] if layer in single else coming[:1]
        live = live if sharding.reshard else order
        row[GATHERED] = element * (whole + sum(single[each] for each in live))
    if kind in (BACKWARD, WEIGHTS):
        reduced = sharding.nbytes * (1 + 1 / ranks) * np.array([trained[each] for each in order])
        if order:
            rows[:, UNSHARDED] = sharding.parameter * _unreduced(blocks, shared)
            rows[order[1:], REDUCING] = reduced[:-1]
            behind[:, GATHERED] = rows[order, GATHERED] - element * sizes
            behind[:, UNSHARDED] = rows[order, UNSHARDED]
            behind[:, REDUCING] = reduced
        scattered = sharding.nbytes * (1 + 1 / ranks)
        end[:, GATHERED : REDUCING + 1] = (
            element * whole,
            sharding.parameter * gradients,
            scattered * gradients,
        )
    return np.concatenate((rows, behind, end))


def _unreduced(blocks: Sequence[Block], shared: Sequence[Unit]) -> Floats:
    """Elements of the unit of each block whose backward runs, and of the blocks of the root whose
    backward has begun."""
    result = np.zeros(len(blocks))
    for unit in shared:
        if not unit.root:
            result[unit.blocks[0]] += unit.gradients
        for place in unit.blocks if unit.root else ():
            result[: place + 1] += blocks[place].parameters + blocks[place].expert_parameters
    return result


def held_between_steps(work: Work, state: State, stage: int) -> Floats:
    """What a rank of a stage holds between steps: parameters, gradients and the optimizer."""
    degrees, sharding, blocks = work.times.degrees, work.sharding, work.stages[stage]
    total = state_bytes(
        blocks, state, sharding.zero, lambda group: degrees.size(sharding.sharing(group))
    )
    if sharding.rules and sharding.rules.copies_back:
        # Buckets hold the gradients once more, unless gradients are views of them.
        total[1] += sum(bucket.nbytes for bucket in buckets(blocks, sharding))
    return total


def state_bytes(
    blocks: Sequence[Block], state: State, zero: int, ranks: Callable[[str], int]
) -> Floats:
    """Bytes of parameters, gradients and the optimizer of a rank for some blocks under a stage of
    ZeRO, from the ranks of the group that shares them."""
    trained, total = elements(blocks), np.zeros(3)
    for group, count in elements(blocks, frozen=True).items():
        updated = trained.get(group, 0.0)
        total += np.multiply(updated, state.shared(zero, ranks(group)))
        nbytes = FROZEN / ranks(group) if zero == 3 else state.parameters
        total[0] += nbytes * (count - updated)
    return total


def _fixed(work: Work, state: State, communicator: float) -> Floats:
    """What each device holds all the time, where each group has the buffers of a communicator."""
    pipeline, sharding = work.pipeline, work.sharding
    of_stage = np.zeros((pipeline.stages, len(PARTS)))
    for stage, row in enumerate(of_stage):
        row[:ACTIVATIONS] = held_between_steps(work, state, stage)
        if sharding.zero >= 2 and not sharding.sync and pipeline.micro_batches > 1:
            row[UNSHARDED] = sum(elements(work.stages[stage]).values()) * sharding.nbytes
        whole = sum(elements(work.stages[stage], frozen=True).values())
        if sharding.zero == 3 and sharding.reshard not in (True, False):
            row[GATHERED] = whole * sharding.element / sharding.reshard
    fixed = np.zeros((pipeline.devices, len(PARTS)))
    np.add.at(fixed, pipeline.place, of_stage)
    degrees, kinds = work.times.degrees, ("tp", "cp", "pp", "ep", *work.groups)
    groups = sum(degrees.size(kind) > 1 for kind in kinds) + bool(sharding.shard)
    groups += degrees.expert_ranks not in (1, degrees.tp)
    fixed[:, PARTS.index("buffers")] = groups * communicator
    return fixed


def stages_of_zero(
    work: Work, state: Callable[[int], State], device: int = 0
) -> list[dict[str, float]]:
    """A record for each stage of ZeRO that the pipeline allows: what a rank of a device would hold
    and send under it. `state` is what a rank holds under a stage.

    `held` are bytes between steps, and `redundant` those beyond an equal share of all ranks that
    have the same parameters. `sent` are bytes that the rank sends in a step at least, for gradients
    and parameters.
    """
    rows, pipeline, size = [], work.pipeline, work.times.degrees.size
    # Bytes that a rank of a large ring sends for each byte of V.
    shares = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}
    mine = np.nonzero(pipeline.place == device)[1].tolist()
    last = np.isin(np.arange(len(pipeline)), pipeline.last)
    actions = np.stack((pipeline.stage, pipeline.kind, last), axis=1)[pipeline.device == device]
    for zero in range(4 if pipeline.copies == 1 else 2):
        # Runs of ranks share parameters from stage 2 on.
        shard = work.sharding.shard if zero >= 2 else 0
        sharding = replace(work.sharding, zero=zero, shard=shard, ahead=False)
        under = replace(work, sharding=sharding)
        total = least = 0.0
        calls: list[Call] = []
        for stage in mine:
            blocks = work.stages[stage]
            calls += [call for _, call in reductions(blocks, under.sharding)]
            calls += gathers(blocks, under.sharding)
            total += float(held_between_steps(under, state(zero), stage).sum())
            least += float(state_bytes(blocks, state(zero), 3, size).sum())
        for (stage, kind, is_last), number in Counter(map(tuple, actions.tolist())).items():
            calls += under.action(stage, kind, last=bool(is_last)).calls * number
        sent = sum(
            shares[call.collective] * call.nbytes * (1 - 1 / size(call.group)) for call in calls
        )
        sent += sum(nbytes for *ends, nbytes, _ in tied_gradients(under) if device in ends)
        rows.append({"zero": zero, "held": total, "redundant": total - least, "sent": sent})
    return rows
