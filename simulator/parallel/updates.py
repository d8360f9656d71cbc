"""What follows the backwards of a step: gradients are reduced, and parameters updated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.parallel.passes import COMPUTE, STREAMS, TIED, Row, Rows
from simulator.parallel.sharding import copies_out, gathers, reductions
from simulator.parallel.step_work import Work
from simulator.steps.kinds import COPY, GATHER, OPTIMIZER, REDUCE
from simulator.steps.step_graph import Call


def updates(
    work: Work, first: int, ends: Sequence[Rows], blocks: Sequence[Sequence[Rows]]
) -> list[tuple[int, int, Row]]:
    """Device, stage and row of the reductions of gradients, of what copies these out of buckets, of
    the optimizers, and of what gathers parameters, from task `first` on.

    `ends` are the tasks with which each device ends its last action, `blocks` those with which each
    block ends its last backward, by copy and stage and in the order of the backward.
    """
    pipeline, sharding, rows = work.pipeline, work.sharding, list[tuple[int, int, Row]]()

    def add(device: int, stage: int, row: Row) -> int:
        rows.append((device, stage, row))
        return first + len(rows) - 1

    def add_call(device: int, stage: int, lane: int, kind: int, before: Rows, call: Call) -> int:
        seconds = work.times.seconds(*call[:3])
        return add(device, stage, Row(lane, seconds, kind, before, call=call))

    pending = [list(end) for end in ends]
    for number, made in enumerate(blocks):
        copy, stage = divmod(number, pipeline.stages)
        device = int(pipeline.place[copy, stage])
        if sharding.zero >= 2:
            pending[device] += made[-1] if made else ()
        done = []
        for block, reduced in reductions(work.stages[stage], sharding):
            before = made[block] if block >= 0 else ends[device]
            lane = STREAMS.index(reduced.group)
            done.append(add_call(device, stage, lane, REDUCE, before, reduced))
        pending[device] += done
        for reduction, seconds in zip(done, copies_out(work.stages[stage], sharding), strict=False):
            back = Row(COMPUTE, seconds, COPY, (*ends[device], reduction))
            pending[device].append(add(device, stage, back))
    for *pair, nbytes, stage in tied_gradients(work):
        tied = Call(f"{pair[0]} to {pair[1]}", "all_reduce", nbytes)
        before = (*pending[pair[0]], *pending[pair[1]])
        for device in pair:
            pending[device].append(add_call(device, stage, TIED, REDUCE, before, tied))
    for device in range(pipeline.devices):
        stages = np.flatnonzero((pipeline.place == device).any(axis=0)).tolist()
        seconds = sum(sharding.seconds_of(stage) for stage in stages)
        updated = add(device, -1, Row(COMPUTE, seconds, OPTIMIZER, tuple(pending[device])))
        for stage in stages:
            for gathered in gathers(work.stages[stage], sharding):
                lane = STREAMS.index(gathered.group.partition("/")[0])
                add_call(device, stage, lane, GATHER, (updated,), gathered)
    return rows


def tied_gradients(work: Work) -> list[tuple[int, int, float, int]]:
    """Two devices, the bytes of gradients that they share, and their stage: of the embedding at
    both ends of the pipeline, and of a stage of which two devices have a copy."""
    pipeline, sharding = work.pipeline, work.sharding
    shared = [(row[0], row[-1], sharding.tied, 0) for row in pipeline.place.tolist()]
    for stage, devices in enumerate(pipeline.place.T.tolist() if pipeline.copies > 1 else ()):
        nbytes = sum(call.nbytes for _, call in reductions(work.stages[stage], sharding))
        share = work.times.degrees.size("data") if sharding.zero else 1
        shared.append((devices[0], devices[1], nbytes / share, stage))
    return [row for row in shared if row[0] != row[1] and row[2]]
