"""The transformers that are shipped, by shape, and from "llama3_8b:layers=4" or a config.json to a
shape."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from experiments.models.model_shapes import Experts, Latent, Shape, multi_head, rms_decoder
from experiments.models.shape_entry import Entry
from experiments.models.shape_options import read_options
from topologies.errors import InputError, nearest_name

TRAINING = {
    "batch": "samples a device",
    "device": "the device that trains",
    "dtype": "the dtype of the training",
}
"""Options of a model that say nothing of its shape."""


def _bert(blocks: int, width: int, heads: int) -> Entry:
    shape = multi_head(
        blocks,
        width,
        heads,
        hidden=4 * width,
        vocabulary=30522,
        kind="encoder",
        positions=512,
        segments=2,
        dropout=True,
    )
    return Entry(shape, 512, "Devlin et al., NAACL 2019")


def _gpt(
    blocks: int, width: int, heads: int, vocabulary: int, positions: int, *, dropout: bool = True
) -> Shape:
    return multi_head(
        blocks,
        width,
        heads,
        hidden=4 * width,
        vocabulary=vocabulary,
        tied=True,
        positions=positions,
        dropout=dropout,
    )


def _gpt3(blocks: int, width: int, heads: int) -> Entry:
    shape = _gpt(blocks, width, heads, vocabulary=51200, positions=2048)
    return Entry(shape, 2048, "Narayanan et al., SC 2021, table 1", stretched=True)


def _mpt(blocks: int, width: int, heads: int) -> Entry:
    """MPT with learned positions and biases. A test holds the parameters of each size against the
    benchmarks' own."""
    shape = _gpt(blocks, width, heads, vocabulary=50368, positions=2048, dropout=False)
    return Entry(shape, 2048, "mosaicml/llm-foundry, benchmarks of training", stretched=True)


def _llama2(blocks: int, width: int, heads: int, kv_heads: int, hidden: int) -> Entry:
    shape = rms_decoder(blocks, width, heads, kv_heads=kv_heads, hidden=hidden, vocabulary=32000)
    return Entry(shape, 4096, "Touvron et al., arXiv 2307.09288")


def _llama3(blocks: int, width: int, heads: int, hidden: int) -> Entry:
    shape = rms_decoder(blocks, width, heads, kv_heads=8, hidden=hidden, vocabulary=128256)
    return Entry(shape, 8192, "Llama team, arXiv 2407.21783, table 3")


def _qwen3(blocks: int, width: int, heads: int, hidden: int, expert: int) -> Entry:
    shape = rms_decoder(
        blocks,
        width,
        heads,
        kv_heads=4,
        head_size=128,
        hidden=hidden,
        vocabulary=151936,
        head_norms=True,
        experts=Experts(number=128, top=8, hidden=expert),
    )
    return Entry(shape, 4096, "Qwen team, arXiv 2505.09388, table 2, and config.json")


