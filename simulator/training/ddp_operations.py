"""The operations of DDP's steps: forward, backward, all-reduces of the buckets, optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.schedules.schedule import Schedule
from simulator.steps import kinds
from simulator.steps.kinds import Label
from simulator.training import bucket_costs
from simulator.training.bucket_costs import Costs, Overheads
from simulator.training.buckets import Bucket
from simulator.training.communicator import Communicator
from simulator.training.model import Layer
from simulator.training.plan import COMMUNICATION
from simulator.training.step_lowering import Memory
from simulator.training.trainer import Trainer
from topologies.topology import Ints

if TYPE_CHECKING:
    from simulator.training.ddp import DDP


SCALAR = 4.0
"""Bytes of a number in fp32."""


class Reduced(NamedTuple):
    """The buckets of a step."""

    buckets: list[Bucket]
    memory: Memory
    """When their buffers are held."""
    costs: Costs


class Steps:
    """The steps of one run of DDP."""

    def __init__(
        self, options: DDP, trainer: Trainer, communicator: Communicator, overheads: Overheads
    ) -> None:
        self.options, self.trainer, self.communicator = options, trainer, communicator
        self.overheads = overheads
        self.layers = trainer.model.layers
        self.waits: list[Ints | None] = []

    def reduced(self, buckets: list[Bucket], memory: Memory = "held") -> Reduced:
        """The `buckets` of a step."""
        ranks = self.trainer.setting.ranks
        sent = 2 * (ranks - 1) / ranks * self.options.wire(1.0)
        costs = bucket_costs.costs(self.trainer.model, buckets, sent, self.overheads)
        return Reduced(buckets, memory, costs)

    def start(self, buckets: list[Bucket]) -> None:
        """Rank 0's model goes to all; the first iteration has `buckets` of its own."""
        model = self.trainer.model
        replica = self.communicator.broadcast(model.parameters + model.buffers)
        self.waits.append(self._call(Label(kinds.BROADCAST, "model"), replica))
        self.step(self.reduced(buckets, "used"))

    def step(self, reduced: Reduced) -> None:
        """Forwards and backwards of all batches, the collectives of the last, the optimizer."""
        self.waits.append(self._prepared())
        if self.trainer.setting.conditions.batches:
            self._scalar(Label(kinds.ALL_REDUCE, "join"), self.trainer.tail)
        for batch in range(self.options.accumulate):
            self._forward(first=batch == 0)
            if self.trainer.failed():
                return
            last = batch == self.options.accumulate - 1
            if last:
                self._walk()
            begun = self.trainer.tail
            arrived = self._backward(reduced.costs if last else None)
        self._reduce(reduced, arrived, begun)
        self.trainer.optimize(*self.trainer.streams())
        metric = None
        if self.options.metric:
            metric = self._scalar(Label(kinds.ALL_REDUCE, "metric"), self.trainer.tail)
        self.trainer.end(metric, batches=self.options.accumulate)
        self.waits.append(metric)

    def _call(self, label: Label, schedule: Schedule, *after: Ints | None) -> Ints:
        """A collective beside those of the buckets."""
        return self.trainer.collective(label, schedule, *after, seconds=self.options.launch)

    def _scalar(self, label: Label, *after: Ints | None) -> Ints:
        """An all-reduce of a number."""
        return self._call(label, self.communicator.small(SCALAR), *after)

    def _prepared(self) -> Ints | None:
        """Rank 0 prepares data; all wait for it at a barrier."""
        if not self.options.prepare:
            return None
        tail = self.trainer.tail
        before = np.full(self.trainer.setting.ranks, -1, np.int32) if tail is None else tail.copy()
        before[:1] = self.trainer.compute(
            Label(kinds.PREPARE, "data"),
            self.options.prepare,
            before[:1],
            lane=self._host,
            ranks=np.zeros(1, np.int32),
        )
        return self._scalar(Label(kinds.BARRIER), before)

    def _forward(self, *, first: bool) -> None:
        model = self.trainer.model
        if first and self.options.broadcast_buffers and model.buffers:
            statistics = self.communicator.broadcast(model.buffers)
            label = Label(kinds.BROADCAST, "buffers")
            self.waits.append(self._call(label, statistics, self.trainer.tail, *self.waits))
        for layer in self.layers:
            self.trainer.forward(layer, *self.waits)
            self.waits = []
            if self._is_normed(layer):
                nbytes = (2 * layer.channels + 1) * SCALAR * self.trainer.setting.ranks
                gathered = self.communicator.all_gather(nbytes)
                label = Label(kinds.ALL_GATHER, layer.name)
                self.waits.append(self._call(label, gathered, self.trainer.tail))

    def _is_normed(self, layer: Layer) -> bool:
        """Whether a layer sees the batch of all ranks."""
        return self.options.sync_batch_norm and layer.channels > 0

    def _walk(self) -> None:
        """Which parameters take part: found before the backward that is synchronised."""
        if self.options.find_unused:
            seconds = self.options.walk * sum(len(layer.tensors) for layer in self.layers)
            self.trainer.compute(Label(kinds.WALK), seconds * self.trainer.factor)

    def _backward(self, costs: Costs | None) -> list[Ints]:
        """Layer by layer, the last first; returns the operations after which the gradients of each
        are there, and in their buckets if `costs` says what that takes."""
        arrived: list[Ints] = []
        slower = costs.slower if costs else [0.0] * len(self.layers)
        copies = costs.copies_in if costs else {}
        for number, layer in reversed(list(enumerate(self.layers))):
            synced = None
            if self._is_normed(layer):
                sums = self.communicator.small(2 * layer.channels * SCALAR)
                label = Label(kinds.ALL_REDUCE, layer.name)
                synced = self._call(label, sums, self.trainer.tail)
            done = self.trainer.backward(layer, *self.waits, synced, slower=slower[number])
            if number in copies:
                label = Label(kinds.COPY, f"{layer.name} into buckets")
                done = self._copy(label, copies[number])
            arrived.append(done)
            self.waits = []
        return arrived[::-1]

    def _copy(self, label: Label, seconds: float, *after: Ints) -> Ints:
        return self.trainer.compute(label, seconds * self.trainer.factor, *after)

    def _reduce(self, reduced: Reduced, arrived: list[Ints], begun: Ints | None) -> None:
        """A bucket is launched when it is full, its hooks are done and all before it are launched.
        The CPU calls the first hook when the operations `begun` before the backward are done. The
        averages are copied back after the backward."""
        (buckets, memory, costs), streams = reduced, self.options.streams
        launched, hooked, left = None, begun, list[Ints]()
        for number, bucket in enumerate(buckets):
            full = arrived[min(bucket.layers)] if self.options.overlap else self.trainer.tail
            packing = self._packing(bucket)
            begin, lane = self.options.launch + packing, COMMUNICATION + number % streams
            if number in costs.late:
                hooked = self._hook(number, costs.late[number], hooked)
            waits = full, launched, hooked if number in costs.late else None
            if streams > 1:
                # On several streams collectives do not wait for each other, but their launches do.
                launched = self.trainer.call(f"launch of bucket {number}", begin, lane, *waits)
                begin, waits = 0.0, (launched, None, None)
            last = self.trainer.collective(
                Label(kinds.ALL_REDUCE, f"bucket {number}", bucket=number),
                self.communicator.large(self.options.wire(bucket.nbytes)),
                *waits,
                lane=lane,
                seconds=begin,
                memory=memory,
            )
            if packing:
                last = self.trainer.call(f"unpacking of bucket {number}", packing, lane, last)
            left.append(last)
        if self.options.find_unused:
            tensors = sum(len(layer.tensors) for layer in self.layers)
            used = self.communicator.small(SCALAR * tensors)
            label = Label(kinds.ALL_REDUCE, "used parameters")
            self._call(label, used, self.trainer.tail, launched)
        for number, seconds in enumerate(costs.copies_out):
            self._copy(Label(kinds.COPY, f"bucket {number} back"), seconds, left[number])

    def _hook(self, number: int, seconds: float, before: Ints | None) -> Ints:
        """The hooks of a bucket on the CPU, after those `before`."""
        label, trainer = Label(kinds.HOOKS, f"of bucket {number}"), self.trainer
        return trainer.compute(label, seconds * trainer.factor, before, lane=self._host)

    @property
    def _host(self) -> int:
        """The lane of the CPU, after the communication streams."""
        return COMMUNICATION + self.options.streams

    def _packing(self, bucket: Bucket) -> float:
        """Seconds to compress a bucket or to expand it: read it and write half of it, or the
        reverse."""
        return (
            1.5 * bucket.nbytes / self.trainer.model.memory_bandwidth
            if self.options.compress
            else 0.0
        )
