"""From "resnet50:batch=128,device=a100,dtype=amp" or the name of a file to a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from experiments.models import transformers
from experiments.models.accelerators import ACCELERATORS
from experiments.models.resnet import resnet50
from experiments.models.vgg import vgg16
from experiments.models.work import Architecture, estimate
from simulator.training.model import Model
from topologies.errors import InputError, nearest_name, unknown_option

LARGEST_BATCH = 65536


class Extent(NamedTuple):
    """What a sample's size is called, what it is where nobody says, and from where to where it
    goes."""

    option: str
    default: int
    least: int
    most: int


class Entry(NamedTuple):
    """A model that is shipped, and its defaults: with those it fits into the device's memory."""

    summary: str
    build: Callable[[int], Architecture]
    extent: Extent
    batch: int
    dtype: str = "amp"
    device: str = "h100"

    @property
    def options(self) -> dict[str, str]:
        """What each option is for, with its default."""
        option, default, least, most = self.extent
        return {
            "batch": f"samples a device, 1 to {LARGEST_BATCH} [{self.batch}]",
            option: f"{HELP[option]}, {least} to {most} [{default}]",
            "device": f"one of {', '.join(ACCELERATORS)} [{self.device}]",
            "dtype": f"fp32, tf32, amp, bf16 or fp8 where device and model can [{self.dtype}]",
        }


HELP = {"image": "side of an image in pixels", "seq": "tokens of a sequence"}

IMAGE = Extent("image", 224, 32, 4096)

MODELS: dict[str, Entry] = {
    "resnet50": Entry(
        "ResNet-50, images, 25.6 M parameters, SGD with momentum", resnet50, IMAGE, 128
    ),
    "vgg16": Entry("VGG-16, images, 138 M parameters, SGD with momentum", vgg16, IMAGE, 64),
    "bert_base": Entry(
        "BERT-base, text, 109 M parameters, Adam",
        partial(transformers.bert, transformers.BERT_BASE),
        Extent("seq", 512, 1, transformers.BERT_BASE.positions),
        32,
    ),
    "bert_large": Entry(
        "BERT-large, text, 335 M parameters, Adam",
        partial(transformers.bert, transformers.BERT_LARGE),
        Extent("seq", 512, 1, transformers.BERT_LARGE.positions),
        16,
    ),
    "gpt2": Entry(
        "GPT-2, text, 124 M parameters, Adam",
        partial(transformers.gpt2, transformers.GPT2),
        Extent("seq", 1024, 1, transformers.GPT2.positions),
        16,
    ),
    "llama_7b": Entry(
        "Llama 2 7B, text, 6.7 G parameters, Adam",
        partial(transformers.llama, transformers.LLAMA_7B),
        Extent("seq", transformers.LLAMA_7B.positions, 1, 131072),
        1,
        dtype="bf16",
    ),
}
"""The models by name."""


def find(text: str, **changes: object) -> Model:
    """The model for NAME, NAME:option=value,... or FILE; `changes` are more options of NAME.

    Raises InputError for an unknown name or option.
    """
    name, _, options = text.partition(":")
    if name in MODELS:
        return _estimated(name, MODELS[name], _options(name, options, changes))
    if paths := _several(text):
        return _from_files(paths)
    path, _, options = text.rpartition(":") if ":" in text and not _exists(text) else (text, "", "")
    if path and (_exists(path) or re.search(r"[/.]", path)):
        if options:
            raise InputError(
                f"{path[:200]!r} is a file, which takes no options: leave out {options[:80]!r}"
            )
        return _from_file(Path(path))
    hint = nearest_name(name, MODELS, f"there are {', '.join(MODELS)}")
    raise InputError(f"no model or file {name[:80]!r}: {hint}")


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


def _from_files(paths: list[Path]) -> Model:
    from experiments.models.per_rank import read_all

    return read_all(paths)


def _from_file(path: Path) -> Model:
    from experiments.models.model_files import read

    return read(path)


def parse_option(name: str, key: str, text: str) -> int | str:
    """The value of an option of the model `name`. Raises InputError if it is out of range."""
    if key in ("device", "dtype"):
        return text
    extent = MODELS[name].extent
    least, most = (1, LARGEST_BATCH) if key == "batch" else (extent.least, extent.most)
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise InputError(
            f"{name}:{key}: {text[:40]!r} is not a whole number: write it like {least}"
        )
    if not least <= int(text) <= most:
        raise InputError(f"{name}:{key}: {text} is out of range: it is {least} to {most}")
    return int(text)


def _options(name: str, options: str, changes: Mapping[str, object]) -> dict[str, Any]:
    known = MODELS[name].options
    values = dict(changes)
    for part in filter(None, options.split(",")):
        key, equals, value = part.partition("=")
        if key not in known:
            raise InputError(unknown_option(name, key, known))
        if not equals:
            raise InputError(f"{name}: {key} has no value: write {key}=value, {known[key]}")
        if key in values:
            raise InputError(f"{name}: {key} is given twice")
        values[key] = parse_option(name, key, value)
    return values


def _estimated(name: str, entry: Entry, values: Mapping[str, Any]) -> Model:
    extent = values.get(entry.extent.option, entry.extent.default)
    try:
        return estimate(
            name,
            entry.build(extent),
            batch=values.get("batch", entry.batch),
            device=values.get("device", entry.device),
            dtype=values.get("dtype", entry.dtype),
        )
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
