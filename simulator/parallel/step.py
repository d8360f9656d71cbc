"""A training step of a plan as a schedule on places.

A place stands for all ranks of a device of the pipeline: they do the same at the same time. Its
lanes are the streams of a rank. A collective is an operation on the stream of its group, which
takes as long as in all groups of its kind at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from simulator.engines import run
from simulator.parallel.operations import Columns
from simulator.parallel.passes import COMPUTE, HOST, SEND, WIDTH, Pass, pass_of
from simulator.parallel.pipelines.pipeline import Pipeline
from simulator.parallel.stage_transfers import Transfers, transfers
from simulator.parallel.step_work import Work
from simulator.parallel.updates import add_updates
from simulator.schedules.routed import Routed, route
from simulator.schedules.schedule import Schedule
from simulator.schedules.timeline import Timeline
from simulator.steps.kinds import FORWARD, TRANSFER
from simulator.steps.priced import priced
from simulator.steps.slowdown import with_slowdown
from simulator.steps.step_graph import MESSAGE, Call, StepGraph, padded
from topologies.topology import Floats, Ints

Detail = Literal["layers", "passes"]


@dataclass(frozen=True, eq=False)
class Step:
    """The operations of a step."""

    work: Work
    graph: StepGraph
    first: Ints
    """The first operation of each action of the pipeline."""
    entries: Ints
    """What the operations of each action wait for, shape (actions, 6); -1 is none."""
    tails: Ints
    """The operations with which each action ends, shape (actions, 2); -1 is none."""
    passes: tuple[Pass, ...]
    """What a device does for an action."""
    number: Ints
    """The place of each action's pass in `passes`."""
    sent: Transfers
    """The transfers between stages."""
    send: Ints
    """The operation of each transfer."""

    @cached_property
    def schedule(self) -> Schedule:
        """The operations on places."""
        return priced(self.graph)

    @property
    def spans(self) -> Floats:
        """The begin and the end of each action, shape (actions, 2): from when all that it waits for
        has ended, but for its launch."""
        finish = np.append(self.timeline.finish, 0.0)
        return np.stack([finish[rows].max(axis=1) for rows in (self.entries, self.tails)], axis=1)

    @cached_property
    def timeline(self) -> Timeline:
        """The step, simulated."""
        return self.simulated(self.graph.seconds)

    def simulated(self, seconds: Floats) -> Timeline:
        """The timeline of the step with these seconds of its tasks."""
        schedule, routed = replace(self.schedule, seconds=seconds), self._routed
        talking = (schedule.lane != COMPUTE) & (schedule.lane != HOST) & (seconds > 0)
        calls = np.flatnonzero(talking).astype(np.int32)
        return with_slowdown(
            lambda slower: run(replace(routed, schedule=replace(schedule, seconds=slower))),
            schedule,
            np.flatnonzero(schedule.lane == COMPUTE).astype(np.int32),
            (calls, calls),
            self.work.slowdown,
        )

    @cached_property
    def _routed(self) -> Routed:
        times = self.work.times
        places = times.degrees.groups("pp")[0]
        machine = replace(times.topology, placement=times.topology.placement[places])
        return route(self.schedule, machine)


def write(work: Work, detail: Detail = "layers") -> Step:
    """The operations of a step, an operation for each part of each layer, or for each pass of a
    stage where nothing overlaps with a part of it. Both take as long.

    Raises InputError if transfers are blocking and devices wait for each other without end.
    """
    pipeline = work.pipeline
    sent = transfers(pipeline, work.blocking)
    passes, number = _passes(work, detail)
    columns = Columns(work.times)
    first, send, join = _rows(columns, pipeline, passes, number, sent)
    _fill_actions(columns, pipeline, passes, number, first)
    _fill_transfers(columns, work, sent, send)
    tails = _tails(columns, passes, number, first, join)
    entries = _entries(pipeline, sent, tails, send, ends=work.blocking or work.synchronous)
    _wait(columns, passes, number, first, entries)
    _launch(columns, passes, number, first, sent.before, entries if work.synchronous else None)
    _wait_to_send(columns, sent, tails, send)
    last = pipeline.last.ravel().tolist()
    add_updates(
        columns,
        work,
        [_present(tails[row]) for row in (pipeline.starts[1:] - 1).tolist()],
        [
            [[int(first[row]) + end for end in each] for each in passes[number[row]].ends]
            for row in last
        ],
    )
    return Step(work, columns.built(), first, entries, tails, passes, number, sent, send)


