"""The times of casts to 8 bits on a device."""

from __future__ import annotations

from experiments.models.accelerators import accelerator

BLEND = 1.25
"""The power mean of launch and traffic that a cast takes: between their sum (1) and the longer of
both. The value with the least error of all devices, where whole numbers of columns were left out of
the fits."""

PASSES: dict[str, dict[str, tuple[float, float]]] = {
    "amax": {
        "h100": (6.0e-6, 0.40),
        "h200": (6.0e-6, 0.29),
        "b200": (7.6e-6, 0.39),
        "gb200": (7.9e-6, 0.39),
    },
    "cast": {
        "h100": (2.7e-6, 0.94),
        "h200": (2.5e-6, 0.86),
        "b200": (3.1e-6, 0.55),
        "gb200": (3.3e-6, 0.59),
    },
}
"""Seconds of the launch, and the share of the memory bandwidth, of the pass that looks for the
largest element and of the pass that writes 8 bits.

Fitted to the tables computescale and scale_matrix of TensorRT-LLM 1.3.0rc10 in AIConfigurator
(github.com/ai-dynamo/aiconfigurator, commit 095f58a5). The median error at numbers of columns that
were left out is 4% (cast; B200 5%) and 4% to 9% (amax). Another GPU takes the values of the one
that is like it."""


def quantization_time(
    device: str, rows: float, columns: float, width: float = 2.0, *, dynamic: bool = True
) -> float:
    """Seconds of a cast of `rows` x `columns` elements of `width` bytes to 8 bits. A dynamic one
    reads all elements first for their scale.

    >>> round(quantization_time("h100", 8192, 4096, dynamic=False) * 1e6)
    33
    """
    elements = rows * columns
    seconds = _pass("cast", device, elements * (width + 1))
    return seconds + _pass("amax", device, elements * width) if dynamic else seconds


def _pass(kind: str, device: str, nbytes: float) -> float:
    chosen, measured = accelerator(device), PASSES[kind]
    known = device if device in measured else chosen.alike
    launch, share = measured.get(known, measured["h100"])
    traffic = nbytes / (chosen.bandwidth * share)
    return float((launch**BLEND + traffic**BLEND) ** (1 / BLEND))
