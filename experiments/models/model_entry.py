"""A model that is shipped or that a config.json describes, its options, and its times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

from experiments.models.accelerators import ACCELERATORS, PRECISIONS, accelerator
from experiments.models.block_cut import BlockCut
from experiments.models.device_times import DeviceTimes
from experiments.models.image_networks import ImageNetworks
from experiments.models.model_shapes import TransformerShape, divisor, share
from experiments.models.transformer_blocks import Writer
from experiments.models.transformers import transformer
from experiments.option_text import Parser, parse_pairs
from simulator.training.model import Layer, Model
from topologies.errors import InputError, unknown_option
from topologies.units import parse_whole

LARGEST_BATCH = 65536
LONGEST = 131072
"""Tokens of the longest sequence, where no table of positions ends earlier."""

OPTIONS: dict[str, tuple[str, int, str]] = {
    "layers": ("blocks", 4096, "blocks of attention and MLP"),
    "hidden": ("width", 2**20, "elements of a token between blocks; the MLP changes in proportion"),
    "heads": ("heads", 2**14, "heads of queries"),
    "kv_heads": ("kv_heads", 2**14, "heads of keys and values"),
    "mlp": ("hidden", 2**22, "elements of a token inside an MLP"),
    "vocab": ("vocabulary", 2**24, "tokens of the vocabulary"),
}
"""The options: the field of :class:`TransformerShape`, the largest value, the meaning."""


class Setup(NamedTuple):
    """The training of a model on one device."""

    batch: int = 1
    """Samples a device."""
    dtype: str = "bf16"
    device: str = "h100"


@dataclass(frozen=True)
class Entry:
    """A model that is shipped or that a config.json describes."""

    model: TransformerShape | Callable[[ImageNetworks, int], Iterable[Layer]]
    """A transformer, or a network for images of a side."""
    size: int
    """Tokens of a sequence or pixels of an image's side."""
    stretched: bool = False
    """Whether the table of positions has as many rows as a sequence has tokens, as in a training
    from scratch."""
    setup: Setup | None = None
    """The training without options; None: in the first dtype and on the first device that hold the
    model."""
    name: str = ""
    choices: Mapping[str, int | str] = field(default_factory=dict)
    """The options that the user chose."""

    @property
    def shape(self) -> TransformerShape:
        """The shape of a transformer. Raises InputError for another model."""
        if not isinstance(self.model, TransformerShape):
            raise InputError(f"{self.name} is no transformer: take one, like llama3_8b")
        return self.model

    @property
    def estimate(self) -> Model:
        """The model with its times. Raises InputError if the device cannot train it."""
        batch, dtype, device = self.defaults
        try:
            times = DeviceTimes(device, dtype)
            cut = BlockCut(micro=batch, grads=PRECISIONS[dtype].gradients)
            if isinstance(self.model, TransformerShape):
                cut = replace(cut, dropout=self.model.dropout)
                model = transformer(Writer(times, cut, self.model, self.size))
            else:
                images = ImageNetworks(times, cut)
                model = images.network(self.model(images, self.size), self.size)
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None
        return replace(model, name=self.name)

    @cached_property
    def defaults(self) -> Setup:
        """The setup. If there is none, the model fits into the device's memory where it can, with
        the largest batch up to 32."""
        if self.setup:
            return self.setup
        for setup in (Setup(1, "amp"), Setup(), Setup(device="h200"), Setup(device="b200")):
            model = replace(self, setup=setup).estimate
            if fits(model):
                room = accelerator(model.device).memory - memory(model) + model.activations
                batches = [2**k for k in range(6) if 2**k * model.activations < room]
                return setup._replace(batch=batches[-1])
        return Setup()

    @property
    def ranges(self) -> dict[str, tuple[str, int, int, object]]:
        """What each option is for, its least and largest value, which are 0 for a word, and its
        default."""
        batch, dtype, device = self.defaults
        rest = {
            "device": (f"one of {', '.join(ACCELERATORS)}", 0, 0, device),
            "dtype": ("fp32, tf32, amp, bf16 or fp8 where device and model can", 0, 0, dtype),
        }
        samples = ("samples a device", 1, LARGEST_BATCH, batch)
        if not isinstance(self.model, TransformerShape):
            image = ("side of an image in pixels", 32, 4096, self.size)
            return {"batch": samples, "image": image, **rest}
        longest = (0 if self.stretched else self.model.positions) or LONGEST
        sizes = {
            key: (meaning, 1, most, getattr(self.model, field))
            for key, (field, most, meaning) in OPTIONS.items()
        }
        seq = ("tokens of a sequence", 1, longest, self.size)
        return {"batch": samples, "seq": seq, **rest, **sizes}

    @property
    def options(self) -> dict[str, str]:
        """What each option is for, with its default."""
        return {
            key: f"{meaning}{f', {least} to {most}' if most else ''} [{usual}]"
            for key, (meaning, least, most, usual) in self.ranges.items()
        }

    def parse(self, text: str) -> dict[str, int | str]:
        """The values of options like "layers=4,device=a100".

        Raises InputError for an option that is unknown, has no value, comes twice, or is out of
        range.
        """
        parsers: dict[str, Parser] = {
            key: partial(_parse_in, least, most) if most else str
            for key, (_, least, most, _) in self.ranges.items()
        }
        return parse_pairs(
            text, self.name, parsers, lambda key: unknown_option(self.name, key, self.options)
        )

    def with_options(self, text: str) -> Entry:
        """The model with options. Raises InputError as :meth:`parse`, and for heads that do not
        divide."""
        if not text:
            return self
        values, model = self.parse(text), self.model
        size = int(values.get("seq", values.get("image", self.size)))
        if isinstance(model, TransformerShape):
            sizes = {key: int(values[key]) for key in OPTIONS if key in values}
            try:
                model = changed(model, sizes, size if self.stretched else 0)
            except InputError as error:
                raise InputError(f"{self.name}: {error}") from None
        named: dict[str, Any] = {key: values[key] for key in Setup._fields if key in values}
        # The options of the help: a smaller model keeps the batch and dtype of the whole one.
        setup = self.defaults._replace(**named)
        return replace(self, model=model, size=size, setup=setup, choices=values)