def _passes(work: Work, detail: Detail) -> tuple[tuple[Pass, ...], Ints]:
    """The passes of all stages, and the number of that of each action. Collapsed are those during
    which no gradients are reduced."""
    pipeline = work.pipeline
    last = np.zeros(len(pipeline), dtype=np.bool_)
    last[pipeline.last] = True
    key = pipeline.kind.astype(np.int64) * pipeline.stages + pipeline.stage
    in_full = np.ones(len(key), dtype=np.bool_)
    if detail == "passes":
        in_full[:] = False
        paired = pipeline.paired.astype(np.bool_)
        in_full |= paired | np.roll(paired, 1)
        if work.gradients.overlap:
            in_full |= last
    names, number = np.unique(4 * key + 2 * last + in_full, return_inverse=True)
    known: dict[tuple[int, ...], Pass] = {}
    passes = []
    for name in names.tolist():
        kind, stage = divmod(name // 4, pipeline.stages)
        blocks, units = work.stages[stage], work.units(stage, kind, last=name & 2 > 0)
        alike = kind, units is not None and name & 2, *map(id, blocks)
        if alike not in known:
            known[alike] = pass_of(blocks, kind, work.times, units)
        passes.append(known[alike] if name % 2 or units else known[alike].collapsed(kind))
    return tuple(passes), number.astype(np.int32)


def _rows(
    columns: Columns, pipeline: Pipeline, passes: Sequence[Pass], number: Ints, sent: Transfers
) -> tuple[Ints, Ints, Ints]:
    """Make room for the operations of actions and transfers; returns the first operation of each
    action, that of each transfer, and the one with which each pair of actions ends (-1: no pair).
    """
    second = np.roll(pipeline.paired, 1)
    sizes = np.array([len(each.rows) for each in passes])[number]
    counts = np.append(sizes + second, np.ones(len(sent.sender), dtype=np.int64))[sent.order]
    at = np.empty(len(counts), dtype=np.int32)
    at[sent.order] = np.cumsum(counts) - counts
    columns.add(int(counts.sum()))
    first = at[: len(pipeline)]
    return first, at[len(pipeline) :], np.where(second, first + sizes, -1).astype(np.int32)


def _fill_actions(
    columns: Columns, pipeline: Pipeline, passes: Sequence[Pass], number: Ints, first: Ints
) -> None:
    for place, each in enumerate(passes):
        actions = np.flatnonzero(number == place)
        rows = (first[actions][:, None] + np.arange(len(each.rows))).ravel()
        calls = np.array([columns.call(row.call) for row in each.rows])
        for name, values in (*each.columns.items(), ("call", calls)):
            columns.fill(name, rows, np.tile(values, len(actions)))
        for name, column in (
            ("stage", pipeline.stage),
            ("micro", pipeline.micro),
            ("place", pipeline.device),
        ):
            columns.fill(name, rows, np.repeat(column[actions], len(each.rows)))


def _fill_transfers(columns: Columns, work: Work, sent: Transfers, send: Ints) -> None:
    pipeline = work.pipeline
    asks = sent.receiver + sent.slot
    behind = sent.boundary + (pipeline.kind[asks] != FORWARD)
    outputs = np.array([stage[-1].output if stage else 0.0 for stage in work.stages])
    nbytes = outputs[sent.boundary]
    ends = pipeline.device[sent.sender], pipeline.device[sent.receiver]
    known, row = np.unique(np.column_stack((*ends, nbytes)), axis=0, return_inverse=True)
    seconds, calls = np.zeros(len(known)), np.zeros(len(known), dtype=np.int32)
    for number, (start, end, size) in enumerate(known.tolist()):
        seconds[number] = work.times.transfer(int(start), int(end), size)
        calls[number] = columns.call(Call(f"{start:.0f} to {end:.0f}", MESSAGE, size))
    columns.fill("place", send, ends[0])
    columns.fill("peer", send, ends[1])
    columns.fill("lane", send, SEND)
    columns.fill("kind", send, TRANSFER)
    columns.fill("stage", send, behind)
    columns.fill("micro", send, pipeline.micro[asks])
    columns.fill("call", send, calls[row.ravel()])
    columns.fill("seconds", send, seconds[row.ravel()])


def _tails(columns: Columns, passes: Sequence[Pass], number: Ints, first: Ints, join: Ints) -> Ints:
    """The operations with which each action ends, shape (actions, 2). A pair of actions ends with
    an operation that takes no time."""
    local = padded([each.tails for each in passes], 2)[number]
    tails = np.where(local >= 0, first[:, None] + local, -1).astype(np.int32)
    second = np.flatnonzero(join >= 0)
    rows = join[second]
    for name in ("place", "kind", "stage", "micro"):
        columns.fill(name, rows, columns.last(name)[first[second]])
    for name in ("lane", "seconds"):
        columns.fill(name, rows, 0)
    columns.before[-1][rows, :4] = np.concatenate((tails[second - 1], tails[second]), axis=1)
    tails[second - 1] = tails[second] = np.stack((rows, np.full_like(rows, -1)), axis=1)
    return tails


def _entries(pipeline: Pipeline, sent: Transfers, tails: Ints, send: Ints, *, ends: bool) -> Ints:
    """What each action waits for: the action before on its device, what arrives, and where they
    count the `ends` of transfers behind the action before. The second action of a pair waits for
    what the first one waits for."""
    before = sent.before
    entries = np.full((len(pipeline), WIDTH - 1), -1, dtype=np.int32)
    entries[:, :2] = np.where(before[:, None] >= 0, tails[before], -1)
    entries[sent.receiver, 2 + sent.slot] = send
    if ends:
        ended = np.full((len(pipeline), 2), -1, dtype=np.int32)
        slot = np.ones(len(send), dtype=np.int32)
        slot[np.unique(sent.sender, return_index=True)[1]] = 0
        ended[sent.sender, slot] = send
        entries[:, 4:6] = np.where(before[:, None] >= 0, ended[before], -1)
    second = np.flatnonzero(np.roll(pipeline.paired, 1))
    entries[second] = entries[second - 1]
    return entries


def _wait(
    columns: Columns, passes: Sequence[Pass], number: Ints, first: Ints, entries: Ints
) -> None:
    """Fill in what the operations of all actions wait for."""
    before = columns.before[-1]
    for place, each in enumerate(passes):
        actions = np.flatnonzero(number == place)
        rows = np.where(each.before >= 0, first[actions][:, None, None] + each.before, -1)
        rows[:, each.enters, : WIDTH - 1] = entries[actions][:, None, :]
        at = first[actions][:, None] + np.arange(len(each.rows))
        before[at.ravel()] = rows.reshape(-1, WIDTH)


def _launch(
    columns: Columns,
    passes: Sequence[Pass],
    number: Ints,
    first: Ints,
    previous: Ints,
    entries: Ints | None,
) -> None:
    """Fill in what the CPU waits for before it launches an action: the launches of the action
    before, and what the action itself waits for if `entries` are given."""
    begin, end = np.array([each.launches for each in passes], dtype=np.int32).T[:, number]
    last = np.where(end >= 0, first + end, -1)
    actions = np.flatnonzero(begin >= 0)
    before, rows = columns.before[-1], first[actions] + begin[actions]
    if entries is not None:
        before[rows, : WIDTH - 1] = entries[actions]
    before[rows, -1] = np.where(previous[actions] >= 0, last[previous[actions]], -1)


def _wait_to_send(columns: Columns, sent: Transfers, tails: Ints, send: Ints) -> None:
    """Fill in what transfers wait for: the action before, and if they are blocking what the
    receiver does before."""
    before = columns.before[-1]
    before[send, :2] = tails[sent.sender]
    if sent.blocking:
        ready = sent.before[sent.receiver]
        before[send, 2:4] = np.where(ready[:, None] >= 0, tails[ready], -1)


def _present(numbers: Ints) -> list[int]:
    return [number for number in numbers.tolist() if number >= 0]
