"""What a rank of a plan would hold and send under each stage of ZeRO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from simulator.parallel.gradients import gathers, reductions
from simulator.parallel.plan_memory import State, held_between_steps
from simulator.parallel.sharding import elements
from simulator.parallel.step_work import Work
from simulator.parallel.updates import tied_gradients
from simulator.steps.step_graph import Call

SENT = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}
"""Bytes that a rank of a large ring sends for each byte of V."""


class Stage(NamedTuple):
    """A stage of ZeRO on a rank of a plan."""

    zero: int
    held: float
    """Bytes between steps."""
    redundant: float
    """Bytes of `held` beyond an equal share of all ranks that have the same parameters."""
    sent: float
    """Bytes that the rank sends in a step at least, for gradients and parameters."""


def stages_of_zero(work: Work, state: Callable[[int], State], device: int = 0) -> list[Stage]:
    """What a rank of a device would hold and send under each stage of ZeRO that the pipeline
    allows. `state` is what a rank holds under a stage."""
    rows = []
    for zero in range(4 if work.pipeline.copies == 1 else 2):
        gradients = replace(work.gradients, zero=zero)
        # Runs of ranks share parameters from stage 2 on.
        sharding = replace(work.sharding, shard=work.sharding.shard if zero >= 2 else 0)
        changed = replace(work, gradients=gradients, sharding=sharding)
        rows.append(_stage(changed, state(zero), device))
    return rows


def _stage(work: Work, state: State, device: int) -> Stage:
    """The stage of ZeRO of a plan on a device."""
    pipeline, gradients, size = work.pipeline, work.gradients, work.times.degrees.size
    held = least = 0.0
    calls: list[Call] = []
    for stage in np.nonzero(pipeline.place == device)[1].tolist():
        blocks = work.stages[stage]
        calls += [call for _, call in reductions(blocks, gradients)]
        calls += gathers(blocks, gradients, work.sharding)
        held += float(held_between_steps(work, state, stage).sum())
        for group, count in elements(blocks).items():
            least += count * sum(state.shared(3, size(group)))
    last = np.isin(np.arange(len(pipeline)), pipeline.last)
    actions = np.stack((pipeline.stage, pipeline.kind, last), axis=1)[pipeline.device == device]
    for (stage, kind, is_last), number in Counter(map(tuple, actions.tolist())).items():
        calls += work.action(stage, kind, last=bool(is_last)).calls * number
    sent = sum(SENT[each.collective] * each.nbytes * (1 - 1 / size(each.group)) for each in calls)
    sent += sum(nbytes for *ends, nbytes, _ in tied_gradients(work) if device in ends)
    return Stage(gradients.zero, held, held - least, sent)
