"""The times of kernels on a device: products by their measured shapes, convolutions, traffic of the
memory, attention and launches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import exp
from typing import Literal

from experiments.models import products
from experiments.models.accelerators import accelerator, bandwidth, multiplies, rate
from topologies.errors import InputError

Attention = Literal["unfused", "flash", "flash2", "flash3"]

KERNEL = 3e-6
"""What a kernel takes that moves next to nothing, in seconds. AIConfigurator adds as much to each
kernel that is bound by memory (systems/a100_sxm.yaml)."""
LAUNCH = 20e-6
"""What the CPU takes to launch a kernel from a framework, in seconds. Recalled: 10 us of PyTorch's
own, as much again of Python around it."""

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
        multiplies(self.device, self.dtype)
        for name, value in (("scale", self.scale), ("launch", self.launch)):
            if not 0 <= value < float("inf"):
                raise InputError(f"{name} is {value}: it is 0 or more")

    @property
    def math(self) -> str:
        """The dtype of multiplications."""
        return multiplies(self.device, self.dtype)

    def product(self, rows: float, outputs: float, inner: float, number: int = 1) -> float:
        """Seconds of `number` products of `rows` x `inner` by `inner` x `outputs` elements."""
        return self.scale * _product(self.device, self.math, rows * number, outputs, inner)

    def traffic(self, nbytes: float) -> float:
        """Seconds in which `nbytes` bytes pass between the device and its memory."""
        return self.scale * nbytes / bandwidth(self.device)

    def memory(self, nbytes: float) -> float:
        """Seconds of a kernel that reads and writes `nbytes` bytes; 0 if it moves none."""
        return self.traffic(nbytes) + self.scale * KERNEL if nbytes else 0.0

    def convolution(self, flops: float, nbytes: float, *, square: bool) -> float:
        """Seconds of a convolution of `flops` FLOPs that moves `nbytes` bytes; `square`: 3x3 with a
        stride of 1. It takes the longer of the two, as in the roofline model (Williams, Waterman
        and Patterson, CACM 52(4), 2009)."""
        reached = rate(self.device, self.dtype, "3x3 convolution" if square else "convolution")
        return max(self.scale * flops / reached, self.traffic(nbytes))

    def attention(self, kind: Attention, flops: float, *, forward: bool) -> float:
        """Seconds of a fused attention of `flops` FLOPs."""
        device = accelerator(self.device)
        shares = FUSED[kind]["a100" if device.alike == "a100" else "h100"]
        peak = device.peak["bf16" if self.math == "fp8" else self.math]
        return self.scale * flops / (peak * shares[0 if forward else 1])


@lru_cache(maxsize=8192)
def _product(device: str, math: str, rows: float, outputs: float, inner: float) -> float:
    # A product that is smaller than all that were measured takes as long as the smallest.
    least = round(exp(products.read(device, math)[1][0]))
    sides = [max(side, least) for side in (rows, outputs, inner)]
    chosen = accelerator(device)
    reached = products.share(device, math, *sides) * chosen.tuned
    return 2.0 * sides[0] * sides[1] * sides[2] / (chosen.peak[math] * reached)
