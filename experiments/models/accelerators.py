"""Devices for training, and the shares of their peaks that training reaches.

Peaks are dense (without sparsity), in FLOP/s; a multiply-add counts as two. Datasheet figures are
those in github.com/stas00/ml-engineering (compute/accelerator). Figures marked "recalled" are from
memory; we have not checked them. No share is fitted to a run on several devices, because such runs
judge the communication.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from topologies.errors import InputError, did_you_mean

TERA = 1e12
GIGA = 1e9


class Accelerator(NamedTuple):
    """A device for training."""

    memory: float
    """Bytes of its memory."""
    bandwidth: float
    """Bytes/s of its memory."""
    peak: Mapping[str, float]
    """FLOP/s in each dtype that it has instructions for."""
    source: str
    """The source of the figures."""
    multiprocessors: int = 0
    """Multiprocessors or compute units that run kernels; 0 for a CPU."""
    tuned: float = 1.0
    """Its libraries reach this multiple of the usual shares of a peak."""

    @property
    def capacity(self) -> float:
        """Bytes of its memory as nvidia-smi counts: what data sheets call GB are GiB, 81920 MiB
        for an A100 with 80 GB."""
        return self.memory / GIGA * 2.0**30


class Share(NamedTuple):
    """A share of a peak."""

    value: float
    why: str
    """The measurements or the assumption behind the value."""


class Precision(NamedTuple):
    """The dtypes in which a model is trained."""

    math: tuple[str, ...]
    """The dtypes of multiplications; the device takes the first that it has."""
    width: float
    """Bytes of an activation."""
    parameters: str
    """The dtype of parameters and optimizer state."""
    gradients: str
    """The dtype of gradients."""
    cast: float = 0.0
    """Bytes that the conversion of a weight moves, and that of its gradient."""


def _peak(**tera: float) -> dict[str, float]:
    return {dtype: value * TERA for dtype, value in tera.items()}


ACCELERATORS: dict[str, Accelerator] = {
    "p100": Accelerator(
        16 * GIGA,
        732 * GIGA,
        _peak(fp32=10.6),
        "recalled: NVIDIA P100 datasheet, SXM2 with 16 GB",
        56,
    ),
    "v100": Accelerator(
        32 * GIGA,
        900 * GIGA,
        _peak(fp32=15.7, fp16=125),
        "NVIDIA V100 datasheet, SXM2 with 32 GB (as fanghostt/transformers-benchmarks lists it)",
        80,
    ),
    "a100": Accelerator(
        80 * GIGA,
        2039 * GIGA,
        _peak(fp32=19.5, tf32=156, fp16=312, bf16=312),
        "NVIDIA A100 datasheet, SXM with 80 GB",
        108,
    ),
    "h100": Accelerator(
        80 * GIGA,
        3350 * GIGA,
        _peak(fp32=67, tf32=494.5, fp16=989, bf16=989, fp8=1979),
        "NVIDIA H100 datasheet, SXM with 80 GB",
        132,
    ),
    "h200": Accelerator(
        141 * GIGA,
        4800 * GIGA,
        _peak(fp32=67, tf32=494.5, fp16=989, bf16=989, fp8=1979),
        "NVIDIA H200 datasheet, SXM",
        132,
    ),
    "b200": Accelerator(
        180 * GIGA,
        8000 * GIGA,
        _peak(fp32=80, tf32=1125, fp16=2250, bf16=2250, fp8=4500),
        "NVIDIA DGX B200 datasheet",
        148,
    ),
    "mi300x": Accelerator(
        192 * GIGA,
        5300 * GIGA,
        _peak(fp32=163.4, tf32=653.7, fp16=1307.4, bf16=1307.4, fp8=2614.9),
        "AMD Instinct MI300X datasheet; its best matrix multiplications reach 51% to 60% of "
        "peak, NVIDIA's 80% to 87%",
        304,
        tuned=0.7,
    ),
    "cpu": Accelerator(
        512 * GIGA,
        614.4 * GIGA,
        _peak(fp32=14.3, bf16=458.8),
        "recalled: two Intel Xeon Platinum 8480+, 112 cores at their base of 2 GHz (64 FLOP a "
        "cycle with AVX-512, 2048 "
        "with AMX), 16 channels of DDR5-4800; two sockets are assumed to reach half of the usual "
        "share",
        tuned=0.5,
    ),
}
"""The devices by name."""

PRECISIONS: dict[str, Precision] = {
    "fp32": Precision(("fp32",), 4, "fp32", "fp32"),
    "tf32": Precision(("tf32",), 4, "fp32", "fp32"),
    "amp": Precision(("bf16", "fp16"), 2, "fp32", "fp32", cast=6),
    "bf16": Precision(("bf16",), 2, "bf16", "bf16"),
    "fp8": Precision(("fp8",), 2, "bf16", "bf16", cast=3),
}
"""The values of the option `dtype`. amp multiplies in 16 bits and keeps parameters and gradients in
fp32. fp8 multiplies in 8 bits and keeps everything else in bf16."""

_LARGE = "large ones reach 74% (transformers-benchmarks, A100)"
_STEP = (
    "from whole steps of ResNet-50 less their memory-bound parts, rounded: NVIDIA "
    "DeepLearningExamples"
)
_HALF = Share(0.4, f"{_STEP}, V100 and A100, mixed precision, 1200 and 2470 images/s")
_TF32 = Share(0.25, f"{_STEP}, A100, TF32, 938 images/s: layouts are converted")

SHARES: dict[str, dict[str, Share]] = {
    "matmul": {
        "fp32": Share(
            0.8, "large ones reach 89% (transformers-benchmarks, V100); layers are smaller"
        ),
        "tf32": Share(0.6, f"{_LARGE}; layers are smaller"),
        "fp16": Share(0.6, f"{_LARGE} to 87% (stas00/ml-engineering, MAMF); layers are smaller"),
        "bf16": Share(0.6, f"{_LARGE} to 87% (stas00/ml-engineering, MAMF); layers are smaller"),
        "fp8": Share(
            0.5, "large ones reach 71% (stas00/ml-engineering, MAMF, H100); scaling costs some"
        ),
    },
    "convolution": {
        "fp32": Share(
            0.6,
            "cuDNN reaches half to two thirds: what 3x3 ones leave of ResNet-50's steps on P100 "
            "and V100",
        ),
        "tf32": _TF32,
        "fp16": _HALF,
        "bf16": _HALF,
    },
    "3x3 convolution": {
        "fp32": Share(
            1.4,
            "from VGG-16's steps on P100, 154 images/s (TensorFlow benchmarks, 2017): Winograd's "
            "algorithm",
        ),
        "tf32": _TF32,
        "fp16": _HALF,
        "bf16": _HALF,
    },
    "attention": {
        "fp32": Share(
            0.4, "assumed half of a matrix multiplication's: softmax lies between two of them"
        ),
        "tf32": Share(0.3, "assumed half of a matrix multiplication's"),
        "fp16": Share(
            0.4, "recalled: FlashAttention-2 reaches 35% to 70%, forward and backward, H100 to A100"
        ),
        "bf16": Share(0.4, "as fp16"),
        "fp8": Share(0.2, "stays in bf16, whose peak is half of fp8's"),
    },
}
"""The share of the peak that each kind of multiplication reaches in training, by its dtype.

