"""The learnt model that a device takes: its own, that of a sibling, or what all devices share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from math import hypot

from experiments.models.accelerators import NARROW, accelerator
from experiments.models.kernel_times.kernel_model import Chip, KernelModel, Key, Kind, models
from topologies.errors import InputError

ALL = "all"
"""The device of the lines that hold what families of devices share."""
EAGER = "_eager"
"""The end of the names of engines that launch each kernel from their host."""
ALIKE = 0.06
"""The spread of times between siblings, beyond that of shapes. Between an H100 and an H200, and a
B200 and a GB200, such intervals of 80% hold 81% of products."""
SIBLINGS = 1.1
"""Siblings have so many times the multiprocessors of each other at most."""
CORES = 112
"""Those of the CPUs, instead of multiprocessors."""
PEAKS = {"fp8_static": "fp8", "mxfp4": "bf16"}
"""The dtype of multiplications of precisions that are called otherwise."""
SIMILAR = {"fp32": "bf16", "tf32": "bf16", "fp16": "bf16", "mxfp8": "fp8"}
"""The measured precisions whose shares others take."""
WIDTHS = {
    "fp32": 4.0,
    "tf32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8_static": 1.0,
    "mxfp4": 0.53125,
} | NARROW
"""Bytes of an element with its share of a scale."""


def chip_of(device: str, precision: str) -> Chip:
    """What a device can do in a precision by its specification. Raises InputError, with the
    precisions that it has, if this is none of them."""
    specified = accelerator(device)
    peak = specified.peak.get(PEAKS.get(precision, precision))
    if peak is None:
        has = ", ".join(specified.peak)
        raise InputError(f"{device} has no {precision[:40]!r}: it has {has}")
    flops, units = peak * specified.tuned, specified.multiprocessors or CORES
    return Chip(flops, specified.bandwidth, units, WIDTHS[precision])


def sibling(device: str) -> str:
    """The measured device of its generation; empty if there is none."""
    chosen = accelerator(device)
    numbers = sorted((chosen.multiprocessors, accelerator(chosen.alike).multiprocessors))
    return chosen.alike if numbers[1] <= SIBLINGS * numbers[0] else ""


@lru_cache
def model_of(kind: Kind, device: str, precision: str, engine: str) -> KernelModel:
    """The model of a kind of kernel on a device. One that nobody has measured takes the shares of
    its specification that a sibling reaches. Without a sibling it takes what all devices share,
    with the spread that this has for a family of devices that was left out.

    fp32, tf32 and fp16 take those of bf16, and mxfp8 those of fp8. Raises InputError with the
    engines if none is of this precision.
    """
    learnt, similar = models(kind), SIMILAR.get(precision, precision)
    if Key(device, precision, engine) in learnt:
        return learnt[Key(device, precision, engine)]
    chip = chip_of(device, precision)
    for alike in (device, sibling(device), ALL):
        model = learnt.get(Key(alike, similar, engine))
        if model:
            spread = model.spread if alike == ALL else hypot(model.spread, ALIKE)
            return replace(model, chip=chip, spread=spread)
    engines = sorted({key.engine for key in learnt if key.precision == similar})
    hint = f"there are {', '.join(engines)}" if engines else "nothing was measured in it"
    raise InputError(f"no engine {engine[:40]!r} in {precision}: {hint}")


@lru_cache
def models_of(kind: Kind, device: str, precision: str) -> tuple[KernelModel, ...]:
    """The models of all engines that do not wait for their host: those that were measured on the
    device, or else on a sibling, or else on any device. Raises InputError as :func:`model_of`."""
    learnt, similar = models(kind), SIMILAR.get(precision, precision)
    for alike in (device, sibling(device), ALL):
        engines = [key.engine for key in learnt if key[:2] == (alike, similar)]
        chosen = [engine for engine in engines if not engine.endswith(EAGER)]
        if chosen:
            return tuple(model_of(kind, device, precision, engine) for engine in chosen)
    return (model_of(kind, device, precision, ALL),)


def fastest(kind: Kind, device: str, precision: str, sizes: Mapping[str, float]) -> float:
    """Expected seconds of a kernel by the fastest engine: what others take in the end."""
    return min(model.of(**sizes).expected for model in models_of(kind, device, precision))
