"""The share of its peak that a GPU reaches in matrix products, by shape.

Each file holds the shares of a GPU and a dtype in units of 0.01%, by the rows and outputs (lines)
and the inner elements (columns) of a product. They are derived from the times that NVIDIA measured
with cuBLAS and CUTLASS under SGLang 0.5.10 (github.com/ai-dynamo/aiconfigurator, Apache-2.0,
commit 095f58a5, aic-core/.../systems/data/*_sxm/gemm), with the peaks of
:mod:`experiments.models.accelerators`. Where the largest product was not measured, the next one
stands for it. Between the lines shares are interpolated by the logarithms of the sizes: on the
products that the files leave out and whose rows are a multiple of 128, the mean error is 4.7%
(A100) and 4.8% (H100).
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import numpy as np

from experiments.models.accelerators import accelerator
from topologies.topology import Floats


@lru_cache(maxsize=8)
def read(device: str, dtype: str) -> tuple[Floats, Floats, Floats]:
    """The products of `device` in `dtype` that were measured: those in fp8 where it has them,
    otherwise those in 16 bits.

    The logarithms of their rows, those of their outputs and inner elements, and their shares, shape
    (rows, outputs, inner).
    """
    name = accelerator(device).alike
    eight = dtype == "fp8" and name != "a100"
    file = files(__package__) / f"{name}_{'fp8' if eight else 'bf16'}.csv"
    heading, _, lines = file.read_text().partition("\n")
    sides = np.fromstring(heading.split(",", 2)[2], sep=",")
    # As one text: commands wait for this.
    values = np.fromstring(lines.rstrip().replace("\n", ","), sep=",").reshape(-1, 2 + len(sides))
    rows = values[:: len(sides), 0]
    shares = values[:, 2:].reshape(len(rows), len(sides), len(sides)) * 1e-4
    return np.log(rows), np.log(sides), shares


def share(device: str, dtype: str, rows: float, outputs: float, inner: float) -> float:
    """The share of its peak that `device` reaches when it multiplies `rows` x `inner` by `inner` x
    `outputs` elements of `dtype`.

    >>> round(share("a100", "bf16", 8192, 8192, 2048), 2)
    0.79
    """
    lines, sides, cube = read(device, dtype)
    for axis, size in ((lines, rows), (sides, outputs), (sides, inner)):
        at = float(np.clip(np.log(size), axis[0], axis[-1]))
        low = min(int(np.searchsorted(axis, at, "right")) - 1, len(axis) - 2)
        part = (at - axis[low]) / (axis[low + 1] - axis[low])
        cube = (1 - part) * cube[low] + part * cube[low + 1]
    return float(cube)
