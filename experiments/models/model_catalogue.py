"""The models that are shipped, and from "resnet50:batch=128,device=a100,dtype=amp",
"config.json:layers=4" or the name of a file to a model."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from experiments.models.accelerators import ACCELERATORS, PRECISIONS, accelerator
from experiments.models.block_cut import BlockCut
from experiments.models.device_times import DeviceTimes
from experiments.models.image_networks import ImageNetworks
from experiments.models.model_shapes import TransformerShape, families, shape_of, share
from experiments.models.transformer_blocks import Writer
from experiments.models.transformers import transformer
from experiments.shipped_tables import rows_of
from simulator.parallel.degrees import divisor
from simulator.training.model import Model
from topologies.errors import InputError, naming, nearest_name
from topologies.option_text import Parser, parse_pairs, parse_within
from topologies.units import parse_number

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


def _parse_watts(text: str) -> float:
    if not (watts := parse_number(text.removesuffix("W"))):
        raise InputError("watts above 0, like 500W")
    return watts


class Setup(NamedTuple):
    """The training of a model on one device, with a batch of samples."""

    batch: int = 1
    dtype: str = "bf16"
    device: str = "h100"


@dataclass(frozen=True)
class Entry:
    """A model that is shipped or that a config.json describes."""

    model: TransformerShape | str
    """A transformer, or the name of a network for images."""
    size: int
    """Tokens of a sequence or pixels of an image's side."""
    stretched: bool = False
    """Whether the table of positions has as many rows as a sequence has tokens, as in a training
    from scratch."""
    setup: Setup | None = None
    """The training without options; None: in the first dtype and on the first device that hold the
    model."""
    name: str = ""
    choices: Mapping[str, float | str] = field(default_factory=dict)
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
        with naming(self.name):
            times = DeviceTimes(device, dtype, power=float(self.choices.get("power", 0.0)))
            cut = BlockCut(micro=batch, grads=PRECISIONS[dtype].gradients)
            if isinstance(self.model, TransformerShape):
                cut = replace(cut, dropout=self.model.dropout)
                model = transformer(Writer(times, cut, self.model, self.size))
            else:
                model = ImageNetworks(times, cut).network(self.model, self.size)
        return replace(model, name=self.name)

    @cached_property
    def defaults(self) -> Setup:
        """The setup. If there is none, the model fits into the device's memory where it can, with
        the largest batch up to 32."""
        if self.setup:
            return self.setup
        for setup in (Setup(1, "amp"), Setup(), Setup(device="h200"), Setup(device="b200")):
            room = _room(model := replace(self, setup=setup).estimate)
            if room > 0:
                batches = [2**k for k in range(6) if (2**k - 1) * model.activations < room]
                return setup._replace(batch=batches[-1])
        return Setup()

    @property
    def ranges(self) -> dict[str, tuple[str, int, int, object]]:
        """What each option is for, its least and largest value, which are 0 for a word, and its
        default."""
        batch, dtype, device = self.defaults
        watts = float(self.choices.get("power", accelerator(device).power))
        options: dict[str, tuple[str, int, int, object]] = {
            "batch": ("samples a device", 1, 65536, batch),
            "image": ("side of an image in pixels", 32, 4096, self.size),
            "device": (f"one of {', '.join(ACCELERATORS)}", 0, 0, device),
            "dtype": (f"{', '.join(PRECISIONS)} where device and model can", 0, 0, dtype),
            "power": ("watts of the device's board, like 500W", 0, 0, f"{watts:g}W"),
        }
        if isinstance(self.model, TransformerShape):
            longest = (0 if self.stretched else self.model.positions) or LONGEST
            seq = ("tokens of a sequence", 1, longest, self.size)
            options = {"batch": options.pop("batch"), "seq": seq, **options}
            del options["image"]
            for key, (name, most, meaning) in OPTIONS.items():
                options[key] = meaning, 1, most, getattr(self.model, name)
        return options

    @property
    def options(self) -> dict[str, str]:
        """What each option is for, with its default."""
        return {
            key: f"{meaning}{f', {least} to {most}' if most else ''} [{usual}]"
            for key, (meaning, least, most, usual) in self.ranges.items()
        }

    def parse(self, text: str) -> dict[str, Any]:
        """The values of options like "layers=4,device=a100".

        Raises InputError for an option that is unknown, has no value, comes twice, or is out of
        range.
        """
        parsers: dict[str, Parser] = {
            key: parse_within(least, most) if most else str
            for key, (_, least, most, _) in self.ranges.items()
        } | {"power": _parse_watts}
        return parse_pairs(text, self.name, parsers, self.options)

    def with_options(self, text: str) -> Entry:
        """The model with options. Raises InputError as :meth:`parse`, and for heads that do not
        divide."""
        if not text:
            return self
        values, model = self.parse(text), self.model
        size = values.get("seq", values.get("image", self.size))
        if isinstance(model, TransformerShape):
            with naming(self.name):
                model = _changed(model, values, size if self.stretched else 0)
        # The options of the help: a smaller model keeps the batch and dtype of the whole one.
        named = {key: values[key] for key in Setup._fields if key in values}
        setup = self.defaults._replace(**named)
        return replace(self, model=model, size=size, setup=setup, choices=values)


