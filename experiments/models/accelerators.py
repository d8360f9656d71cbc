"""Devices for training, and the shares of their peaks that training reaches.

Peaks are dense (without sparsity), in FLOP/s, and in TFLOP/s in the table of this module; a
multiply-add counts as two. Datasheet figures are those in github.com/stas00/ml-engineering
(compute/accelerator). Figures marked "recalled" are from memory; we have not checked them. No share
is fitted to a run on several devices, because such runs judge the communication.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from experiments.shipped_tables import rows_of
from topologies.errors import InputError, did_you_mean


class Accelerator(NamedTuple):
    """A device for training."""

    memory: float
    """Bytes of its memory."""
    bandwidth: float
    """Bytes/s of its memory."""
    peak: Mapping[str, float]
    """FLOP/s in each dtype and format that it has instructions for."""
    alike: str
    """The GPU of :mod:`experiments.models.device_times` whose shares its products reach."""
    power: float
    """Watts of its board at most."""
    rated: float
    """Watts of the board that has its peaks and the shares of them."""
    multiprocessors: int = 0
    """Multiprocessors or compute units that run kernels; 0 for a CPU."""
    tuned: float = 1.0
    """Its libraries reach this multiple of the usual shares of a peak."""

    @property
    def capacity(self) -> float:
        """Bytes of its memory as nvidia-smi counts: what data sheets call GB are GiB, 81920 MiB
        for an A100 with 80 GB."""
        return self.memory / 1e9 * 2.0**30


class Precision(NamedTuple):
    """The dtypes in which a model is trained."""

    math: tuple[str, ...]
    """The dtypes of multiplications of layers; the device takes the first that it has."""
    width: float
    """Bytes of an activation."""
    parameters: str
    gradients: Literal["fp32", "bf16"]


def _accelerator(row: Mapping[str, str]) -> Accelerator:
    return Accelerator(
        float(row["memory_GB"]) * 1e9,
        float(row["bandwidth_GB_s"]) * 1e9,
        {dtype: float(row[dtype]) * 1e12 for dtype in SHARES["matmul"] if row[dtype]},
        row["alike"],
        float(row["power_W"]),
        float(row["rated_W"]),
        int(row["multiprocessors"]),
        float(row["tuned"]),
    )


NARROW = {"fp8": 1.0, "fp8_block": 1 + 4 / 128, "mxfp8": 1 + 1 / 32, "nvfp4": 0.5 + 1 / 16}
"""Formats of multiplications below 16 bits, with the bytes of an element and its share of a scale:
fp8 with a scale a tensor; with one of 4 bytes for 128 elements (DeepSeek-V3, arXiv 2412.19437);
with one of a byte for 32 (OCP Microscaling formats); fp4 with one of a byte for 16 (NVFP4)."""
PRECISIONS: dict[str, Precision] = {
    "fp32": Precision(("fp32",), 4, "fp32", "fp32"),
    "tf32": Precision(("tf32",), 4, "fp32", "fp32"),
    "amp": Precision(("bf16", "fp16"), 2, "fp32", "fp32"),
    "bf16": Precision(("bf16",), 2, "bf16", "bf16"),
    **{name: Precision((name,), 2, "bf16", "bf16") for name in NARROW},
}
"""The values of the option `dtype` of a model, and of the key `precision` of a plan. amp multiplies
in 16 bits and keeps parameters and gradients in fp32. Those of :data:`NARROW` multiply so in
layers, and keep everything else in bf16."""

SHARES: dict[str, dict[str, float]] = {
    # Large products reach 89% in fp32 on a V100 and 74% in 16 bits and TF32 on an A100
    # (transformers-benchmarks) to 87% (stas00/ml-engineering, MAMF); those of layers are smaller.
    # In fp8 large ones reach 71% on an H100 (MAMF), and scaling costs some.
    "matmul": {"fp32": 0.8, "tf32": 0.6, "fp16": 0.6, "bf16": 0.6} | dict.fromkeys(NARROW, 0.5),
    # In fp32 what 3x3 ones leave of ResNet-50's steps on P100 and V100. The others are from whole
    # steps of ResNet-50 less their memory-bound parts, rounded (NVIDIA DeepLearningExamples): V100
    # and A100, mixed precision, 1200 and 2470 images/s; A100, TF32, 938: layouts are converted.
    "convolution": {"fp32": 0.6, "tf32": 0.25, "fp16": 0.4, "bf16": 0.4},
    # In fp32 from VGG-16's steps on P100, 154 images/s (TensorFlow benchmarks, 2017): Winograd's
    # algorithm, for a stride of 1, needs up to 2.25 times fewer FLOPs than the definition.
    "3x3 convolution": {"fp32": 1.4, "tf32": 0.25, "fp16": 0.4, "bf16": 0.4},
}
"""The share of the peak that each kind of multiplication reaches in training, by its dtype. FLOPs
are those of the definition."""

POWER = 0.6
"""The exponent with which the rate of multiplications follows the power of the board. Assumed: 0.5
to 0.75. Dynamic power is as the frequency times the square of the voltage, which both fall, but a
part of the power is static."""

MEMORY = 0.8
"""The share of the memory bandwidth that element-wise work, norms and the optimizer reach.
Recalled: copies reach 80% to 92% of a GPU's; kernels of PyTorch are at the lower end."""