def _parse_in(least: int, most: int, text: str) -> int:
    if not least <= (value := parse_whole(text)) <= most:
        raise InputError(f"it is {least} to {most}")
    return value


def memory(model: Model) -> float:
    """Bytes of parameters, gradients, the optimizer's state and activations."""
    return model.parameters * (1 + model.state) + model.gradients + model.activations


def fits(model: Model) -> bool:
    """Whether one device holds the model and trains it."""
    return memory(model) < accelerator(model.device).memory


def changed(shape: TransformerShape, values: Mapping[str, int], positions: int) -> TransformerShape:
    """The shape with other layers, hidden, heads, kv_heads, mlp and vocab, and with `positions`
    learned positions unless that is 0.

    An MLP and experts keep their ratio to the width, and heads keep the number of queries that
    share keys. Raises InputError for heads that do not divide.
    """
    width, heads = values.get("hidden", shape.width), values.get("heads", shape.heads)
    shared = not shape.latent and shape.head_size * shape.heads == shape.width
    scale, group, experts = width / shape.width, shape.heads // shape.kv_heads, shape.experts
    if heads % group and "kv_heads" not in values:
        raise InputError(
            f"heads={heads} is no multiple of {group}, the heads that share keys: add "
            f"kv_heads={divisor(heads, shape.kv_heads)}"
        )
    return replace(
        shape,
        blocks=values.get("layers", shape.blocks),
        width=width,
        heads=heads,
        kv_heads=values.get("kv_heads", heads // group),
        head_size=share(width, heads) if shared else shape.head_size,
        hidden=values.get("mlp", max(1, round(shape.hidden * scale))),
        vocabulary=values.get("vocab", shape.vocabulary),
        positions=positions if positions and shape.positions else shape.positions,
        experts=experts
        and replace(
            experts,
            hidden=max(1, round(experts.hidden * scale)),
            shared=round(experts.shared * scale),
        ),
    )
