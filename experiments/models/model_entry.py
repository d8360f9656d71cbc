"""A model that is shipped or that a config.json describes, its options, and its times."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from experiments.models.accelerators import ACCELERATORS, accelerator
from experiments.models.device_times import estimate
from experiments.models.model_shapes import Experts, Shape, divisor, share
from experiments.models.transformers import architecture
from experiments.models.work import Architecture
from simulator.training.model import Model
from topologies.errors import InputError

LARGEST_BATCH = 65536
LONGEST = 131072
"""Tokens of the longest sequence, where no table of positions ends earlier."""
SIDES = 32, 4096
"""The least and the largest side of an image."""

OPTIONS: dict[str, tuple[str, int, str]] = {
    "layers": ("blocks", 4096, "blocks of attention and MLP"),
    "hidden": ("width", 2**20, "elements of a token between blocks; the MLP changes in proportion"),
    "heads": ("heads", 2**14, "heads of queries"),
    "kv_heads": ("kv_heads", 2**14, "heads of keys and values"),
    "mlp": ("hidden", 2**22, "elements of a token inside an MLP"),
    "vocab": ("vocabulary", 2**24, "tokens of the vocabulary"),
}
"""The options of a shape: the field of :class:`Shape`, the largest value, the meaning."""


class Usual(NamedTuple):
    """The training of a model, unless options say otherwise."""

    batch: int = 1
    """Samples a device."""
    dtype: str = "bf16"
    device: str = "h100"


@dataclass(frozen=True)
class Entry:
    """A model."""

    model: Shape | Callable[[int], Architecture]
    """A transformer, or the layers of an image model for images of a side."""
    size: int
    """Tokens of a sequence or pixels of an image's side, unless an option says otherwise."""
    stretched: bool = False
    """Whether the table of positions has as many rows as a sequence has tokens, as in a training
    from scratch."""
    training: Usual | None = None
    """None: the first dtype and device that hold the model."""

    @property
    def shape(self) -> Shape | None:
        """The shape of a transformer."""
        return self.model if isinstance(self.model, Shape) else None

    @property
    def group(self) -> str:
        """The group of models that it belongs to."""
        if self.shape is None or self.shape.kind == "image":
            return "images"
        return "text, mixture of experts" if self.shape.experts else "text"

    @cached_property
    def usual(self) -> Usual:
        """The training without options: with it the model fits into the device's memory where it
        can, with the largest batch up to 32."""
        if self.training:
            return self.training
        for dtype, device in (
            ("amp", "h100"),
            ("bf16", "h100"),
            ("bf16", "h200"),
            ("bf16", "b200"),
        ):
            model = self.with_times("", {}, Usual(1, dtype, device))
            if fits(model):
                room = accelerator(device).memory - memory(model) + model.activations
                batches = [2**k for k in range(6) if 2**k * model.activations < room]
                return Usual(batches[-1], dtype, device)
        return Usual()

    @property
    def extent(self) -> tuple[str, int, int]:
        """The option for the size of a sample, its least and its largest value."""
        if self.shape is None:
            return "image", *SIDES
        positions = 0 if self.stretched else self.shape.positions
        return "seq", 1, positions or LONGEST

    @property
    def options(self) -> dict[str, str]:
        """What each option is for, with its default."""
        option, least, most = self.extent
        meaning = "tokens of a sequence" if self.shape else "side of an image in pixels"
        batch, dtype, device = self.usual
        return {
            "batch": f"samples a device, 1 to {LARGEST_BATCH} [{batch}]",
            option: f"{meaning}, {least} to {most} [{self.size}]",
            "device": f"one of {', '.join(ACCELERATORS)} [{device}]",
            "dtype": f"fp32, tf32, amp, bf16 or fp8 where device and model can [{dtype}]",
            **{
                key: f"{meaning}, 1 to {most} [{getattr(self.shape, field)}]"
                for key, (field, most, meaning) in (OPTIONS if self.shape else {}).items()
            },
        }

    def parse_option(self, name: str, key: str, text: str) -> int | str:
        """The value of an option of the model `name`. Raises InputError if it is out of range."""
        if key in ("device", "dtype"):
            return text
        least, most = 1, LARGEST_BATCH if key == "batch" else OPTIONS.get(key, ("", 0))[1]
        if key == self.extent[0]:
            _, least, most = self.extent
        if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
            raise InputError(
                f"{name}:{key}: {text[:40]!r} is not a whole number: write it like {least}"
            )
        if not least <= int(text) <= most:
            raise InputError(f"{name}:{key}: {text} is out of range: it is {least} to {most}")
        return int(text)

    def size_of(self, values: Mapping[str, int | str]) -> int:
        """Tokens of a sequence or pixels of an image's side with the options in `values`."""
        return int(values.get(self.extent[0], self.size))

    def shape_of(self, values: Mapping[str, int | str]) -> Shape:
        """The shape of a transformer with the options in `values`.

        Raises InputError for heads that do not divide.
        """
        assert self.shape is not None
        sizes = {key: int(values[key]) for key in OPTIONS if key in values}
        return changed(self.shape, sizes, self.size_of(values) if self.stretched else 0)

    def architecture(self, values: Mapping[str, int | str]) -> Architecture:
        """The layers with the options in `values`. Raises InputError as :meth:`shape_of` does."""
        if isinstance(self.model, Shape):
            return architecture(self.shape_of(values), self.size_of(values))
        return self.model(self.size_of(values))

    def with_times(
        self, name: str, values: Mapping[str, int | str], usual: Usual | None = None
    ) -> Model:
        """The model called `name`, with its times for the options in `values`. Raises
        InputError."""
        usual = usual or self.usual
        return estimate(
            name,
            self.architecture(values),
            batch=int(values.get("batch", usual.batch)),
            device=str(values.get("device", usual.device)),
            dtype=str(values.get("dtype", usual.dtype)),
        )


