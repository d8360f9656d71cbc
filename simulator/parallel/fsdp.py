"""Fully sharded data parallel: workers share parameters, gradients and optimizer state.

A step has the tasks of a plan whose data-parallel ranks are all workers. The rules are those of
:mod:`simulator.parallel.sharding`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from simulator.collectives import find
from simulator.collectives.collective import REDUCE_SCATTER
from simulator.parallel.blocks import Block, BlockPart
from simulator.parallel.degrees import Degrees
from simulator.parallel.group_times import ALGORITHMS, GroupTimes
from simulator.parallel.passes import COMPUTE, DATA, STREAMS
from simulator.parallel.pipelines import find as find_order
from simulator.parallel.sharding import Sharding
from simulator.parallel.step import Step, write
from simulator.parallel.step_work import Work
from simulator.steps import kinds
from simulator.steps.kinds import BACKWARD, FORWARD, OPTIMIZER, Label
from simulator.training.communicator import Communicator
from simulator.training.model import WIDTHS, Layer, Model
from simulator.training.plan import HeldBytes, Holdings, Plan, Setting
from simulator.training.strategy import Strategy, option
from simulator.training.trainer import Trainer
from topologies.errors import InputError
from topologies.topology import Ints

COLLECTIVES = {"all_gather": kinds.ALL_GATHER, "reduce_scatter": kinds.REDUCE_SCATTER}
ROOT, MODEL = "root", "model"
"""The unit of layers outside of numbered modules, and the dtypes of the model."""


@dataclass(frozen=True)
class FSDP(Strategy):
    """Workers gather the parameters of a unit before it runs. Behind its backward they reduce its
    gradients, of which each keeps its share.

    The layers of a numbered module, like layers.0 or layer1.2, are a unit. The root's unit has all
    others, and stays gathered from the forward to the backward.
    """

    promise = REDUCE_SCATTER
    algo = "rings"
    """A library knows the calls as halves of this all-reduce."""

    zero: int = option(3, "what workers share: 2 optimizer and gradients, 3 parameters too")
    reshard: bool = option(True, "no: parameters stay gathered until the backward ends")
    fsdp: int = option(2, "the version of PyTorch's FSDP, 1 or 2")
    accumulate: int = option(1, "batches a step")
    sync: bool = option(True, "no: gradients are reduced behind the last batch alone")
    wire: str = option(MODEL, "dtype in collectives, like bf16; model: those of the model")

    def __post_init__(self) -> None:
        if self.zero not in (2, 3):
            raise InputError(f"zero={self.zero}: fsdp has 2 and 3, and a plan has all stages")
        if self.wire not in (MODEL, *WIDTHS):
            raise InputError(f"wire={self.wire[:40]}: one of {', '.join((MODEL, *WIDTHS))}")
        if not 1 <= self.accumulate <= 1024:
            raise InputError(f"accumulate={self.accumulate}: 1 to 1024 batches")
        Sharding(fsdp=self.fsdp)

    def work(self, model: Model, times: GroupTimes) -> Work:
        """What a step does, as a plan has it. The workers are those of the degrees of `times`."""
        stage = list[Block]()
        for name, layers in _units(model):
            forward = (BlockPart(sum(layer.forward for layer in layers)),)
            backward = (BlockPart(sum(layer.backward for layer in layers)),)
            elements = sum(layer.nbytes for layer in layers) / WIDTHS[model.dtype]
            stage.append(Block(name, forward, backward, (), backward, parameters=elements))
        wired = self.wire != MODEL
        sharding = Sharding(
            WIDTHS[self.wire if wired else model.gradient_dtype],
            WIDTHS[self.wire if wired else model.dtype],
            self.zero,
            optimizer=(model.optimizer / times.degrees.dp,),
            reshard=self.reshard,
            sync=self.sync,
            fsdp=self.fsdp,
            bandwidth=model.memory_bandwidth,
            root=(ROOT,),
        )
        pipeline = find_order("1f1b").build(devices=1, micro_batches=self.accumulate)
        return Work((tuple(stage),), pipeline, times, sharding)

    def plan(self, model: Model, setting: Setting) -> Plan:
        workers, alike = setting.ranks, setting.alike(model)
        step = write(self.work(model, _UnknownTimes(setting.topology, Degrees(dp=workers))))
        communicators = {
            name: Communicator(setting, find(ALGORITHMS[name][0]), alike=alike)
            for name in COLLECTIVES
        }
        reduction = communicators["reduce_scatter"]
        trainer = Trainer(model, setting, STREAMS, reduction)
        if workers == 1:
            # A worker alone has the same buffer.
            label, buffer = Label(kinds.REDUCE_SCATTER), reduction.large(model.gradients)
            trainer.collective(label, buffer, lane=DATA, memory="shared")
        tasks, stored, changes = list[Ints](), list[Ints](), _changes(step)
        for _ in trainer.attempts:
            tasks = _write(trainer, step, communicators, tasks[-1:])
            stored += [tasks[task] for task, *_ in changes]
        parameters, state = model.parameters, model.parameters * model.state
        added = 0.0 if self.sync or self.accumulate == 1 else model.gradients
        share = parameters / (workers if self.zero == 3 else 1) + state / workers
        kept, distinct = model.buffers + added, model.buffers + workers * added
        return trainer.plan(
            holdings=Holdings(np.full(workers, share + kept), parameters + state + distinct),
            stored=_stored(stored, len(trainer.ranks), changes) if changes else None,
            words=reduction.words,
        )


class _UnknownTimes(GroupTimes):
    """Times of collectives that a run finds out."""

    def by_place(self, kind: str, collective: str, nbytes: float) -> Mapping[int, float]:
        return {0: 0.0}


def _units(model: Model) -> list[tuple[str, tuple[Layer, ...]]]:

    def module(layer: Layer) -> str:
        numbered = re.match(r"(.*\d)\.", layer.name)
        return numbered[1] if numbered else ROOT

    return [(name, tuple(layers)) for name, layers in groupby(model.layers, module)]


def _changes(step: Step) -> list[tuple[int, float, float]]:
    """Tasks with whose ends units are gathered or freed, and gradients wait for their reduction or
    are reduced; bytes that appear; and how many of these are no duplicates."""
    graph, (stage,), reshard = step.graph, step.work.stages, step.work.sharding.reshard
    changes, gathered = list[tuple[int, float, float]](), dict[int, float]()
    for task, layer in enumerate(graph.layer.tolist()):
        call, kind = graph.call_of(task), graph.kind[task]
        if call is None:
            freed = kind == BACKWARD or (kind == FORWARD and reshard and stage[layer].name != ROOT)
            if freed and layer in gathered:
                changes.append((task, -gathered.pop(layer), 0.0))
        elif call.collective == "reduce_scatter":
            copied = int(graph.predecessors(task)[0])
            changes += [(copied, call.nbytes, call.nbytes), (task, -call.nbytes, -call.nbytes)]
        elif layer >= 0:
            gathered[layer] = call.nbytes
            changes.append((task, call.nbytes, 0.0))
    return changes


def _stored(
    tasks: Sequence[Ints], ranks: int, changes: list[tuple[int, float, float]]
) -> HeldBytes:
    columns = np.array(changes * (len(tasks) // len(changes)))[:, 1:].repeat(ranks, axis=0)
    return HeldBytes(np.concatenate(tasks), *columns.T)


def _write(
    trainer: Trainer, step: Step, communicators: Mapping[str, Communicator], start: list[Ints]
) -> list[Ints]:
    """Write a step behind `start`; returns its tasks. If a worker fails, the restart stands for all
    behind the first forward."""
    graph, forward, tasks = step.graph, int(step.tails[0].max()), list[Ints]()
    optimizer = trainer.model.optimizer_of(len(trainer.ranks)) / graph.ranks
    batches = int(graph.micro.max()) + 1
    # A task of no block has the last name.
    units = [*_units(trainer.model), ("", ())]
    for task in range(len(graph)):
        before = [tasks[each] for each in graph.predecessors(task).tolist()] or start
        call, kind, lane = graph.call_of(task), int(graph.kind[task]), int(graph.lane[task])
        name, layers = units[graph.layer[task]]
        if call is not None:
            label = Label(COLLECTIVES[call.collective], name)
            last = call.collective == "reduce_scatter" and graph.micro[task] == batches - 1
            done = trainer.collective(
                label,
                communicators[call.collective].large(call.nbytes),
                *before,
                lane=lane,
                memory="shared" if last else "elsewhere",
            )
        elif kind == FORWARD:
            done = [trainer.forward(layer, *before) for layer in layers][-1]
        elif kind == BACKWARD:
            done = [trainer.backward(layer, *before) for layer in reversed(layers)][-1]
        else:
            seconds = optimizer if kind == OPTIMIZER else graph.seconds[task]
            factor = trainer.factor if lane == COMPUTE else 1.0
            done = trainer.compute(Label(kind, name), seconds * factor, *before, lane=lane)
        tasks.append(done)
        if task == forward and trainer.failed():
            return tasks + [trainer.tail] * (len(graph) - len(tasks))
    trainer.end(tasks[-1], batches=batches)
    return tasks


STRATEGIES = {"fsdp": FSDP}