def _room(model: Model) -> float:
    """Bytes that a device has left behind parameters, gradients, the optimizer's state and
    activations."""
    needed = model.parameters * (1 + model.state) + model.gradients + model.activations
    return accelerator(model.device).memory - needed


def fits(model: Model) -> bool:
    """Whether one device holds the model and trains it."""
    return _room(model) > 0


def _changed(
    shape: TransformerShape, values: Mapping[str, int], positions: int
) -> TransformerShape:
    """The shape with other layers, hidden, heads, kv_heads, mlp and vocab, and with `positions`
    learned positions unless that is 0.

    An MLP and experts keep their ratio to the width, and heads keep the number of queries that
    share keys.
    """
    width, heads = values.get("hidden", shape.width), values.get("heads", shape.heads)
    shared = not shape.latent and shape.head_size * shape.heads == shape.width
    scale, group, experts = width / shape.width, shape.heads // shape.kv_heads, shape.experts
    if heads % group and "kv_heads" not in values:
        raise InputError(
            f"heads={heads} is no multiple of {group}, the heads that share keys: add "
            f"kv_heads={divisor(heads, shape.kv_heads)}"
        )
    if experts:
        inner, together = max(1, round(experts.hidden * scale)), round(experts.shared * scale)
        latent = round(experts.latent * scale)
        experts = replace(experts, hidden=inner, shared=together, latent=latent)
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
        experts=experts,
    )


def _shipped(row: Mapping[str, str]) -> Entry:
    family, sizes = row["family"], {key: int(text) for key, text in row.items() if text.isdigit()}
    hybrid = {"pattern": row["pattern"]} if row["pattern"] else {}
    shape = shape_of({**families()[family], **sizes, **hybrid})
    setup = Setup(sizes.get("batch", 1), row["dtype"] or "bf16", row["device"] or "h100")
    seq = shape.positions or (8192 if family == "llama3" else 4096)
    return Entry(shape, seq, family in ("gpt3", "mpt", "vit"), setup, row["name"])


def _catalogue() -> Iterator[Entry]:
    yield Entry("resnet50", 224, setup=Setup(128, "amp"), name="resnet50")
    yield Entry("vgg16", 224, setup=Setup(64, "amp"), name="vgg16")
    yield from map(_shipped, rows_of(Path(__file__).with_suffix(".csv")))


MODELS = {entry.name: entry for entry in _catalogue()}
"""The models by name."""


def find(text: str) -> Model:
    """The model for NAME, NAME:option=value,... or FILE.

    Raises InputError for an unknown name or option.
    """
    if entry := choose(text):
        return entry.estimate
    from experiments.models import model_files

    if traces := _traces_in(text):
        return model_files.read_all(traces)
    path, options = _file(text)
    if _is_path(path):
        if options:
            raise InputError(
                f"{path[:200]!r} is a file, which takes no options: leave out {options[:80]!r}"
            )
        return model_files.read(Path(path))
    raise _unknown(text, "model or file", MODELS)


