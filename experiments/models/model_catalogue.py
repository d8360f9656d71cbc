"""From "resnet50:batch=128,device=a100,dtype=amp" or the name of a file to a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from experiments.models.accelerators import ACCELERATORS, accelerator
from experiments.models.resnet import resnet50
from experiments.models.shape_catalogue import SHAPES, config_in
from experiments.models.shape_entry import Entry as ShapeEntry
from experiments.models.shape_options import parse_size, read_options
from experiments.models.transformers import architecture
from experiments.models.vgg import vgg16
from experiments.models.work import Architecture, estimate
from simulator.training.model import Model
from topologies.errors import InputError, nearest_name

LARGEST_BATCH = 65536


class Extent(NamedTuple):
    """What a sample's size is called, what it is where nobody says, and from where to where it
    goes."""

    option: str
    default: int
    least: int
    most: int


class Entry(NamedTuple):
    """A model, and its defaults: with those it fits into the device's memory where it can."""

    build: Callable[[Mapping[str, int]], Architecture]
    """The layers, from the options that are whole numbers."""
    extent: Extent
    batch: int
    dtype: str = "amp"
    device: str = "h100"
    shape: ShapeEntry | None = None
    """The shape of a transformer."""

    @property
    def group(self) -> str:
        """The group of models that it belongs to."""
        if self.shape is None or self.shape.shape.kind == "image":
            return "images"
        return "text, mixture of experts" if self.shape.shape.experts else "text"

    @property
    def options(self) -> dict[str, str]:
        """What each option is for, with its default."""
        option, default, least, most = self.extent
        shape = self.shape.options if self.shape else {}
        return {
            "batch": f"samples a device, 1 to {LARGEST_BATCH} [{self.batch}]",
            option: f"{HELP[option]}, {least} to {most} [{default}]",
            "device": f"one of {', '.join(ACCELERATORS)} [{self.device}]",
            "dtype": f"fp32, tf32, amp, bf16 or fp8 where device and model can [{self.dtype}]",
            **{key: meaning for key, meaning in shape.items() if key != option},
        }

    def parse_option(self, name: str, key: str, text: str) -> int | str:
        """The value of an option of the model `name`. Raises InputError if it is out of range."""
        if key in ("device", "dtype"):
            return text
        if self.shape and key not in ("batch", self.extent.option):
            return self.shape.parse_option(name, key, text)
        least, most = (1, LARGEST_BATCH) if key == "batch" else self.extent[2:]
        return parse_size(name, key, text, least, most)


HELP = {"image": "side of an image in pixels", "seq": "tokens of a sequence"}

IMAGE = Extent("image", 224, 32, 4096)


def _of_shape(
    entry: ShapeEntry, batch: int = 1, dtype: str = "bf16", device: str = "h100"
) -> Entry:
    return Entry(
        lambda values: architecture(*entry.with_options(values)),
        Extent("seq", entry.seq, 1, entry.most),
        batch,
        dtype,
        device,
        entry,
    )


_IMAGES: dict[str, Entry] = {
    "resnet50": Entry(lambda values: resnet50(values["image"]), IMAGE, 128),
    "vgg16": Entry(lambda values: vgg16(values["image"]), IMAGE, 64),
}
_DEFAULTS: dict[str, tuple[int, str, str]] = {
    "bert_base": (32, "amp", "h100"),
    "bert_large": (16, "amp", "h100"),
    "gpt2": (16, "amp", "h100"),
    "gpt3_1_7b": (8, "amp", "h100"),
    "gpt3_3_6b": (2, "amp", "h100"),
    "gpt3_18b": (1, "bf16", "b200"),
    "llama2_13b": (1, "bf16", "h200"),
    "llama3_8b": (1, "bf16", "h200"),
    "mpt_125m": (32, "amp", "h100"),
    "mpt_350m": (32, "amp", "h100"),
    "mpt_760m": (16, "amp", "h100"),
    "mpt_1b": (8, "amp", "h100"),
    "mpt_3b": (4, "amp", "h100"),
    "mpt_7b": (2, "bf16", "h100"),
    "mpt_13b": (2, "bf16", "h200"),
    "vit_l16": (32, "amp", "h100"),
}
"""Batch, dtype and device of transformers, where they are not 1, bf16 and h100."""
MODELS: dict[str, Entry] = _IMAGES | {
    name: _of_shape(entry, *_DEFAULTS.get(name, ())) for name, entry in SHAPES.items()
}
"""The models by name."""