def memory(model: Model) -> float:
    """Bytes of parameters, gradients, the optimizer's state and activations."""
    return model.parameters * (1 + model.state) + model.gradients + model.activations


def fits(model: Model) -> bool:
    """Whether one device holds the model and trains it."""
    return memory(model) < accelerator(model.device).memory


def changed(shape: Shape, values: Mapping[str, int], positions: int) -> Shape:
    """The shape with other layers, hidden, heads, kv_heads, mlp and vocab, and with `positions`
    learned positions unless that is 0.

    An MLP and experts keep their ratio to the width, and heads keep the number of queries that
    share keys. Raises InputError for heads that do not divide.
    """
    width, heads = values.get("hidden", shape.width), values.get("heads", shape.heads)
    shared = not shape.latent and shape.head_size * shape.heads == shape.width
    scale = width / shape.width
    return replace(
        shape,
        blocks=values.get("layers", shape.blocks),
        width=width,
        heads=heads,
        kv_heads=values.get("kv_heads") or _kv_heads(shape, heads),
        head_size=share(width, heads) if shared else shape.head_size,
        hidden=values.get("mlp", max(1, round(shape.hidden * scale))),
        vocabulary=values.get("vocab", shape.vocabulary),
        positions=positions if positions and shape.positions else shape.positions,
        experts=shape.experts and _scaled(shape.experts, scale),
    )


def _scaled(experts: Experts, scale: float) -> Experts:
    hidden, shared = (round(size * scale) for size in (experts.hidden, experts.shared))
    return replace(experts, hidden=max(1, hidden), shared=shared)


def _kv_heads(shape: Shape, heads: int) -> int:
    group = shape.heads // shape.kv_heads
    if heads % group:
        raise InputError(
            f"heads={heads} is no multiple of {group}, the heads that share keys: add "
            f"kv_heads={divisor(heads, shape.kv_heads)}"
        )
    return heads // group
