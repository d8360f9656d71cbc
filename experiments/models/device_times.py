"""The cost of layers on a device.

Blocks that a plan cuts are priced kernel by kernel, as :class:`DeviceTimes` does: products by their
measured shapes, traffic, attention and launches. Layers of a whole model are priced by
:func:`estimate`. An operation takes max(FLOPs / (peak x share), bytes / (bandwidth x share)). This
is the roofline model (Williams, Waterman and Patterson, CACM 52(4), 2009) with the shares of
:mod:`experiments.models.accelerators`. The launch of a kernel takes no time in it, so that small
batches are estimated too fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from experiments.models import products
from experiments.models.accelerators import (
    MEMORY,
    PRECISIONS,
    Precision,
    accelerator,
    bandwidth,
    multiplies,
    share,
)
from experiments.models.work import Architecture, LayerWork, Operation
from simulator.training.model import WIDTHS, Layer, Model, Tensor
from topologies.errors import InputError

Attention = Literal["unfused", "flash", "flash2", "flash3"]

KERNEL = 3e-6
"""What a kernel takes that moves next to nothing, in seconds. AIConfigurator adds as much to each
kernel that is bound by memory (systems/a100_sxm.yaml)."""
LAUNCH = 20e-6
"""What the CPU takes to launch a kernel from a framework, in seconds. Recalled: 10 us of PyTorch's
own, as much again of Python around it."""
COUNTER = 8.0
"""Bytes of the number in which a batch norm counts its batches."""

FUSED: dict[str, dict[str, tuple[float, float]]] = {
    "flash": {"a100": (0.50, 0.35), "h100": (0.25, 0.175)},
    "flash2": {"a100": (0.60, 0.50), "h100": (0.35, 0.30)},
    "flash3": {"a100": (0.60, 0.50), "h100": (0.65, 0.50)},
}
"""The shares of the peak that a fused attention with heads of 128 reaches in the forward and in the
backward.

FlashAttention reaches up to 50% and 35% on an A100, FlashAttention-2 up to 73% and 63%, and 335
TFLOP/s on an H100 (Dao, arXiv 2307.08691). FlashAttention-3 reaches up to 75% on an H100 (Shah et
al., arXiv 2407.08608). The first one has no figures for an H100: a multiprocessor runs its kernels
at the rate of one of an A100, which is half of its peak."""


@dataclass(frozen=True)
class DeviceTimes:
    """The times of a device that trains in a dtype."""

    device: str
    """A name of :data:`experiments.models.accelerators.ACCELERATORS`."""
    dtype: str = "bf16"
    """What the model is trained in: amp, bf16, fp8 ..."""
    scale: float = 1.0
    """What all times on the device are multiplied by: 1, or what calibration found."""
    launch: float = LAUNCH
    """What the CPU takes to launch a kernel, in seconds."""

    def __post_init__(self) -> None:
        multiplies(self.device, self.dtype, ["matmul"])
        for name, value in (("scale", self.scale), ("launch", self.launch)):
            if not 0 <= value < float("inf"):
                raise InputError(f"{name} is {value}: it is 0 or more")

    @property
    def math(self) -> str:
        """The dtype of multiplications."""
        return multiplies(self.device, self.dtype, ["matmul"])

    def product(self, rows: float, outputs: float, inner: float, number: int = 1) -> float:
        """Seconds of `number` products of `rows` x `inner` by `inner` x `outputs` elements."""
        return self.scale * _product(self.device, self.math, rows, outputs, inner, number)

    def traffic(self, nbytes: float) -> float:
        """Seconds in which `nbytes` bytes pass between the device and its memory."""
        return self.scale * nbytes / bandwidth(self.device)

    def memory(self, nbytes: float) -> float:
        """Seconds of a kernel that reads and writes `nbytes` bytes; 0 if it moves none."""
        return self.traffic(nbytes) + self.scale * KERNEL if nbytes else 0.0

    def attention(self, kind: Attention, flops: float, *, forward: bool) -> float:
        """Seconds of a fused attention of `flops` FLOPs."""
        family = products.ALIKE[self.device]
        shares = FUSED[kind]["a100" if family == "a100" else "h100"]
        peak = accelerator(self.device).peak["bf16" if self.math == "fp8" else self.math]
        return self.scale * flops / (peak * shares[0 if forward else 1])


@lru_cache(maxsize=8192)
def _product(
    device: str, math: str, rows: float, outputs: float, inner: float, number: int
) -> float:
    least = products.smallest(device, math)
    sides = [max(side, least) for side in (rows * number, outputs, inner)]
    chosen = accelerator(device)
    reached = products.share(device, math, *sides) * chosen.tuned
    return 2.0 * sides[0] * sides[1] * sides[2] / (chosen.peak[math] * reached)


def estimate(
    name: str, architecture: Architecture, *, batch: int, device: str, dtype: str
) -> Model:
    """The model with estimated times of a batch of `batch` samples on `device`.

    Raises InputError for an unknown device or dtype, or if the device cannot train the model in
    this dtype.
    """
    math = multiplies(device, dtype, architecture.kinds)
    chosen, precision = accelerator(device), PRECISIONS[dtype]
    moved = 2 * (1 + architecture.state) * WIDTHS[precision.parameters]
    optimizer_bytes = architecture.parameters * (moved + WIDTHS[precision.gradients])
    shares = ", ".join(f"{share(device, kind, math):.0%} ({kind})" for kind in architecture.kinds)
    return Model(
        name=name,
        batch=batch,
        layers=tuple(_layer(part, batch, device, math, precision) for part in architecture.parts),
        dtype=precision.parameters,
        gradient_dtype=precision.gradients,
        optimizer=optimizer_bytes / bandwidth(device),
        state=architecture.state,
        inputs=batch * architecture.inputs,
        outputs=batch * architecture.outputs * precision.width,
        memory_bandwidth=chosen.bandwidth,
        multiprocessors=chosen.multiprocessors,
        device=device,
        source=f"estimated, not measured: FLOPs at {shares} of the {chosen.peak[math] / 1e12:g} "
        f"TFLOP/s in {math} of {device}, bytes at {MEMORY:.0%} of {chosen.bandwidth / 1e9:g} GB/s",
        registration=architecture.registration,
    )


def _layer(part: LayerWork, batch: int, device: str, math: str, precision: Precision) -> Layer:
    """A layer with its times and bytes for a batch on a device that multiplies in dtype `math`."""
    peak, rate = accelerator(device).peak[math], bandwidth(device)

    def seconds(work: Operation, flops: float, moved: float, weights: float) -> float:
        """Seconds of an operation, with the conversion of weights and gradients between dtypes."""
        multiplying = batch * flops / (peak * share(device, work.kind, math)) if flops else 0.0
        nbytes = (batch * moved + weights) * (work.width or precision.width)
        return max(multiplying, nbytes / rate) + precision.cast * work.weights / rate

    works = part.operations
    kept = (work.kept * (work.width or precision.width) + work.masks for work in works)
    return Layer(
        name=part.name,
        forward=sum(seconds(work, work.flops, work.moved, work.weights) for work in works),
        backward=sum(
            seconds(work, work.flops_back, work.moved_back, work.gradients) for work in works
        ),
        activation=batch * sum(kept),
        tensors=tuple(
            Tensor(name, size * WIDTHS[precision.parameters]) for name, size in part.parameters
        ),
        buffers=2 * part.channels * WIDTHS["fp32"] + COUNTER if part.channels else 0.0,
        channels=part.channels,
    )
