"""Devices for training, and the shares of their peaks that training reaches.

Peaks are dense (without sparsity), in FLOP/s; a multiply-add counts as two. Datasheet figures are
those in github.com/stas00/ml-engineering (compute/accelerator). Figures marked "recalled" are from
memory; we have not checked them. No share is fitted to a run on several devices, because such runs
judge the communication.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from topologies.errors import InputError, did_you_mean


class Accelerator(NamedTuple):
    """A device for training."""

    memory: float
    """Bytes of its memory."""
    bandwidth: float
    """Bytes/s of its memory."""
    peak: Mapping[str, float]
    """FLOP/s in each dtype that it has instructions for."""
    alike: str
    """The GPU of :mod:`experiments.models.products` whose shares its products reach."""
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
    """The dtypes of multiplications; the device takes the first that it has."""
    width: float
    """Bytes of an activation."""
    parameters: str
    """The dtype of parameters and optimizer state."""
    gradients: Literal["fp32", "bf16"]
    """The dtype of gradients."""


def _device(
    memory: float, bandwidth: float, units: int, alike: str, *, tuned: float = 1.0, **peak: float
) -> Accelerator:
    """A device with the memory in GB, its bandwidth in GB/s, and the peaks in TFLOP/s."""
    flops = {dtype: value * 1e12 for dtype, value in peak.items()}
    return Accelerator(memory * 1e9, bandwidth * 1e9, flops, alike, units, tuned)


_H100 = {"fp32": 67, "tf32": 494.5, "fp16": 989, "bf16": 989, "fp8": 1979}

ACCELERATORS: dict[str, Accelerator] = {
    # Recalled: NVIDIA P100 datasheet, SXM2 with 16 GB.
    "p100": _device(16, 732, 56, "a100", fp32=10.6),
    # NVIDIA V100 datasheet, SXM2 with 32 GB (as fanghostt/transformers-benchmarks lists it).
    "v100": _device(32, 900, 80, "a100", fp32=15.7, fp16=125),
    # NVIDIA A100 datasheet, SXM with 80 GB.
    "a100": _device(80, 2039, 108, "a100", fp32=19.5, tf32=156, fp16=312, bf16=312),
    # NVIDIA H100 datasheet, SXM with 80 GB, and H200 datasheet, SXM.
    "h100": _device(80, 3350, 132, "h100", **_H100),
    "h200": _device(141, 4800, 132, "h100", **_H100),
    # NVIDIA DGX B200 datasheet.
    "b200": _device(180, 8000, 148, "b200", fp32=80, tf32=1125, fp16=2250, bf16=2250, fp8=4500),
    # AMD Instinct MI300X datasheet. Its best matrix multiplications reach 51% to 60% of peak,
    # NVIDIA's 80% to 87%.
    "mi300x": _device(
        192,
        5300,
        304,
        "h100",
        tuned=0.7,
        fp32=163.4,
        tf32=653.7,
        fp16=1307.4,
        bf16=1307.4,
        fp8=2614.9,
    ),
    # Recalled: two Intel Xeon Platinum 8480+. 112 cores at their base of 2 GHz (64 FLOP a cycle
    # with AVX-512, 2048 with AMX), 16 channels of DDR5-4800; two sockets are assumed to reach half
    # of the usual share.
    "cpu": _device(512, 614.4, 0, "a100", tuned=0.5, fp32=14.3, bf16=458.8),
}
"""The devices by name."""

PRECISIONS: dict[str, Precision] = {
    "fp32": Precision(("fp32",), 4, "fp32", "fp32"),
    "tf32": Precision(("tf32",), 4, "fp32", "fp32"),
    "amp": Precision(("bf16", "fp16"), 2, "fp32", "fp32"),
    "bf16": Precision(("bf16",), 2, "bf16", "bf16"),
    "fp8": Precision(("fp8",), 2, "bf16", "bf16"),
}
"""The values of the option `dtype`. amp multiplies in 16 bits and keeps parameters and gradients in
fp32. fp8 multiplies in 8 bits and keeps everything else in bf16."""

SHARES: dict[str, dict[str, float]] = {
    # Large products reach 89% in fp32 on a V100 and 74% in 16 bits and TF32 on an A100
    # (transformers-benchmarks) to 87% (stas00/ml-engineering, MAMF); those of layers are smaller.
    # In fp8 large ones reach 71% on an H100 (MAMF), and scaling costs some.
    "matmul": {"fp32": 0.8, "tf32": 0.6, "fp16": 0.6, "bf16": 0.6, "fp8": 0.5},
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

MEMORY = 0.8
"""The share of the memory bandwidth that element-wise work, norms and the optimizer reach.
Recalled: copies reach 80% to 92% of a GPU's; kernels of PyTorch are at the lower end."""


def accelerator(name: str) -> Accelerator:
    """The device called `name`. Raises InputError with the nearest name if there is none."""
    if name not in ACCELERATORS:
        hint = did_you_mean(name, ACCELERATORS)
        raise InputError(f"{name[:40]!r} is no device: {hint}there are {', '.join(ACCELERATORS)}")
    return ACCELERATORS[name]


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


def bandwidth(device: str) -> float:
    """Bytes/s that memory-bound work on `device` reaches."""
    return accelerator(device).bandwidth * MEMORY


DEVICES = {
    "dgx1": "v100",
    "dgx_a100": "a100",
    "leonardo": "a100",
    "hgx_h100": "h100",
    "mn5_acc": "h100",
    "alps": "h100",
    "hgx_h200": "h200",
    "b200": "b200",
    "nvl72": "b200",
    "mi300x": "mi300x",
    "h100_cluster": "h100",
    "abci_v100": "v100",
}
"""The device of each machine in the catalogue and of each profile of GPUs, or the most similar
one."""
