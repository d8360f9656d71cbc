"""What follows the backwards of a step: gradients are reduced, and parameters updated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.parallel.gradients import gathers, reductions
from simulator.parallel.operations import Columns
from simulator.parallel.passes import COMPUTE, STREAMS, TIED
from simulator.parallel.step_work import Work
from simulator.steps.kinds import GATHER, OPTIMIZER, REDUCE
from simulator.steps.step_graph import Call


def add_updates(
    columns: Columns, work: Work, ends: Sequence[list[int]], blocks: Sequence[list[list[int]]]
) -> None:
    """Add the reductions of gradients, the optimizers, and what gathers parameters.

    `ends` are the operations with which each device ends its last action, `blocks` those with which
    each block ends its last backward, by copy and stage and in the order of the backward.
    """
    pipeline, gradients = work.pipeline, work.gradients
    pending = [list(end) for end in ends]
    for number, made in enumerate(blocks):
        copy, stage = divmod(number, pipeline.stages)
        device = int(pipeline.place[copy, stage])
        if gradients.zero >= 2:
            pending[device] += made[-1] if made else []
        for block, call in reductions(work.stages[stage], gradients):
            before = made[block] if block >= 0 else ends[device]
            pending[device].append(_collective(columns, work, device, stage, REDUCE, call, before))
    _tie(columns, work, pending)
    for device in range(pipeline.devices):
        stages = np.flatnonzero((pipeline.place == device).any(axis=0)).tolist()
        seconds = sum(gradients.seconds_of(stage) for stage in stages)
        updated = columns.one(
            pending[device], place=device, lane=COMPUTE, kind=OPTIMIZER, seconds=seconds
        )
        for stage in stages:
            for each in gathers(work.stages[stage], gradients, work.sharding):
                _collective(columns, work, device, stage, GATHER, each, [updated])


def _collective(
    columns: Columns,
    work: Work,
    device: int,
    stage: int,
    kind: int,
    call: Call,
    before: Sequence[int],
) -> int:
    """Add a collective of parameters or gradients; returns its operation."""
    return columns.one(
        before,
        place=device,
        lane=STREAMS.index(call.group.partition("/")[0]),
        kind=kind,
        stage=stage,
        seconds=work.times.seconds(call.group, call.collective, call.nbytes),
        call=columns.call(call),
    )


def tied_gradients(work: Work) -> list[tuple[int, int, float, int]]:
    """Two devices, the bytes of gradients that they share, and their stage: of the embedding at
    both ends of the pipeline, and of a stage of which two devices have a copy."""
    pipeline, gradients = work.pipeline, work.gradients
    shared = [(row[0], row[-1], gradients.tied, 0) for row in pipeline.place.tolist()]
    for stage, devices in enumerate(pipeline.place.T.tolist() if pipeline.copies > 1 else ()):
        nbytes = sum(call.nbytes for _, call in reductions(work.stages[stage], gradients))
        share = work.times.degrees.size("data") if gradients.zero else 1
        shared.append((devices[0], devices[1], nbytes / share, stage))
    return [row for row in shared if row[0] != row[1] and row[2]]


def _tie(columns: Columns, work: Work, pending: list[list[int]]) -> None:
    """Add the sums of gradients that two devices share."""
    for first, last, nbytes, stage in tied_gradients(work):
        call = columns.call(Call(f"{first} to {last}", "all_reduce", nbytes))
        seconds = work.times.among((first, last), "all_reduce", nbytes)
        before = [*pending[first], *pending[last]]
        for device in (first, last):
            row = {"place": device, "lane": TIED, "kind": REDUCE, "stage": stage, "call": call}
            pending[device].append(columns.one(before, seconds=seconds, **row))
