"""How DDP cuts gradients into buckets (Li et al., PVLDB 13(12), 2020;
torch.nn.parallel.DistributedDataParallel)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from simulator.training.model import Model, Tensor
from topologies.errors import InputError

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


def whole(model: Model) -> list[Bucket]:
    """One bucket of all: the first iteration of a DDP that will rebuild its buckets."""
    owners = tuple(k for k, layer in enumerate(model.layers) if layer.tensors)
    return [Bucket(model.gradients, owners, sum(len(layer.tensors) for layer in model.layers))]


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
