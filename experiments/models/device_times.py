"""The times of kernels on a device in a step: products as learnt from measured ones, convolutions,
traffic of the memory, attention and launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import sqrt
from pathlib import Path

import numpy as np

from experiments.models.accelerators import (
    ACCELERATORS,
    NARROW,
    accelerator,
    bandwidth,
    multiplies,
    power_factor,
    rate,
    usual_dtype,
)
from experiments.models.block_cut import Attention
from experiments.models.kernel_times.attention import AttentionSizes, attention_seconds
from experiments.models.kernel_times.casts import cast_seconds
from experiments.models.kernel_times.kernel_model import KernelModel
from experiments.models.kernel_times.lookup import model_of
from experiments.models.kernel_times.products import ENGINE, NARROW_ENGINE, PRODUCTS
from experiments.shipped_tables import rows_of
from topologies.errors import InputError

KERNEL = 3e-6
"""What a kernel takes that moves next to nothing, in seconds. AIConfigurator adds as much to each
kernel that is bound by memory (systems/a100_sxm.yaml)."""
LAUNCH = 20e-6
"""What the CPU takes to launch a kernel from a framework, in seconds. Recalled: 10 us of PyTorch's
own, as much again of Python around it."""

FUSED: dict[str, dict[str, tuple[float, float]]] = {
    "flash": {"a100": (0.50, 0.35), "h100": (0.25, 0.175)},
    "flash2": {"a100": (0.73, 0.63), "h100": (0.35, 0.30)},
    "flash3": {"a100": (0.73, 0.63), "h100": (0.75, 0.58)},
}
"""The shares of the peak that a fused attention with heads of 128 reaches in the forward and in the
backward, by papers. Measured forwards are those of the fastest row of a GPU; other rows and the
backward take longer by the ratios of shares.