_MIXTRAL = rms_decoder(
    32,
    4096,
    32,
    kv_heads=8,
    hidden=14336,
    vocabulary=32000,
    experts=Experts(number=8, top=2, hidden=14336),
)
_DEEPSEEK_V3 = rms_decoder(
    61,
    7168,
    128,
    head_size=128,
    hidden=18432,
    vocabulary=129280,
    experts=Experts(number=256, top=8, hidden=2048, shared=2048, dense=3),
    latent=Latent(query_rank=1536, key_rank=512, nope=128, rope=64, value=128),
)
_VIT_L16 = multi_head(
    24,
    1024,
    16,
    hidden=4096,
    vocabulary=1000,
    kind="image",
    positions=(224 // 16) ** 2 + 1,
    patch=3 * 16**2,
)

SHAPES: dict[str, Entry] = {
    "bert_base": _bert(12, 768, 12),
    "bert_large": _bert(24, 1024, 16),
    "gpt2": Entry(_gpt(12, 768, 12, 50257, 1024), 1024, "Radford et al., 2019"),
    "gpt3_1_7b": _gpt3(24, 2304, 24),
    "gpt3_3_6b": _gpt3(30, 3072, 32),
    "gpt3_7_5b": _gpt3(36, 4096, 32),
    "gpt3_18b": _gpt3(40, 6144, 48),
    "gpt3_39b": _gpt3(48, 8192, 64),
    "gpt3_76b": _gpt3(60, 10240, 80),
    "gpt3_145b": _gpt3(80, 12288, 96),
    "gpt3_175b": _gpt3(96, 12288, 96)._replace(source="Brown et al., NeurIPS 2020, table 2.1"),
    "gpt3_530b": _gpt3(105, 20480, 128),
    "gpt3_1t": _gpt3(128, 25600, 160),
    "llama_7b": _llama2(32, 4096, 32, 32, 11008),
    "llama2_7b": _llama2(32, 4096, 32, 32, 11008),
    "llama2_13b": _llama2(40, 5120, 40, 40, 13824),
    "llama2_70b": _llama2(80, 8192, 64, 8, 28672),
    "llama3_8b": _llama3(32, 4096, 32, 14336),
    "llama3_70b": _llama3(80, 8192, 64, 28672),
    "llama3_405b": _llama3(126, 16384, 128, 53248),
    "mpt_125m": _mpt(12, 768, 12),
    "mpt_350m": _mpt(24, 1024, 16),
    "mpt_760m": _mpt(24, 1536, 12),
    "mpt_1b": _mpt(24, 2048, 16),
    "mpt_3b": _mpt(32, 2560, 20),
    "mpt_7b": _mpt(32, 4096, 32),
    "mpt_13b": _mpt(40, 5120, 40),
    "mpt_30b": _mpt(48, 7168, 56),
    "mpt_70b": _mpt(80, 8192, 64),
    "mixtral_8x7b": Entry(_MIXTRAL, 4096, "Jiang et al., arXiv 2401.04088, table 1"),
    "deepseek_v3": Entry(_DEEPSEEK_V3, 4096, "DeepSeek-AI, arXiv 2412.19437, section 4.2"),
    "qwen3_30b_a3b": _qwen3(48, 2048, 32, hidden=6144, expert=768),
    "qwen3_235b_a22b": _qwen3(94, 4096, 64, hidden=12288, expert=1536),
    "vit_l16": Entry(_VIT_L16, 197, "Dosovitskiy et al., ICLR 2021, table 1", stretched=True),
}
"""The shapes by name."""


class ShapeChoice(NamedTuple):
    """A model that a user chose."""

    name: str
    shape: Shape
    seq: int
    """Tokens of a sequence."""
    training: dict[str, str]
    """The options `batch`, `device` and `dtype`, as they were written."""


def find_shape(text: str) -> tuple[str, Shape, int]:
    """The name, the shape and the tokens of a sequence of NAME:option=value,... or of a Hugging
    Face config.json.

    Options that say nothing of a shape (batch, device, dtype) are skipped. Raises InputError.

    >>> name, shape, seq = find_shape("gpt3_1_7b:layers=4,hidden=1024,heads=16,seq=1024")
    >>> name, shape.blocks, shape.head_size, shape.positions, seq
    ('gpt3_1_7b', 4, 64, 1024, 1024)
    """
    choice = choose(text)
    return choice.name, choice.shape, choice.seq


def choose(text: str) -> ShapeChoice:
    """As :func:`find_shape`, with the other options."""
    name, entry, options = _entry(text)
    known = entry.options | TRAINING
    texts = read_options(name, options, known, lambda _, text: text)
    training = {key: text for key, text in texts.items() if key in TRAINING}
    sizes = {
        key: entry.parse_option(name, key, text)
        for key, text in texts.items()
        if key not in TRAINING
    }
    try:
        shape, seq = entry.with_options(sizes)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return ShapeChoice(name, shape, seq, training)


def config_in(text: str) -> tuple[Path, str] | None:
    """The config.json that `text` names, and the options after a colon; None if it names none."""
    file = _file(text)
    if not file or not (file[0].name == "config.json" or _mentions_a_model(file[0])):
        return None
    return file


def _mentions_a_model(path: Path) -> bool:
    """Whether a file is JSON with a model_type, and no trace."""
    if path.suffix.lower() != ".json":
        return False
    from topologies.readers.contents import contents
    from topologies.readers.file_checks import LIMIT

    data = contents(path, LIMIT)
    return len(data) <= LIMIT and b'"model_type"' in data and b'"traceEvents"' not in data


def _entry(text: str) -> tuple[str, Entry, str]:
    name, _, options = text.partition(":")
    if name in SHAPES:
        return name, SHAPES[name], options
    file = _file(text)
    if not file:
        hint = nearest_name(name, SHAPES, "'simctl models' lists them")
        raise InputError(f"no transformer or config.json {name[:80]!r}: {hint}")
    from experiments.models.shape_document import read

    path, options = file
    return path.name, read(path), options


def _file(text: str) -> tuple[Path, str] | None:
    """The file that `text` names, and the options after it."""
    path, _, options = text.rpartition(":")
    for name, rest in ((text, ""), (path, options)):
        try:
            if name and Path(name).is_file():
                return Path(name), rest
        except (OSError, ValueError):
            continue
    return None
