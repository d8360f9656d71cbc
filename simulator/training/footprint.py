"""The memory of training: parameters, optimizer state, activations, and what the communication holds, over time."""

from __future__ import annotations

import numpy as np

from simulator import memory
from simulator.memory import Changes, Memory, joined
from simulator.schedule import COMPUTE as COMPUTATION
from simulator.timeline import Timeline
from simulator.training.plan import COMPUTE, Plan


def footprint(plan: Plan, timeline: Timeline) -> Memory:
    """As :func:`simulator.memory.trace`, with what is in no slot: the parameters, buffers and optimizer state of every
    worker (distinct once), and its activations from the end of a layer's forward to the end of its backward (all
    distinct). The gradients' buffers are held all the time; while they hold no gradient, they count as redundant.
    """
    model, start = plan.model, np.zeros(1)
    workers = np.arange(plan.workers, dtype=np.int32)
    replica = model.parameters * (1 + model.state) + model.buffers
    copies = Changes(np.zeros(plan.workers), np.full(plan.workers, replica), workers)
    once = Changes(start, np.array([replica]), np.zeros(1, dtype=np.int32))
    kept = _activations(plan, timeline)
    return memory.trace(timeline.schedule, timeline, joined(copies, kept), joined(once, kept))


def _activations(plan: Plan, timeline: Timeline) -> Changes:
    """Bytes that a forward leaves and its backward lets go; a phase that names no layer is all of them."""
    schedule = timeline.schedule
    nbytes = np.array([_kept(plan, phase) for phase in schedule.phases] or [0.0])[schedule.phase]
    computed = (schedule.kind == COMPUTATION) & (schedule.lane == COMPUTE) & (schedule.rank < plan.workers)
    chosen = np.flatnonzero(computed & (nbytes != 0))
    return Changes(timeline.finish[chosen], nbytes[chosen], schedule.rank[chosen])


def _kept(plan: Plan, phase: str) -> float:
    kind, _, name = phase.partition(" ")
    sign = {"forward": 1.0, "backward": -1.0}.get(kind, 0.0)
    return sign * sum(layer.activation for layer in plan.model.layers if name in ("", layer.name))
