"""The memory of training over time: parameters, optimizer state, activations, and buffers of the
communication."""

from __future__ import annotations

import numpy as np

from simulator.analysis import memory
from simulator.analysis.memory import Changes, Memory, joined
from simulator.schedules.timeline import Timeline
from simulator.steps.kinds import BACKWARD, FORWARD, KINDS, RESTART
from simulator.training.outline_memory import collective_memory
from simulator.training.plan import COMPUTE, Holdings, Plan
from simulator.training.replay import Replayed
from topologies.topology import Floats, Ints

_SIGN = np.zeros(len(KINDS))
"""What each kind of task does with activations: a forward keeps them, others release them."""
_SIGN[FORWARD], _SIGN[BACKWARD], _SIGN[RESTART] = 1.0, -1.0, -1.0


def footprint(plan: Plan, timeline: Timeline) -> Memory:
    """As :func:`simulator.analysis.memory.trace`, with what is in no slot.

    - What `plan.holdings` says, by default parameters, buffers and optimizer state of every worker:
      distinct once.
    - Activations, from the end of a layer's forward to the end of its backward: all are distinct.
    - What `plan.stored` says.

    The buffers of the gradients are held all the time; while they hold no gradient, they count as
    redundant. For outlines see
    :func:`simulator.training.outline_memory.collective_memory`.
    """
    holdings = plan.holdings or _replicas(plan)
    copies = Changes(
        np.zeros(len(holdings.ranks)),
        holdings.ranks,
        np.arange(len(holdings.ranks), dtype=np.int32),
    )
    once = Changes(np.zeros(1), np.array([holdings.distinct]), np.zeros(1, dtype=np.int32))
    activations, stored, distinct = _activations(plan, timeline), None, None
    if plan.stored is not None:
        task, rank, nbytes, alone = plan.stored
        stored, distinct = (_of_all(plan, timeline, task, each, rank) for each in (nbytes, alone))
    resident, live = (joined(activations, each) for each in (stored, distinct))
    if isinstance(timeline, Replayed):
        of_collectives, values = collective_memory(plan, timeline)
        resident, live = joined(resident, of_collectives), joined(live, values)
    return memory.trace(timeline.schedule, timeline, joined(copies, resident), joined(once, live))


def kept(plan: Plan) -> float:
    """Bytes that the fullest worker holds behind its forward, known without a simulation: all but
    messages on their way."""
    holdings, model = plan.holdings or _replicas(plan), plan.model
    return float(holdings.ranks.max()) + plan.schedule.nbytes_total + model.activations


def _replicas(plan: Plan) -> Holdings:
    """Parameters, buffers and optimizer state of every worker."""
    replica = plan.model.parameters * (1 + plan.model.state) + plan.model.buffers
    return Holdings(np.full(plan.workers, replica), replica)


def _activations(plan: Plan, timeline: Timeline) -> Changes:
    """Bytes that a forward leaves and that its backward, or the restart after it, releases; without
    a layer, of all layers."""
    graph = plan.graph
    layers = np.array([layer.activation for layer in plan.model.layers])
    nbytes = np.append(layers, layers.sum())[graph.layer] * _SIGN[graph.kind]
    computed = (graph.call < 0) & (graph.lane == COMPUTE) & (graph.place < plan.workers)
    chosen = np.flatnonzero(computed & (nbytes != 0)).astype(np.int32)
    return _of_all(plan, timeline, chosen, nbytes[chosen], graph.place[chosen])


def _of_all(plan: Plan, timeline: Timeline, task: Ints, nbytes: Floats, rank: Ints) -> Changes:
    """Bytes that appear or vanish with the ends of tasks, at all ranks."""
    times = timeline.finish[plan.last[task]]
    if plan.shifts is not None:
        elements = plan.shifts.elements
        times, nbytes = (np.repeat(column, len(elements)) for column in (times, nbytes))
        rank = plan.shifts.shifted(rank[:, None], elements).ravel().astype(np.int32)
    return Changes(times, nbytes, rank)