_ROWS = rows_of(Path(__file__).with_suffix(".csv"))
ACCELERATORS = {row["name"]: _accelerator(row) for row in _ROWS}
"""The devices by name. The table of this module has their sources."""
DEVICES = {machine: row["name"] for row in _ROWS for machine in row["machines"].split()}
"""The device of each machine in the catalogue and of each profile of GPUs, or the most similar
one."""


def accelerator(name: str) -> Accelerator:
    """The device called `name`. Raises InputError with the nearest name if there is none."""
    if name not in ACCELERATORS:
        hint = did_you_mean(name, ACCELERATORS)
        raise InputError(f"{name[:40]!r} is no device: {hint}there are {', '.join(ACCELERATORS)}")
    return ACCELERATORS[name]


def usual_dtype(device: str) -> str:
    """The dtype in which a device trains if nobody names one: bf16, or amp or fp32 if it lacks it.

    >>> usual_dtype("h100"), usual_dtype("v100"), usual_dtype("p100")
    ('bf16', 'amp', 'fp32')
    """
    peak = accelerator(device).peak
    return next(name for name in ("bf16", "amp", "fp32") if peak.keys() & {*PRECISIONS[name].math})


@cache
def multiplies(device: str, dtype: str, kind: str = "matmul") -> str:
    """The dtype of multiplications of a kind of :data:`SHARES` on `device` if a model is trained in
    `dtype`.

    Raises InputError, with the possible dtypes, if the model cannot be trained in this one.
    """
    usable = accelerator(device).peak.keys() & SHARES[kind]
    able = {
        name: [math for math in precision.math if math in usable]
        for name, precision in PRECISIONS.items()
    }
    if not able.get(dtype):
        takes = ", ".join(name for name, maths in able.items() if maths)
        raise InputError(f"{device} cannot train it in {dtype[:40]!r}: it takes {takes}")
    return able[dtype][0]


def rate(device: str, dtype: str, kind: str = "matmul") -> float:
    """FLOP/s that `device` reaches in multiplications of a kind of :data:`SHARES` if a model is
    trained in `dtype`. Raises InputError as :func:`multiplies`."""
    math, chosen = multiplies(device, dtype, kind), accelerator(device)
    return chosen.peak[math] * SHARES[kind][math] * chosen.tuned


def power_factor(device: str, power: float = 0.0) -> float:
    """The multiple of their time that multiplications take on a board with `power` watts, or with
    its usual ones if that is 0. Raises InputError for other watts than the board can have.

    >>> round(power_factor("h100", 500), 2)
    1.22
    """
    chosen = accelerator(device)
    if power and not chosen.rated / 4 <= power <= chosen.rated:
        least, most = chosen.rated / 4, chosen.rated
        raise InputError(f"power={power:g}W: a board of {device} takes {least:g}W to {most:g}W")
    return float((chosen.rated / (power or chosen.power)) ** POWER)


def bandwidth(device: str) -> float:
    """Bytes/s that memory-bound work on `device` reaches."""
    return accelerator(device).bandwidth * MEMORY


def memory_of(machine: str) -> float | None:
    """β of the memory of a GPU in bytes/s, on a machine of the catalogue; None on others."""
    device = DEVICES.get(machine)
    return None if device is None else ACCELERATORS[device].bandwidth
