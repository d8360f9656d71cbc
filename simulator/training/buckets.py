"""How DDP cuts gradients into buckets (Li et al., PVLDB 13(12), 2020;
torch.nn.parallel.DistributedDataParallel), and what buckets cost beside their all-reduces.

- Copies. DDP copies each gradient into its bucket and divides it on the way. After the all-reduce
  it copies the average back (`mark_variable_ready_dense` and `finalize_bucket_dense` in
  torch/csrc/distributed/c10d/reducer.cpp of PyTorch).
- Hooks. Autograd calls DDP for each parameter, on the CPU.
- Interference. The kernels of a collective take multiprocessors and memory bandwidth from the
  backward.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, inf
from typing import NamedTuple

from simulator.collectives import Algorithm
from simulator.collectives.rings import rings_of
from simulator.training.model import Model, Tensor
from topologies.errors import InputError
from topologies.ring_search import in_rank_order
from topologies.topology import Topology
from topologies.units import format_seconds

DEFAULT = 25 * 2.0**20
FIRST = 2.0**20
"""torch's default cap, and the cap of the first bucket where the cap is the default."""


class Bucket(NamedTuple):
    """`nbytes` bytes of gradients of `layers`, by their number in the order in which they run."""

    nbytes: float
    layers: tuple[int, ...]
    tensors: int
    """How many parameters have these gradients."""


def rebuilt(model: Model, cap: float) -> list[Bucket]:
    """The buckets from the second iteration on: gradients in the order in which they arrive.

    A bucket is closed by the tensor with which it reaches the cap: `cap` = 0 makes one a parameter.
    """
    order = reversed(range(len(model.layers)))
    return _cut(model, ((number, model.layers[number].arriving) for number in order), cap)


def initial(model: Model, cap: float) -> list[Bucket]:
    """The buckets before the first iteration, kept by `find_unused_parameters`: cut in the order of
    registration, and filled from the last on."""
    order = model.registered
    return _cut(model, ((number, model.layers[number].tensors) for number in order), cap)[::-1]


def _cut(model: Model, order: Iterable[tuple[int, tuple[Tensor, ...]]], cap: float) -> list[Bucket]:
    width = model.gradient_width
    return cut(((number, each.nbytes * width) for number, own in order for each in own), cap)


def cut(gradients: Iterable[tuple[int, float]], cap: float) -> list[Bucket]:
    """The buckets that `gradients` fill one after the other, each the number of its layer and its
    bytes. Raises InputError unless the cap is 0 bytes or more."""
    if not cap >= 0:
        raise InputError(f"bucket is {cap}: 0 bytes (one bucket a parameter) or more")
    limits = [FIRST, DEFAULT] if cap == DEFAULT else [cap]
    buckets: list[Bucket] = []
    nbytes, layers = 0.0, list[int]()
    for number, size in gradients:
        nbytes += size
        layers.append(number)
        if nbytes >= limits[min(len(buckets), len(limits) - 1)]:
            buckets.append(_bucket(nbytes, layers))
            nbytes, layers = 0.0, []
    if layers:
        buckets.append(_bucket(nbytes, layers))
    return [bucket for bucket in buckets if bucket.nbytes > 0]


def _bucket(nbytes: float, layers: list[int]) -> Bucket:
    """A bucket whose parameters are of `layers`, a layer as often as it has parameters here."""
    return Bucket(nbytes, tuple(dict.fromkeys(layers)), len(layers))


PASSES = 4.0
"""How often DDP reads or writes a gradient to copy it: it reads and writes it on the way into the
bucket, and again on the way back."""
KERNEL = 3e-6
"""Seconds of a copy that moves next to nothing: AIConfigurator adds as much to each kernel that
memory limits (systems/a100_sxm.yaml)."""
HOOK = 6e-6
"""CPU seconds of the hook of a parameter. Measured with torch 2.13 on a CPU of two cores: 4 us for
the hook, and 2 us to start the copy back."""
HOOKS_OF_BUCKET = 3
"""To start the all-reduce of a bucket takes as long as so many hooks. Measured in the same runs: 18
us."""
CHANNEL = 10e9
"""Bytes/s that a channel of NCCL passes on. NCCL uses 24 channels on an HGX A100, whose ring passes
on 235 GB/s (NVIDIA/nccl-tests issue 100). A channel takes a multiprocessor."""
FEWEST, MOST = 2, 24
"""Channels of NCCL: on one slow network link, and on an HGX A100 or H100."""
TRAFFIC = 3.0
"""Bytes that a rank reads or writes in its memory for each byte that a ring sends: the received
data are stored and loaded again, and merged with the rank's own (NVIDIA/nccl issue 1428)."""
MOST_TAKEN = 0.9
"""A collective takes this share of a device at most."""


class Interference(NamedTuple):
    """What a collective takes from a device while it runs."""

    rate: float
    """Bytes/s that a rank sends."""
    channels: int = 0
    processors: int = 0
    """Multiprocessors of the device; 0: unknown, or none."""
    memory: float = 0.0
    """The share of the memory bandwidth."""

    @property
    def share(self) -> float:
        """The share of its rate that the backward loses: the mean of the shares of multiprocessors
        and of memory bandwidth.

        We assume that each of the two limits kernels for half of the backward. Lee et al. (arXiv
        2507.03114) measured computing that is 18.9% slower on average, and 40% at most, on four
        A100, H100, MI210 or MI250.
        """
        taken = self.channels / self.processors if self.processors else 0.0
        return min((taken + self.memory) / 2, MOST_TAKEN)

    @property
    def words(self) -> str:
        """What the collective takes, for people."""
        memory = f"{self.memory:.0%} of the memory bandwidth"
        if not self.processors:
            return memory
        return f"{self.channels} of {self.processors} multiprocessors and {memory}"


