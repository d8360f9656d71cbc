"""The operations of DDP's steps: forward, backward, all-reduces of the buckets, optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.steps import kinds
from simulator.training import bucket_costs
from simulator.training.bucket_costs import Costs, Overheads
from simulator.training.buckets import Bucket
from simulator.training.communicator import Layout, Region
from simulator.training.conditions import Attempt
from simulator.training.plan import COMMUNICATION, Label
from simulator.training.trainer import Trainer, columns
from topologies.topology import Ints

if TYPE_CHECKING:
    from simulator.training.ddp import DDP


class Reduced(NamedTuple):
    """The buckets of a step."""

    buckets: list[Bucket]
    regions: list[Region]
    """Where the collective of each bucket is."""
    costs: Costs


class Steps:
    """The steps of one run of DDP."""

    def __init__(self, options: DDP, trainer: Trainer, slots: Layout, overheads: Overheads) -> None:
        self.options, self.trainer, self.slots = options, trainer, slots
        self.overheads = overheads
        self.layers = trainer.model.layers
        self.waits: list[Ints | None] = []

    def reduced(self, buckets: list[Bucket], regions: list[Region]) -> Reduced:
        """The `buckets` of a step, whose collectives are in `regions`."""
        ranks = self.trainer.setting.ranks
        sent = 2 * (ranks - 1) / ranks * self.options.wire(1.0)
        costs = bucket_costs.costs(self.trainer.model, buckets, sent, self.overheads)
        return Reduced(buckets, regions, costs)

    def start(self, buckets: list[Bucket]) -> None:
        """Rank 0's model goes to all; the first iteration has `buckets` of its own."""
        self.waits.append(self._extra("model", Label(kinds.BROADCAST, "model")))
        regions = [self.slots.extra[f"first {number}"] for number in range(len(buckets))]
        self.step(self.reduced(buckets, regions), Attempt(0))

    def step(self, reduced: Reduced, attempt: Attempt) -> None:
        """Forwards and backwards of all batches, the collectives of the last, the optimizer."""
        self.waits.append(self._prepared())
        self._extra("join", Label(kinds.ALL_REDUCE, "join"), self.trainer.tail)
        for batch in range(self.options.accumulate):
            self._forward(first=batch == 0)
            if attempt.fails:
                self.trainer.restart()
                self.trainer.end(lost=True)
                return
            last = batch == self.options.accumulate - 1
            if last:
                self._walk()
            begun = self.trainer.tail
            arrived = self._backward(reduced.costs if last else None)
        self._reduce(reduced, arrived, begun)
        self.trainer.optimize(*self.trainer.streams())
        metric = self._extra("metric", Label(kinds.ALL_REDUCE, "metric"), self.trainer.tail)
        self.trainer.end(metric, lost=attempt.lost, batches=self.options.accumulate)
        self.waits.append(metric)

    def _extra(self, name: str, label: Label, *after: Ints | None) -> Ints | None:
        """One of the other collectives, if it is wanted."""
        region = self.slots.extra.get(name)
        if region is None:
            return None
        return self.trainer.collective(label, region, *after, seconds=(self.options.launch, 0.0))

    def _prepared(self) -> Ints | None:
        """Rank 0 prepares data; all wait for it at a barrier."""
        if not self.options.prepare:
            return None
        tail = self.trainer.tail
        before = np.full(self.trainer.setting.ranks, -1, np.int32) if tail is None else tail.copy()
        self.trainer.phase(Label(kinds.PREPARE, "data"))
        before[0] = self.trainer.builder.compute(
            0, self.options.prepare, lane=self._host, after=before[:1]
        )[0]
        return self._extra("barrier", Label(kinds.BARRIER), before)

    def _forward(self, *, first: bool) -> None:
        if first:
            self.waits.append(
                self._extra(
                    "buffers", Label(kinds.BROADCAST, "buffers"), self.trainer.tail, *self.waits
                )
            )
        for layer in self.layers:
            self.trainer.forward(layer, *self.waits)
            self.waits = [
                self._extra(
                    f"forward {layer.name}", Label(kinds.ALL_GATHER, layer.name), self.trainer.tail
                )
            ]

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
            synced = self._extra(
                f"backward {layer.name}", Label(kinds.ALL_REDUCE, layer.name), self.trainer.tail
            )
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
        (buckets, regions, costs), streams = reduced, self.options.streams
        launched, hooked, left = None, begun, list[Ints]()
        for number, (bucket, region) in enumerate(zip(buckets, regions, strict=True)):
            full = arrived[min(bucket.layers)] if self.options.overlap else self.trainer.tail
            packing = self._packing(bucket)
            begin, lane = self.options.launch + packing, COMMUNICATION + number % streams
            if number in costs.late:
                hooked = self._hook(number, costs.late[number], hooked)
            waits = full, launched, hooked if number in costs.late else None
            if streams > 1:
                # On several streams collectives do not wait for each other, but their launches do.
                label = Label(kinds.LAUNCH, f"bucket {number}")
                launched = self.trainer.launch(label, begin, lane, *waits)
                begin, waits = 0.0, (launched, None, None)
            last = self.trainer.collective(
                Label(kinds.ALL_REDUCE, f"bucket {number}", bucket=number),
                region,
                *waits,
                lane=lane,
                seconds=(begin, packing),
            )
            left.append(last)
        self._extra("used", Label(kinds.ALL_REDUCE, "used parameters"), self.trainer.tail, launched)
        for number, seconds in enumerate(costs.copies_out):
            self._copy(Label(kinds.COPY, f"bucket {number} back"), seconds, left[number])

    def _hook(self, number: int, seconds: float, before: Ints | None) -> Ints:
        """The hooks of a bucket on the CPU, after those `before`."""
        trainer = self.trainer
        trainer.phase(Label(kinds.HOOKS, f"of bucket {number}"))
        return trainer.builder.compute(
            trainer.ranks, seconds * trainer.factor, lane=self._host, after=columns(before)
        )

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
