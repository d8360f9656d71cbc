"""DistributedDataParallel: gradients in buckets, all-reduced while the backward goes on.

After Li et al., PVLDB 13(12), 2020, and torch.nn.parallel.DistributedDataParallel.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from simulator.collectives import Algorithm
from simulator.collectives.collective import ALL_REDUCE
from simulator.schedules.schedule import Schedule
from simulator.steps import kinds
from simulator.steps.kinds import Label
from simulator.training.buckets import (
    DEFAULT,
    HOOK,
    PASSES,
    Bucket,
    BucketRules,
    Costs,
    costs,
    initial,
    interference_of,
    rebuilt,
)
from simulator.training.communicator import Communicator, find_all_reduce
from simulator.training.model import Layer, Model
from simulator.training.plan import COMMUNICATION, Holdings, Plan, Setting
from simulator.training.step_lowering import Memory
from simulator.training.strategy import Strategy, option
from simulator.training.trainer import Trainer
from topologies.errors import InputError
from topologies.topology import Ints
from topologies.units import format_bytes, in_binary

WALK = 1e-6
"""Seconds a parameter to walk autograd's graph. Measured with torch 2.13 on a CPU of two cores: 0.3
us a parameter of convolutions and batch norms, 0.9 to 3 us of transformer layers, which have more
nodes a parameter."""
SCALAR = 4.0
"""Bytes of a number in fp32."""
MOST_BATCHES, MOST_STREAMS, MOST_PASSES = 1024, 64, 1000
"""The most batches of a step, collectives in flight, and passes over memory."""


@dataclass(frozen=True)
class DDP(Strategy):
    """One process for each device. Gradients are averaged bucket by bucket while the backward goes
    on.

    The all-reduce of a bucket starts on one of `streams` communication streams when the gradients
    of this bucket and of all earlier buckets are complete.

    A step of two or more workers also takes what :mod:`simulator.training.buckets` describes.
    `copies`, `hooks` and `interference` turn each part off or give it another value.

    With `find_unused` each worker walks autograd's graph after the forward whose backward is
    synchronised. That takes `walk` seconds a parameter. torch's notes on DistributedDataParallel
    mention the overhead, without a figure. The walk runs on the host, and here the device waits for
    it. If the host is far ahead of the device, it hides the walk: use walk=0us.
    """

    promise = ALL_REDUCE

    bucket: float = option(
        DEFAULT, "cap of a bucket, like 25MiB; 0: one bucket a parameter", "bytes"
    )
    algo: str | Algorithm = option("rings", "all-reduce of the buckets, like ring, tree or nvls")
    small: str = option("tree", "all-reduce of a few bytes")
    overlap: bool = option(True, "no: communicate only after the whole backward")
    streams: int = option(1, "collectives in flight: 1 as with NCCL, 2 as with gloo")
    accumulate: int = option(1, "batches a step; all but the last under no_sync")
    find_unused: bool = option(False, "yes: keep the buckets in the order of registration")
    walk: float = option(
        WALK,
        "find_unused: time a parameter to walk autograd's graph (measured on a CPU)",
        "seconds",
    )
    startup: bool = option(
        False,
        "yes: begin with the broadcast of the model and the first iteration, of one bucket "
        "unless find_unused",
    )
    broadcast_buffers: bool = option(True, "no: let every rank keep its own running statistics")
    sync_batch_norm: bool = option(False, "yes: batch norms see the batch of all ranks")
    gradient_as_bucket_view: bool = option(
        False, "no: gradients are held twice, in buckets too; yes: in buckets alone"
    )
    compress: bool = option(False, "yes: send gradients at half their size")
    metric: bool = option(False, "yes: all-reduce a number after each step, and wait for it")
    prepare: float = option(
        0.0, "rank 0 prepares data for so long while all wait at a barrier, like 2ms", "seconds"
    )
    launch: float = option(0.0, "time to launch a collective, like 10us", "seconds")
    copies: float = option(
        PASSES, "reads and writes of a gradient to copy it into its bucket and back; 0: free"
    )
    hooks: float = option(
        HOOK, "CPU time of the hook of a parameter; a bucket takes 3 times as long", "seconds"
    )
    interference: bool = option(
        True, "no: collectives take no multiprocessors and no memory bandwidth from the backward"
    )
    slowdown: float = option(
        0.0, "instead of interference: share by which computing is slower while communicating"
    )

    def __post_init__(self) -> None:
        if not (1 <= self.accumulate <= MOST_BATCHES and 1 <= self.streams <= MOST_STREAMS):
            raise InputError(
                f"ddp: accumulate={self.accumulate}, streams={self.streams}: "
                f"1 to {MOST_BATCHES} batches, 1 to {MOST_STREAMS} streams"
            )
        if not 0 <= self.slowdown < 100:
            raise InputError(f"ddp: slowdown={self.slowdown}: a share from 0 on, like 0.1")
        if not 0 <= self.copies < MOST_PASSES:
            raise InputError(f"ddp: copies={self.copies}: passes over memory from 0 on, like 4")

    def servers(self, ranks: int) -> int:
        """Devices that are needed in addition to those of the workers."""
        return find_all_reduce(self.algo).servers

    def plan(self, model: Model, setting: Setting) -> Plan:
        """The steps of `setting` as a schedule."""
        communicator = Communicator(
            setting, self.algo, self.small, alike=setting.alike(model) and self._alike(model)
        )
        more = (f"communication {number}" for number in range(2, self.streams + 1))
        lanes = "compute", "communication", *more, "host"
        steps = _BucketSteps(self, model, setting, lanes, communicator)
        buckets = (initial if self.find_unused else rebuilt)(model, self.bucket)
        if self.startup:
            # The first iteration has a single bucket, unless buckets are never rebuilt.
            steps.start(buckets if self.find_unused else rebuilt(model, inf))
        usual = steps.costs(buckets)
        for _ in setting.conditions.attempts(setting.steps):
            steps.step(buckets, usual)
        words = _described(buckets), *usual.words(steps.rules.interference), *communicator.words
        holdings = self._holdings(model, setting.ranks)
        slowdown = self.slowdown if setting.ranks > 1 else 0.0
        return steps.plan(holdings, words=words, slowdown=slowdown)

    def overheads(self, model: Model, setting: Setting) -> BucketRules:
        """What copies and hooks depend on, and what collectives take from the backward. A single
        worker has none."""
        if setting.ranks == 1:
            return BucketRules(passes=0.0, hook=0.0)
        views, bandwidth = self.gradient_as_bucket_view, model.memory_bandwidth
        rules = BucketRules(bandwidth, self.copies, views, self.hooks)
        if self.slowdown or not (self.interference and self.overlap):
            return rules
        algorithm, place = find_all_reduce(self.algo), (setting.topology, setting.ranks)
        return rules._replace(interference=interference_of(model, algorithm, *place))

    def _alike(self, model: Model) -> bool:
        """Whether all ranks do the same: the other collectives are trees, or have a root."""
        normed = self.sync_batch_norm and any(layer.channels for layer in model.layers)
        buffers = self.broadcast_buffers and model.buffers > 0
        rooted = buffers or self.startup or self.prepare > 0
        return not (rooted or normed or self.find_unused or self.metric)

    def wire(self, nbytes: float) -> float:
        """The bytes to send for `nbytes` bytes of gradients."""
        return nbytes / 2 if self.compress else nbytes

    def _holdings(self, model: Model, ranks: int) -> Holdings:
        """A replica at every worker. With compression a worker also holds the whole gradients. It
        holds copies of the gradients outside of the buckets, unless the gradients are views of the
        buckets."""
        replica = model.parameters * (1 + model.state) + model.buffers
        gradients = model.gradients * self.compress
        copies = 0.0 if self.gradient_as_bucket_view else model.gradients
        return Holdings(np.full(ranks, replica + gradients + copies), replica + ranks * gradients)


class _BucketSteps(Trainer):
    """The steps of one run: forward, backward, all-reduces of the buckets, optimizer."""

    communicator: Communicator

    def __init__(
        self,
        options: DDP,
        model: Model,
        setting: Setting,
        lanes: tuple[str, ...],
        communicator: Communicator,
    ) -> None:
        super().__init__(model, setting, lanes, communicator, startup=int(options.startup))
        self.options, self.rules = options, options.overheads(model, setting)
        self.waits: list[Ints | None] = []
        self.host = COMMUNICATION + options.streams
        """The lane of the CPU, after the communication streams."""

    def costs(self, buckets: list[Bucket]) -> Costs:
        """What buckets cost beside their all-reduces."""
        ranks = self.setting.ranks
        sent = 2 * (ranks - 1) / ranks * self.options.wire(1.0)
        return costs(self.model, buckets, sent, self.rules)

    def start(self, buckets: list[Bucket]) -> None:
        """Rank 0's model goes to all; the first iteration has `buckets` of its own."""
        model = self.model
        replica = self.communicator.of("tree_broadcast", model.parameters + model.buffers)
        self.waits.append(self._call(Label(kinds.BROADCAST, "model"), replica))
        self.step(buckets, self.costs(buckets), "used")

    def step(self, buckets: list[Bucket], usual: Costs, memory: Memory = "held") -> None:
        """Forwards and backwards of all batches, the collectives of the last, the optimizer.
        `memory` says when the buffers of the buckets are held."""
        options = self.options
        self.waits.append(self._prepared())
        if self.setting.conditions.batches:
            self._scalar(Label(kinds.ALL_REDUCE, "join"), self.tail)
        for batch in range(options.accumulate):
            self._forward(first=batch == 0)
            if self.failed():
                return
            is_last = batch == options.accumulate - 1
            if is_last and options.find_unused:
                # Which parameters take part is found before the backward that is synchronised.
                seconds = options.walk * sum(len(layer.tensors) for layer in self.model.layers)
                self.compute(Label(kinds.WALK), seconds * self.factor)
            begun = self.tail
            arrived = self._backward(usual if is_last else None)
        reduced = self._reduce(buckets, usual, memory, arrived, begun)
        for number, seconds in enumerate(usual.copies_out):
            self._copy(Label(kinds.COPY, f"bucket {number} back"), seconds, reduced[number])
        self.optimize(*self.streams())
        metric = None
        if options.metric:
            metric = self._scalar(Label(kinds.ALL_REDUCE, "metric"), self.tail)
        self.end(metric, batches=options.accumulate)
        self.waits.append(metric)

    def _call(self, label: Label, schedule: Schedule, *after: Ints | None) -> Ints:
        return self.collective(label, schedule, *after, seconds=self.options.launch)

    def _scalar(self, label: Label, *after: Ints | None) -> Ints:
        return self._call(label, self.communicator.small(SCALAR), *after)

    def _prepared(self) -> Ints | None:
        if not self.options.prepare:
            return None
        before, label = self.tail.copy(), Label(kinds.PREPARE, "data")
        rank, seconds = np.zeros(1, np.int32), self.options.prepare
        before[:1] = self.compute(label, seconds, before[:1], lane=self.host, ranks=rank)
        return self._scalar(Label(kinds.BARRIER), before)

    def _forward(self, *, first: bool) -> None:
        model = self.model
        if first and self.options.broadcast_buffers and model.buffers:
            statistics = self.communicator.of("tree_broadcast", model.buffers)
            label = Label(kinds.BROADCAST, "buffers")
            self.waits.append(self._call(label, statistics, self.tail, *self.waits))
        for layer in self.model.layers:
            self.forward(layer, *self.waits)
            self.waits = []
            if self._is_normed(layer):
                nbytes = (2 * layer.channels + 1) * SCALAR * self.setting.ranks
                gathered = self.communicator.of("ring_all_gather", nbytes)
                label = Label(kinds.ALL_GATHER, layer.name)
                self.waits.append(self._call(label, gathered, self.tail))

    def _is_normed(self, layer: Layer) -> bool:
        """Whether a layer sees the batch of all ranks."""
        return self.options.sync_batch_norm and layer.channels > 0

    def _backward(self, usual: Costs | None) -> list[Ints]:
        """Layer by layer, the last first; returns the tasks after which the gradients of each are
        there, and in their buckets if `usual` says what that takes."""
        arrived: list[Ints] = []
        for number, layer in reversed(list(enumerate(self.model.layers))):
            synced = None
            if self._is_normed(layer):
                sums = self.communicator.small(2 * layer.channels * SCALAR)
                label = Label(kinds.ALL_REDUCE, layer.name)
                synced = self._call(label, sums, self.tail)
            slower = usual.slower[number] if usual else 0.0
            done = self.backward(layer, *self.waits, synced, slower=slower)
            if usual and number in usual.copies_in:
                label = Label(kinds.COPY, f"{layer.name} into buckets")
                done = self._copy(label, usual.copies_in[number])
            arrived.append(done)
            self.waits = []
        return arrived[::-1]

    def _copy(self, label: Label, seconds: float, *after: Ints) -> Ints:
        return self.compute(label, seconds * self.factor, *after)

    def _reduce(
        self,
        buckets: list[Bucket],
        usual: Costs,
        memory: Memory,
        arrived: list[Ints],
        begun: Ints,
    ) -> list[Ints]:
        """A bucket is launched when it is full, its hooks are done and all before it are launched.
        The CPU calls the first hook when the tasks `begun` before the backward are done. Returns
        the last tasks of each bucket."""
        options, done = self.options, list[Ints]()
        launched, hooked = None, begun
        for number, bucket in enumerate(buckets):
            full = arrived[min(bucket.layers)] if options.overlap else self.tail
            # To compress a bucket or to expand it is to read it and write half of it, or the
            # reverse.
            packing = 1.5 * bucket.nbytes / self.model.memory_bandwidth * options.compress
            begin, lane = options.launch + packing, COMMUNICATION + number % options.streams
            waits: list[Ints | None] = [full, launched]
            if number in usual.late:
                label = Label(kinds.HOOKS, f"of bucket {number}")
                seconds = usual.late[number] * self.factor
                hooked = self.compute(label, seconds, hooked, lane=self.host)
                waits.append(hooked)
            if options.streams > 1:
                # On several streams collectives do not wait for each other, but their launches do.
                launched = self.call(f"launch of bucket {number}", begin, lane, *waits)
                begin, waits = 0.0, [launched]
            label = Label(kinds.ALL_REDUCE, f"bucket {number}", bucket=number)
            schedule = self.communicator.large(options.wire(bucket.nbytes))
            last = self.collective(label, schedule, *waits, lane=lane, seconds=begin, memory=memory)
            if packing:
                last = self.call(f"unpacking of bucket {number}", packing, lane, last)
            done.append(last)
        if options.find_unused:
            tensors = sum(len(layer.tensors) for layer in self.model.layers)
            used, label = (
                self.communicator.small(SCALAR * tensors),
                Label(kinds.ALL_REDUCE, "used parameters"),
            )
            self._call(label, used, self.tail, launched)
        return done


def _described(buckets: list[Bucket]) -> str:
    sizes = [bucket.nbytes for bucket in buckets]
    if len(sizes) == 1:
        return f"1 bucket of {format_bytes(sizes[0])}"
    least, most = (format_bytes(size, in_binary(sizes)) for size in (min(sizes), max(sizes)))
    return f"{len(sizes)} buckets of {least} to {most}"


STRATEGIES = {"ddp": DDP}