def find(text: str, **changes: object) -> Model:
    """The model for NAME, NAME:option=value,... or FILE; `changes` are more options of NAME.

    Raises InputError for an unknown name or option.
    """
    if choice := choose(text):
        name, entry, options = choice
        return _estimated(name, entry, _options(name, entry, options, changes))
    if paths := _several(text):
        from experiments.models.per_rank import read_all

        return read_all(paths)
    path, _, options = text.rpartition(":") if ":" in text and not _exists(text) else (text, "", "")
    if path and (_exists(path) or re.search(r"[/.]", path)):
        if options:
            raise InputError(
                f"{path[:200]!r} is a file, which takes no options: leave out {options[:80]!r}"
            )
        from experiments.models.model_files import read

        return read(Path(path))
    name = text.partition(":")[0]
    hint = nearest_name(name, MODELS, "'simctl models' lists them")
    raise InputError(f"no model or file {name[:80]!r}: {hint}")


class Choice(NamedTuple):
    """A model that a user chose."""

    name: str
    entry: Entry
    options: str
    """Its options, as they were written."""


def choose(text: str) -> Choice | None:
    """The model in NAME:option=value,... or a transformer's config.json; None if `text` is
    neither."""
    name, _, options = text.partition(":")
    if name in MODELS:
        return Choice(name, MODELS[name], options)
    if (file := config_in(text)) is None:
        return None
    from experiments.models.shape_document import read

    path, options = file
    return Choice(path.name, with_defaults(path.name, read(path)), options)


def _exists(path: str) -> bool:
    try:
        return bool(path) and Path(path).exists()
    except (OSError, ValueError):
        return False


def _several(text: str) -> list[Path]:
    """The traces of a job, one for each rank, that a folder, a pattern or a list names.

    The list is empty if `text` is none of these.
    """
    from experiments.models import per_rank

    if _exists(text):
        return per_rank.traces_in(Path(text)) if Path(text).is_dir() else []
    if per_rank.WILDCARD.search(text):
        return per_rank.matching(text)
    parts = [part.strip() for part in text.split(",")]
    are_files = len(parts) > 1 and all(_exists(part) or re.search(r"[/.]", part) for part in parts)
    return [Path(part) for part in parts] if are_files else []


def _options(
    name: str, entry: Entry, options: str, changes: Mapping[str, object]
) -> dict[str, Any]:
    return read_options(
        name, options, entry.options, lambda key, text: entry.parse_option(name, key, text), changes
    )


def _estimated(name: str, entry: Entry, values: Mapping[str, Any]) -> Model:
    option, default, _, _ = entry.extent
    sizes = {option: default} | {
        key: value for key, value in values.items() if isinstance(value, int)
    }
    try:
        return estimate(
            name,
            entry.build(sizes),
            batch=values.get("batch", entry.batch),
            device=values.get("device", entry.device),
            dtype=values.get("dtype", entry.dtype),
        )
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def memory(model: Model) -> float:
    """Bytes of parameters, gradients, the optimizer's state and activations."""
    return model.parameters * (1 + model.state) + model.gradients + model.activations


def fits(model: Model) -> bool:
    """Whether one device holds the model and trains it."""
    return memory(model) < accelerator(model.device).memory


def with_defaults(name: str, entry: ShapeEntry) -> Entry:
    """The first dtype and device that hold the model, and the largest batch there. A model that
    fits on no device has a batch of 1."""
    for dtype, device in (("amp", "h100"), ("bf16", "h100"), ("bf16", "h200"), ("bf16", "b200")):
        single = _of_shape(entry, 1, dtype, device)
        model = _estimated(name, single, {})
        if fits(model):
            room = accelerator(device).memory - memory(model) + model.activations
            batches = [2**k for k in range(6) if 2**k * model.activations < room]
            return single._replace(batch=batches[-1])
    return _of_shape(entry)