NONE = Interference(inf)
"""A collective that takes nothing."""


def interference_of(
    model: Model, algorithm: Algorithm, topology: Topology, ranks: int
) -> Interference:
    """What the all-reduces of `ranks` ranks take from the device of `model`.

    They pass on what the machine's rings do. For other algorithms than `rings` that is a ring in
    rank order. There are as many channels as this rate needs.
    """
    if algorithm.name.partition(":")[0] == "rings":
        rate = rings_of(topology, ranks).bandwidth
    else:
        rate = in_rank_order(topology, ranks)
    if rate == inf:
        return NONE
    channels = min(max(ceil(rate / CHANNEL), FEWEST), MOST)
    memory = min(TRAFFIC * rate / model.memory_bandwidth, 1.0)
    return Interference(rate, channels, model.multiprocessors, memory)


class BucketRules(NamedTuple):
    """What the costs of DDP's buckets depend on."""

    bandwidth: float = inf
    """Of the device's memory, bytes/s. Without one copies are free."""
    passes: float = PASSES
    """Reads and writes of a gradient, on its way into the bucket and back together."""
    views: bool = False
    """Whether gradients are views of buckets, which are not copied back."""
    hook: float = HOOK
    """Seconds of the hook of a parameter."""
    interference: Interference = NONE

    @property
    def copies_back(self) -> bool:
        """Whether gradients are copied back."""
        return self.passes > 0 and not self.views

    def copies_in(self, buckets: Sequence[Bucket]) -> dict[int, float]:
        """Seconds of copies by the number of the layer after whose backward buckets are full; empty
        if free."""
        copies: dict[int, float] = {}
        for bucket, seconds in zip(buckets, self._copies(buckets), strict=False):
            number = min(bucket.layers)
            copies[number] = copies.get(number, 0.0) + seconds
        return copies

    def copies_out(self, buckets: Sequence[Bucket]) -> list[float]:
        """Seconds to copy each bucket back; empty if free."""
        return self._copies(buckets) if self.copies_back else []

    def _copies(self, buckets: Sequence[Bucket]) -> list[float]:
        """Seconds to copy each bucket one way; empty if free."""
        if not self.passes or self.bandwidth == inf:
            return []
        passes = self.passes / 2
        return [each.tensors * KERNEL + passes * each.nbytes / self.bandwidth for each in buckets]

    def hooks(self, bucket: Bucket) -> float:
        """Seconds of the CPU for the hooks of a bucket and the start of its all-reduce."""
        return self.hook * (bucket.tensors + HOOKS_OF_BUCKET)


class Costs(NamedTuple):
    """Seconds of each part of a step, on one device."""

    copies_in: dict[int, float]
    """Those of :meth:`BucketRules.copies_in`."""
    copies_out: list[float]
    """Of each bucket; empty if free."""
    hooks: float
    """Of all hooks, on the CPU."""
    late: dict[int, float]
    """Of hooks, by the number of each bucket whose gradients are there before the CPU has called
    its hooks. The time counts from the last such bucket on."""
    slower: list[float]
    """By which the backward of each layer is longer."""

    def words(self, interference: Interference) -> tuple[str, ...]:
        """The parts of a step that are not free, in a line for people."""
        parts = {
            "copies into buckets and back": sum(self.copies_in.values()) + sum(self.copies_out),
            f"slower while collectives run ({interference.words})": sum(self.slower),
            "hooks on the CPU": self.hooks,
        }
        costly = [f"{format_seconds(value)} {name}" for name, value in parts.items() if value]
        return (f"beside the all-reduces: {', '.join(costly)}",) if costly else ()


def costs(model: Model, buckets: Sequence[Bucket], sent: float, rules: BucketRules) -> Costs:
    """What `buckets` cost in a step. A rank sends `sent` bytes for each byte of a bucket."""
    copies_in = rules.copies_in(buckets)
    slower, ended = _backward(model, buckets, copies_in, sent, rules.interference)
    late, called, hooks = dict[int, float](), 0.0, 0.0
    for number, bucket in enumerate(buckets):
        hooks += rules.hooks(bucket)
        if hooks > ended[min(bucket.layers)]:
            late[number], called = hooks - called, hooks
    return Costs(copies_in, rules.copies_out(buckets), hooks, late, slower)


def _backward(
    model: Model,
    buckets: Sequence[Bucket],
    copies_in: dict[int, float],
    sent: float,
    interference: Interference,
) -> tuple[list[float], list[float]]:
    """Seconds by which the backward of each layer is longer, because collectives run beside it, and
    the time of its end since the begin of the backward.

    The collectives run one after the other at their full rate. While one runs, the backward has
    1 - share of its own rate. A layer that takes x seconds alone loses share / (1 - share) · x if a
    collective runs all the time, and share · t if collectives end after t seconds.
    """
    slower, ended, full = ([0.0] * len(model.layers) for _ in range(3))
    for bucket in buckets:
        full[min(bucket.layers)] += bucket.nbytes * sent / interference.rate
    share, now, free = interference.share, 0.0, 0.0
    for number in reversed(range(len(model.layers))):
        alone = model.layers[number].backward
        busy = max(0.0, free - now)
        slower[number] = min(share * busy, alone * share / (1 - share))
        now += alone + slower[number] + copies_in.get(number, 0.0)
        ended[number], free = now, max(free, now) + full[number]
    return slower, ended