def find_transformer(text: str) -> Entry:
    """The transformer for NAME:option=value,... or a Hugging Face config.json with options.

    Raises InputError.

    >>> entry = find_transformer("gpt3_1_7b:layers=4,hidden=1024,heads=16,seq=1024")
    >>> entry.name, entry.shape.head_size, entry.shape.positions, entry.size
    ('gpt3_1_7b', 64, 1024, 1024)
    """
    entry = choose(text, is_config=True)
    if entry and isinstance(entry.model, TransformerShape):
        return entry
    shapes = [name for name, each in MODELS.items() if isinstance(each.model, TransformerShape)]
    raise _unknown(text, "transformer or config.json", shapes)


def choose(text: str, *, is_config: bool = False) -> Entry | None:
    """The model in NAME:option=value,... or a transformer's config.json with options; None if
    `text` is neither. A file is a config.json if `is_config` or its name says so, or if it is JSON
    with a model_type and no trace. Raises InputError for a wrong option."""
    name, _, options = text.partition(":")
    if name in MODELS:
        return MODELS[name].with_options(options)
    path, options = _file(text)
    name = Path(path).name
    is_config = is_config or name == "config.json"
    if not (is_config or path.lower().endswith(".json")) or not _is(Path.is_file, path):
        return None
    from experiments.models.config_files import parse
    from topologies.readers.contents import LIMIT, contents, decoded

    data = contents(Path(path), LIMIT)
    is_other = len(data) > LIMIT or b'"model_type"' not in data or b'"traceEvents"' in data
    if is_other and not is_config:
        return None
    return parse(decoded(data, name), name).with_options(options)


def _file(text: str) -> tuple[str, str]:
    """The path that `text` names, and the options after it."""
    path, colon, options = text.rpartition(":")
    return (path, options) if colon and not _is(Path.exists, text) else (text, "")


def _is(kind: Callable[[Path], bool], path: str) -> bool:
    try:
        return bool(path) and kind(Path(path))
    except (OSError, ValueError):
        return False


def _is_path(text: str) -> bool:
    return _is(Path.exists, text) or bool(re.search(r"[/.]", text))


def _unknown(text: str, kind: str, names: Iterable[str]) -> InputError:
    name = text.partition(":")[0]
    hint = nearest_name(name, names, "'simctl list models' lists them")
    return InputError(f"no {kind} {name[:80]!r}: {hint}")


def _traces_in(text: str) -> list[Path]:
    """The traces of a job, one for each rank, that a folder, a pattern or a list names, by name,
    rank10 after rank9.

    The list is empty if `text` is none of these. Raises InputError if there are no traces.
    """
    shown = repr(text[:200])
    if _is(Path.exists, text):
        if not _is(Path.is_dir, text):
            return []
        traces = [
            path for path in Path(text).glob("*") if path.name.endswith((".json", ".json.gz"))
        ]
        wrong = (
            f"{shown} has no traces: it holds no file that ends in .json or .json.gz, or is not "
            f"readable"
        )
    elif re.search(r"[*?\[]", text):
        path, traces = Path(text), []
        is_closed = _is(lambda at: at.is_dir() and not os.access(at, os.R_OK), str(path.parent))
        folder = ", whose folder is not readable" * is_closed
        with suppress(OSError, ValueError):
            traces = list(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
        wrong = f"no file matches {shown}{folder}: name the traces of a job, or their folder"
    else:
        parts = [part.strip() for part in text.split(",")]
        return [*map(Path, parts)] if len(parts) > 1 and all(map(_is_path, parts)) else []
    if not traces:
        raise InputError(wrong)
    return sorted(traces, key=lambda path: re.sub(r"\d+", lambda n: n[0].zfill(20), path.name))
