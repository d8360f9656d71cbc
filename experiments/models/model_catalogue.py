"""The models that are shipped, and from "resnet50:batch=128,device=a100,dtype=amp",
"config.json:layers=4" or the name of a file to a model."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.models.image_networks import ImageNetworks
from experiments.models.model_entry import Entry, Setup
from experiments.models.model_shapes import (
    RMS_DECODER,
    Experts,
    Latent,
    TransformerShape,
    multi_head,
)
from simulator.training.model import Model
from topologies.errors import InputError, nearest_name

ENDINGS = (".json", ".json.gz")
"""The names of traces end so."""


def _family(size: int, *, stretched: bool = False, **shared: Any) -> Callable[..., Entry]:
    """Transformers that `shared` describes: entries from blocks, width, heads, the usual training
    and what differs."""

    def entry(
        blocks: int, width: int, heads: int, setup: Setup | None = None, **differing: Any
    ) -> Entry:
        shape = multi_head(blocks, width, heads, **({"hidden": 4 * width} | shared | differing))
        return Entry(shape, size, stretched, setup or Setup())

    return entry


# Devlin et al., NAACL 2019.
_bert = _family(512, vocabulary=30522, kind="encoder", positions=512, segments=2, dropout=True)
# Radford et al., 2019.
_gpt2 = _family(1024, tied=True, vocabulary=50257, positions=1024, dropout=True)
# Narayanan et al., SC 2021, table 1; that of 175B Brown et al., NeurIPS 2020, table 2.1.
_gpt3 = _family(2048, tied=True, stretched=True, vocabulary=51200, positions=2048, dropout=True)
# mosaicml/llm-foundry, benchmarks of training, with learned positions and biases. A test holds the
# parameters of each size against the benchmarks' own.
_mpt = _family(2048, tied=True, stretched=True, vocabulary=50368, positions=2048)
# Touvron et al., arXiv 2307.09288.
_llama2 = _family(4096, **RMS_DECODER, vocabulary=32000)
# Llama team, arXiv 2407.21783, table 3.
_llama3 = _family(8192, **RMS_DECODER, kv_heads=8, vocabulary=128256)
# Jiang et al., arXiv 2401.04088, table 1.
_mixtral = _family(4096, **RMS_DECODER, kv_heads=8, vocabulary=32000)
# Qwen team, arXiv 2505.09388, table 2, and config.json.
_qwen3 = _family(4096, **RMS_DECODER, kv_heads=4, head_size=128, vocabulary=151936, head_norms=True)
# DeepSeek-AI, arXiv 2412.19437, section 4.2.
_deepseek = _family(
    4096,
    **RMS_DECODER,
    head_size=128,
    vocabulary=129280,
    latent=Latent(query_rank=1536, key_rank=512, nope=128, rope=64, value=128),
)
# Dosovitskiy et al., ICLR 2021, table 1, for images of 224 x 224 in patches of 16 x 16.
_vit = _family(197, stretched=True, vocabulary=1000, kind="image", positions=197, patch=3 * 16**2)

_ENTRIES = {
    "resnet50": Entry(ImageNetworks.resnet50, 224, setup=Setup(128, "amp")),
    "vgg16": Entry(ImageNetworks.vgg16, 224, setup=Setup(64, "amp")),
    "bert_base": _bert(12, 768, 12, Setup(32, "amp")),
    "bert_large": _bert(24, 1024, 16, Setup(16, "amp")),
    "gpt2": _gpt2(12, 768, 12, Setup(16, "amp")),
    "gpt3_1_7b": _gpt3(24, 2304, 24, Setup(8, "amp")),
    "gpt3_3_6b": _gpt3(30, 3072, 32, Setup(2, "amp")),
    "gpt3_7_5b": _gpt3(36, 4096, 32),
    "gpt3_18b": _gpt3(40, 6144, 48, Setup(device="b200")),
    "gpt3_39b": _gpt3(48, 8192, 64),
    "gpt3_76b": _gpt3(60, 10240, 80),
    "gpt3_145b": _gpt3(80, 12288, 96),
    "gpt3_175b": _gpt3(96, 12288, 96),
    "gpt3_530b": _gpt3(105, 20480, 128),
    "gpt3_1t": _gpt3(128, 25600, 160),
    "llama_7b": _llama2(32, 4096, 32, hidden=11008),
    "llama2_7b": _llama2(32, 4096, 32, hidden=11008),
    "llama2_13b": _llama2(40, 5120, 40, Setup(device="h200"), hidden=13824),
    "llama2_70b": _llama2(80, 8192, 64, kv_heads=8, hidden=28672),
    "llama3_8b": _llama3(32, 4096, 32, Setup(device="h200"), hidden=14336),
    "llama3_70b": _llama3(80, 8192, 64, hidden=28672),
    "llama3_405b": _llama3(126, 16384, 128, hidden=53248),
    "mpt_125m": _mpt(12, 768, 12, Setup(32, "amp")),
    "mpt_350m": _mpt(24, 1024, 16, Setup(32, "amp")),
    "mpt_760m": _mpt(24, 1536, 12, Setup(16, "amp")),
    "mpt_1b": _mpt(24, 2048, 16, Setup(16, "amp")),
    "mpt_3b": _mpt(32, 2560, 20, Setup(4, "amp")),
    "mpt_7b": _mpt(32, 4096, 32, Setup(2)),
    "mpt_13b": _mpt(40, 5120, 40, Setup(2, device="h200")),
    "mpt_30b": _mpt(48, 7168, 56),
    "mpt_70b": _mpt(80, 8192, 64),
    "mixtral_8x7b": _mixtral(32, 4096, 32, hidden=14336, experts=Experts(8, 2, 14336)),
    "deepseek_v3": _deepseek(
        61, 7168, 128, hidden=18432, experts=Experts(256, 8, 2048, shared=2048, dense=3)
    ),
    "qwen3_30b_a3b": _qwen3(48, 2048, 32, hidden=6144, experts=Experts(128, 8, 768)),
    "qwen3_235b_a22b": _qwen3(94, 4096, 64, hidden=12288, experts=Experts(128, 8, 1536)),
    "vit_l16": _vit(24, 1024, 16, Setup(32, "amp")),
}
MODELS = {name: replace(entry, name=name) for name, entry in _ENTRIES.items()}
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
    """Whether there is a file of a kind at `path`."""
    try:
        return bool(path) and kind(Path(path))
    except (OSError, ValueError):
        return False


def _is_path(text: str) -> bool:
    """Whether `text` is the name of a file rather than that of a model."""
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
        traces = [path for path in Path(text).glob("*") if path.name.endswith(ENDINGS)]
        wrong = (
            f"{shown} has no traces: it holds no file that ends in {' or '.join(ENDINGS)}, or is "
            f"not readable"
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