FlashAttention reaches up to 50% and 35% on an A100, FlashAttention-2 up to 73% and 63%, and 335
TFLOP/s on an H100 (Dao, arXiv 2307.08691). FlashAttention-3 reaches up to 75% on an H100 (Shah et
al., arXiv 2407.08608). The first one has no figures for an H100: a multiprocessor runs its kernels
at the rate of one of an A100, which is half of its peak."""
ODD = 3.0
"""By which factor a product in 16 bits takes longer where rows of a matrix have an odd number of
elements. They do not begin at multiples of 4 bytes, the least that a GPU copies to its shared
memory beside arithmetic (cp.async in NVIDIA's PTX ISA), so that slower kernels run. At Netflix some
vocabularies made a head take three times as long (Scaling LLM Post-Training at Netflix, February
2026)."""
STEP_FACTORS = Path(__file__).with_name("step_factors.csv")
"""What measured steps tell of factors on these times: the levels of devices, and spreads.
`python -m experiments.studies step-factors FOLDER --out FILE` writes it."""
LEVEL_MATH = {"16": "bf16", "8": "fp8", "4": "nvfp4"}
"""The format of a level, by bits of an element."""
LARGE = (4096, 8192, 16384)
"""The sides of large products, as layers have them."""
BACKWARD = 2.5
"""FLOPs of a backward over those of the forward: five products, one of which computes the scores
again, for two (Dao, arXiv 2307.08691, section 4.1)."""


@dataclass(frozen=True)
class DeviceTimes:
    """The times of a device that trains in a dtype, in seconds."""

    device: str
    """A name of :data:`experiments.models.accelerators.ACCELERATORS`."""
    dtype: str = "bf16"
    """What the model is trained in, a name of
    :data:`experiments.models.accelerators.PRECISIONS`."""
    scale: float = 1.0
    """What all times on the device are multiplied by: 1, or what calibration found."""
    launch: float = LAUNCH
    """What the CPU takes to launch a kernel."""
    power: float = 0.0
    """Watts to which the board is limited; 0: its usual ones."""
    level: float = 0.0
    """What products and attention in a step take over what they take alone, where the board is
    cooler and clocks are higher; 0: what devices like this one usually do."""

    def __post_init__(self) -> None:
        multiplies(self.device, self.dtype)
        power_factor(self.device, self.power)
        for name, value in (
            ("scale", self.scale),
            ("launch", self.launch),
            ("level", self.level),
        ):
            if not 0 <= value < float("inf"):
                raise InputError(f"{name} is {value}: it is 0 or more")

    @property
    def math(self) -> str:
        """The dtype of multiplications."""
        return multiplies(self.device, self.dtype)

    @property
    def narrow(self) -> bool:
        """Whether layers multiply below 16 bits."""
        return self.math in NARROW

    @property
    def wide(self) -> DeviceTimes:
        """The times of what stays in 16 bits: attention, the head, routers."""
        if not self.narrow:
            return self
        # The board is as warm as in the rest of the step.
        return replace(self, dtype="bf16", level=self.level or step_level(self.device, self.math))

    @property
    def limited(self) -> float:
        """What times are multiplied by that the power of the board limits."""
        return self.scale * power_factor(self.device, self.power)

    @property
    def in_step(self) -> float:
        """What times alone of products and of attention are multiplied by."""
        return self.limited * (self.level or step_level(self.device, self.math))

    def product(self, rows: float, outputs: float, inner: float, number: int = 1) -> float:
        """`number` products of `rows` x `inner` by `inner` x `outputs` elements."""
        seconds = _product(self.device, self.math, rows * number, outputs, inner)
        return self.in_step * seconds

    def misaligned(self, *sizes: float) -> float:
        """By which factor a product takes longer whose matrices have rows of so many elements."""
        odd = self.math in ("bf16", "fp16") and any(size % 2 == 1 for size in sizes)
        return ODD if odd else 1.0

    def traffic(self, nbytes: float) -> float:
        """Bytes that pass between the device and its memory."""
        return self.scale * nbytes / bandwidth(self.device)

    def memory(self, nbytes: float) -> float:
        """A kernel that reads and writes `nbytes` bytes; 0 if it moves none."""
        return self.traffic(nbytes) + self.scale * KERNEL if nbytes else 0.0

    def quantize(self, rows: float, columns: float, *, dynamic: bool = True) -> float:
        """A cast of a matrix in 16 bits to 8 bits. A dynamic one reads all of it first for its
        scale; with delayed scaling the scale is there."""
        if not rows * columns:
            return 0.0
        return self.scale * cast_seconds(self.device, rows, columns, dynamic=dynamic)

    def convolution(self, flops: float, nbytes: float, *, square: bool) -> float:
        """A convolution that moves `nbytes` bytes; `square`: 3x3 with a stride of 1. It takes the
        longer of the two, as in the roofline model (Williams, Waterman and Patterson, CACM 52(4),
        2009)."""
        reached = rate(self.device, self.dtype, "3x3 convolution" if square else "convolution")
        return max(self.limited * flops / reached, self.traffic(nbytes))

    def attention(self, kind: Attention, sizes: AttentionSizes, *, forward: bool) -> float:
        """A fused attention. The backward is not measured."""
        alike = "a100" if accelerator(self.device).alike == "a100" else "h100"
        speed = FUSED[kind][alike][0 if forward else 1] / FUSED["flash3"][alike][0]
        math = "bf16" if self.narrow else self.math
        seconds = attention_seconds(self.device, math, sizes, speed)
        return self.in_step * seconds * (1 if forward else BACKWARD)


@cache
def step_factors() -> Mapping[str, float]:
    """The levels and spreads that measured steps taught, by name; the file has their sources."""
    return {row["name"]: float(row["value"]) for row in rows_of(STEP_FACTORS)}


def level_name(device: str, math: str) -> str:
    """The name of the level of a kind of device where most multiplications are in `math`: the bits
    of an element count, which heat the board."""
    return f"level_{accelerator(device).alike}_{int(8 * NARROW.get(math, 2.0)) // 4 * 4}"


def level_in(levels: Mapping[str, float], device: str, math: str) -> float:
    """The level of a device among levels by their name: that of other bits, if there is none of
    these; 0 without any."""
    name = level_name(device, math)
    kind = name.rpartition("_")[0]
    alike = [level for each, level in levels.items() if each.startswith(kind)]
    return levels.get(name, alike[0] if alike else 0.0)


def step_level(device: str, math: str) -> float:
    """What products and attention in a step take over what they take alone."""
    return level_in(step_factors(), device, math)


def other_levels(device: str, math: str) -> float:
    """The level of a device by GPUs of other kinds, as if nobody had trained on its kind.

    Power limits steps: their products reach a smaller share of the peak, the more FLOP/s the peak
    has for a watt. Half the bits take half the energy, so the peak in 16 bits counts for all. The
    time at the peak and that of the energy add in quadrature: 1 / share² is a line of the square
    of TFLOP/s for a watt. GPUs count whose libraries reach the usual share of a peak. A product in
    a step takes no less than alone.
    """
    chosen, squares, needed = accelerator(device), list[float](), list[float]()
    for name, level in step_factors().items():
        kind, bits, watts = (*name.removeprefix("level_").split("_"), "", "")[:3]
        if not name.startswith("level_") or kind == chosen.alike or ACCELERATORS[kind].tuned != 1:
            continue
        power = float(watts.removesuffix("W") or ACCELERATORS[kind].rated)
        squares.append(_per_watt(kind, power) ** 2)
        needed.append((level / _alone(kind, LEVEL_MATH[bits])) ** 2)
    slope, least = np.polynomial.polynomial.polyfit(squares, needed, 1)[::-1]
    squared = least + slope * _per_watt(device, chosen.rated) ** 2
    return sqrt(max(1.0, float(squared) * _alone(device, math) ** 2))


def _per_watt(device: str, power: float) -> float:
    """The TFLOP/s that the peak of a device has for each watt, in the dtype in which it trains."""
    return accelerator(device).peak[multiplies(device, usual_dtype(device))] / 1e12 / power


def _alone(device: str, math: str) -> float:
    """The share of the peak that large products reach alone."""
    peak = accelerator(device).peak[math]
    return float(np.mean([2 * n**3 / _product(device, math, n, n, n) / peak for n in LARGE]))


@lru_cache(maxsize=32768)
def _product(device: str, math: str, rows: float, outputs: float, inner: float) -> float:
    return _products(device, math).of(m=rows, n=outputs, k=inner, quantised=0.0).expected


@lru_cache
def _products(device: str, math: str) -> KernelModel:
    wide = model_of(PRODUCTS, device, "bf16" if math in NARROW else math, ENGINE)
    if math not in NARROW:
        return wide
    # Casts are kernels of their own in a step. Engines that cast in the same call launch more.
    narrow = model_of(PRODUCTS, device, math, NARROW_ENGINE)
    return replace(narrow, values={**narrow.values, "launch": wide.values["launch"]})
