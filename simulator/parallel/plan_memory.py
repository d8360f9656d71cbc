"""The memory of the ranks of a plan: what they hold between steps, and what they hold at most.

Between steps a rank holds parameters, gradients and the optimizer, or its share of them (ZeRO,
Rajbhandari et al., arXiv 1910.02054, section 3). In a step come activations, units that are
gathered, and gradients that have not been scattered.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from simulator.parallel.pass_memory import Moment, fullest, kept_by
from simulator.parallel.sharding import elements
from simulator.parallel.step_work import Work
from simulator.steps.kinds import FORWARD, INPUTS, WEIGHTS
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


class Overheads(NamedTuple):
    """Memory besides tensors."""

    communicator: float = 0.0
    """Bytes of the buffers of a communicator: of each group of more than one rank."""
    context: float = 0.0
    """Bytes of the device's context and libraries."""
    fragmentation: float = 1.0
    """What the allocator takes for each byte that comes and goes in a step."""


STATE, NONE = State(), Overheads()
PARTS = (*State._fields, *Moment._fields, "buffers", "context", "fragmentation")
"""The parts of the memory of a rank. `buffers` are those of communicators."""


@dataclass(frozen=True, eq=False)
class Memory:
    """Bytes of a rank of each device of a pipeline."""

    fixed: Floats
    """What is held all the time, shape (devices, parts)."""
    held: Floats
    """What each action of the pipeline holds when it holds most, shape (actions, parts)."""
    starts: tuple[int, ...]
    """The first action of each device, and the number of actions."""

    @cached_property
    def peaks(self) -> Floats:
        """The parts at the moment at which each device holds most, shape (devices, parts)."""
        rows = [
            self.held[begin + self.held[begin:end].sum(axis=1).argmax()]
            for begin, end in zip(self.starts[:-1], self.starts[1:], strict=True)
        ]
        return np.array(rows)

    @property
    def fullest(self) -> int:
        """The device that holds most."""
        return int(self.peaks.sum(axis=1).argmax())

    @property
    def peak(self) -> float:
        """Bytes that a rank of the fullest device holds at most."""
        return float(self.peaks.sum(axis=1).max())

    def parts(self, device: int) -> dict[str, float]:
        """The parts of a device when it holds most; those without bytes are left out."""
        row = self.peaks[device].tolist()
        return {name: nbytes for name, nbytes in zip(PARTS, row, strict=True) if nbytes}


def memory(work: Work, state: State = STATE, overheads: Overheads = NONE) -> Memory:
    """The memory of a step. It follows from the order of actions: nothing is simulated."""
    if not overheads.fragmentation >= 1:
        raise InputError(f"fragmentation is {overheads.fragmentation}: 1 or more")
    pipeline = work.pipeline
    width = len(Moment._fields)
    most = np.zeros((4, pipeline.stages, width))
    ranks = sharing(work, "data")
    for number in sorted(set(pipeline.kind.tolist())):
        for place, blocks in enumerate(work.stages):
            most[number, place] = fullest(blocks, number, work.gradients, work.sharding, ranks)
    keeps = np.array([kept_by(blocks) for blocks in work.stages])
    later = np.array([kept_by(blocks, weights=True) for blocks in work.stages])
    kind, stage = pipeline.kind[:, None], pipeline.stage
    change = np.where(kind == FORWARD, keeps[stage], 0.0 - keeps[stage])
    change = np.where(kind == INPUTS, change + later[stage], change)
    change = np.where(kind == WEIGHTS, 0.0 - later[stage], change)
    # Every device ends with nothing, so that the sums of the devices before are 0.
    before = np.cumsum(change, axis=0) - change
    released = np.where(kind == WEIGHTS, later[stage], keeps[stage])
    moving = before - np.where(kind == FORWARD, 0.0, released) + most[pipeline.kind, stage]
    second = np.flatnonzero(np.roll(pipeline.paired, 1))
    moving[second] += most[FORWARD, stage[second - 1]] - keeps[stage[second - 1]]
    fixed = _fixed(work, state, overheads)
    moments = fixed[pipeline.device]
    moments[:, 3 : 3 + width] += moving
    moments[:, -1] = (overheads.fragmentation - 1) * moments[:, 3 : 3 + width].sum(axis=1)
    return Memory(fixed, moments, tuple(pipeline.starts.tolist()))


def sharing(work: Work, group: str) -> int:
    """The ranks that share the parameters of a kind of group."""
    return work.sharding.shard or work.times.degrees.size(group)


def _fixed(work: Work, state: State, overheads: Overheads) -> Floats:
    """What each device holds all the time."""
    pipeline, gradients, sharding = work.pipeline, work.gradients, work.sharding
    degrees = work.times.degrees
    fixed = np.zeros((pipeline.devices, len(PARTS)))
    states = [_state_of(work, stage, state) for stage in range(pipeline.stages)]
    whole = _whole(work)
    for copy in pipeline.place.tolist():
        for stage, device in enumerate(copy):
            fixed[device, :3] += states[stage]
            if gradients.zero >= 2 and not sharding.sync and pipeline.micro_batches > 1:
                fixed[device, PARTS.index("unsharded")] += whole[stage] * gradients.nbytes
            if gradients.zero == 3 and sharding.reshard not in (True, False):
                share = whole[stage] * gradients.parameter / sharding.reshard
                fixed[device, PARTS.index("gathered")] += share
    kinds = ("tp", "cp", "pp", "ep", *work.groups)
    groups = sum(degrees.size(kind) > 1 for kind in kinds) + bool(sharding.shard)
    fixed[:, PARTS.index("buffers")] = groups * overheads.communicator
    fixed[:, PARTS.index("context")] = overheads.context
    return fixed


def _whole(work: Work) -> list[float]:
    """Elements of the parameters of each stage."""
    return [sum(count for _, count in elements(stage)) for stage in work.stages]


def _state_of(work: Work, stage: int, state: State) -> Floats:
    """What a rank of a stage holds between steps."""
    zero, total = work.gradients.zero, np.zeros(3)
    for group, count in elements(work.stages[stage]):
        total += count * np.array(state.shared(zero, sharing(work, group)))
    return total