FLOPs are those of the definition. Winograd's algorithm, for 3x3 with a stride of 1, needs up to
2.25 times fewer: its share is above 1."""

MEMORY = Share(
    0.8,
    "recalled: copies reach 80% to 92% of a GPU's memory bandwidth; kernels of PyTorch are at "
    "the lower end",
)
"""The share of the memory bandwidth that element-wise work, norms and the optimizer reach."""


def accelerator(name: str) -> Accelerator:
    """The device called `name`. Raises InputError with the nearest name if there is none."""
    if name not in ACCELERATORS:
        hint = did_you_mean(name, ACCELERATORS)
        raise InputError(f"{name[:40]!r} is no device: {hint}there are {', '.join(ACCELERATORS)}")
    return ACCELERATORS[name]


def multiplies(device: str, dtype: str, kinds: Iterable[str]) -> str:
    """The dtype in which `device` multiplies if a model with these `kinds` of multiplications is
    trained in `dtype`.

    Raises InputError, with the possible dtypes, if the model cannot be trained in this one.
    """
    usable = set(accelerator(device).peak).intersection(*(SHARES[kind] for kind in kinds))
    able = {
        name: [math for math in precision.math if math in usable]
        for name, precision in PRECISIONS.items()
    }
    if not able.get(dtype):
        takes = ", ".join(name for name, maths in able.items() if maths)
        raise InputError(f"{device} cannot train it in {dtype[:40]!r}: it takes {takes}")
    return able[dtype][0]


def share(device: str, kind: str, math: str) -> float:
    """The share of its peak that `device` reaches in multiplications of `kind` in dtype `math`."""
    return SHARES[kind][math].value * accelerator(device).tuned


def bandwidth(device: str) -> float:
    """Bytes/s that memory-bound work on `device` reaches."""
    return accelerator(device).bandwidth * MEMORY.value


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
