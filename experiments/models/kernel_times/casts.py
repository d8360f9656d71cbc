"""Casts of matrices in 16 bits to 8 bits: a pass that looks for the largest element, and one that
writes. A pass is launched and moves its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from experiments.models.kernel_times.kernel_model import Chip, Sizes, kind_of, norm
from experiments.models.kernel_times.lookup import model_of
from topologies.topology import Floats

MOVED = {"amax": 2.0, "cast": 3.0}
"""Bytes of an element that each pass moves."""
ENGINE = "trtllm"
"""The library that launches each pass by itself."""


def seconds(sizes: Sizes, values: Mapping[str, float], chip: Chip) -> Floats:
    """Seconds of passes over `rows` x `columns` elements that move `width` bytes each, shape
    (passes,)."""
    nbytes = sizes["rows"] * sizes["columns"] * sizes["width"]
    traffic = nbytes / (chip.bandwidth * values["memory"])
    return norm(1 + values["ramp"], values["launch"], traffic)


def axes(sizes: Sizes) -> Sequence[Floats]:
    """Elements and columns."""
    return sizes["rows"] * sizes["columns"], sizes["columns"]


CASTS = kind_of("casts", seconds, axes)


@lru_cache(maxsize=1024)
def cast_seconds(device: str, rows: float, columns: float, *, dynamic: bool = True) -> float:
    """Seconds of a cast of `rows` x `columns` elements in 16 bits to 8 bits. A dynamic one first
    reads all elements for their scale.

    >>> round(cast_seconds("h100", 8192, 4096, dynamic=False) * 1e6)
    36
    """
    passes = ("amax", "cast") if dynamic else ("cast",)
    return sum(
        model_of(CASTS, device, "bf16", f"{ENGINE} {name}")
        .of(rows=rows, columns=columns, width=MOVED[name])
        .expected
        for name in passes
    )
