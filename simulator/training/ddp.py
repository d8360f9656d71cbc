"""DistributedDataParallel: gradients in buckets, all-reduced while the backward goes on.

After Li et al., PVLDB 13(12), 2020, and torch.nn.parallel.DistributedDataParallel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.collectives import Algorithm
from simulator.collectives.collective import ALL_REDUCE
from simulator.training import bucket_costs
from simulator.training.bucket_costs import HOOK, PASSES, Overheads, overheads
from simulator.training.buckets import DEFAULT, Bucket, initial, rebuilt, whole
from simulator.training.communicator import Communicator, find_all_reduce
from simulator.training.ddp_operations import Steps
from simulator.training.model import Model
from simulator.training.plan import Holdings, Plan, Setting
from simulator.training.strategy import Strategy, option
from simulator.training.trainer import Trainer
from topologies.errors import InputError
from topologies.units import format_bytes, in_binary

WALK = 1e-6
"""Seconds a parameter to walk autograd's graph. Measured with torch 2.13 on a CPU of two cores: 0.3
us a parameter of convolutions and batch norms, 0.9 to 3 us of transformer layers, which have more
nodes a parameter."""
MOST_BATCHES, MOST_STREAMS, MOST_PASSES = 1024, 64, 1000
"""The most batches of a step, collectives in flight, and passes over memory."""


@dataclass(frozen=True)
class DDP(Strategy):
    """One process for each device. Gradients are averaged bucket by bucket while the backward goes
    on.

    The all-reduce of a bucket starts on one of `streams` communication streams when the gradients
    of this bucket and of all earlier buckets are complete.

    A step of two or more workers also takes what :mod:`simulator.training.bucket_costs` describes.
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
        buckets = (initial if self.find_unused else rebuilt)(model, self.bucket)
        alike = setting.alike(model) and self._alike(model)
        communicator = Communicator(setting, self.algo, self.small, alike=alike)
        more = (f"communication {number}" for number in range(2, self.streams + 1))
        lanes = "compute", "communication", *more, "host"
        trainer = Trainer(model, setting, lanes, communicator, startup=int(self.startup))
        steps = Steps(self, trainer, communicator, self._overheads(model, setting))
        if self.startup:
            # The first iteration has a single bucket, unless buckets are never rebuilt.
            steps.start(initial(model, self.bucket) if self.find_unused else whole(model))
        usual = steps.reduced(buckets)
        for _ in setting.conditions.attempts(setting.steps):
            steps.step(usual)
        words = (
            _described(buckets),
            *usual.costs.words(steps.overheads.interference),
            *communicator.words,
        )
        holdings = self._holdings(model, setting.ranks)
        return trainer.plan(holdings=holdings, words=words, slowdown=self.slowdown)

    def _overheads(self, model: Model, setting: Setting) -> Overheads:
        """What copies and hooks depend on, and what collectives take from the backward. A single
        worker has none."""
        if setting.ranks == 1:
            return Overheads()
        views, passes, hook = self.gradient_as_bucket_view, self.copies, self.hooks
        rules = overheads(model.memory_bandwidth, views=views, passes=passes, hook=hook)
        if self.slowdown or not (self.interference and self.overlap):
            return rules
        algorithm, place = find_all_reduce(self.algo), (setting.topology, setting.ranks)
        return rules._replace(interference=bucket_costs.interference_of(model, algorithm, *place))

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


def _described(buckets: list[Bucket]) -> str:
    sizes = [bucket.nbytes for bucket in buckets]
    if len(sizes) == 1:
        return f"1 bucket of {format_bytes(sizes[0])}"
    least, most = (format_bytes(size, in_binary(sizes)) for size in (min(sizes), max(sizes)))
    return f"{len(sizes)} buckets of {least} to {most}"


STRATEGIES = {"ddp": DDP}
