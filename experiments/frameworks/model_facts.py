"""The model of a job: one of the catalogue, or a shape from the sizes that the file has."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from experiments.frameworks.facts import JobFacts
from experiments.frameworks.settings import FileSetting
from experiments.models.head_shapes import multi_head
from experiments.models.mixer_shapes import Experts, Latent, Mamba
from experiments.models.model_catalogue import MODELS, OPTIONS, Entry, Setup, find_transformer
from experiments.models.model_shapes import TransformerShape
from topologies.errors import InputError

_DECODER = "norm=rms gated=true biases=false is_rotary=true tied=false "
USUAL_VOCABULARY = 128_256
"""Tokens of Llama 3, where a file leaves the vocabulary to a tokenizer."""
SIZES = {
    *("blocks", "width", "heads", "kv_heads", "head_size", "hidden", "vocabulary", "positions"),
    *("top", "inside", "key_rank", "nope", "rope", "value", "period"),
    *("mamba_heads", "mamba_head", "state", "groups"),
}
"""The facts that are 1 or more where a file says them."""
MOST = {name: most for name, most, _ in OPTIONS.values()}
"""The largest sizes, as those of --model; others end at 2^24."""


@cache
def presets() -> dict[str, str]:
    """The models by the name in a file: name/flavor of torchtitan, or the class of NeMo or
    Megatron-Bridge that has the sizes."""
    with Path(__file__).with_name("presets.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: row["model"] for row in rows for name in row["names"].split()}


def model_of(facts: JobFacts, name: str) -> Entry | None:
    """The model that a file `name` describes; None if it does not say, or names one that simctl
    does not know. Raises InputError for sizes that make no sense."""
    text = presets().get(_preset(facts), "")
    if "width" in facts and ("blocks" in facts or "pattern" in facts):
        entry = _of_sizes(facts, name)
    elif "width=" in text:
        words = dict(part.split("=") for part in (_DECODER + text).split())
        sizes = {key: FileSetting(key, value, name) for key, value in words.items()}
        entry = _of_sizes(JobFacts("torchtitan", known=sizes), name)
    elif text:
        entry = find_transformer(text)
    else:
        if "flavor" in facts:
            facts.say("flavor", "simctl knows no such model: give --model, like llama3_70b")
        return None
    seq = facts.whole("seq", entry.size)
    stated = "".join(f",{key}={value}" for key, value in entry.choices.items() if key != "seq")
    try:
        return entry if seq == entry.size else entry.with_options(f"seq={seq}{stated}")
    except InputError as error:
        raise InputError(f"{facts.known['seq']}: {error}") from None


def _preset(facts: JobFacts) -> str:
    if "flavor" in facts:
        family = facts.word("family", "llama3")
        return f"{family}/{facts.word('flavor')}"
    return facts.word("provider").rpartition(".")[2]


def _of_sizes(facts: JobFacts, name: str) -> Entry:
    try:
        shape = _shape(facts)
    except InputError as error:
        raise error if name in str(error) else InputError(f"{name}: {error}") from None
    like = [
        (abs(entry.model.vocabulary - shape.vocabulary), entry)
        for entry in MODELS.values()
        if isinstance(entry.model, TransformerShape) and _is_like(entry.model, shape)
    ]
    if like:
        gap, entry = min(like, key=lambda pair: pair[0])
        # Frameworks pad a vocabulary, so that ranks share it evenly.
        if gap < 0.03 * shape.vocabulary or "vocabulary" not in facts:
            return entry
        return entry.with_options(f"vocab={shape.vocabulary}")
    if "vocabulary" not in facts:
        facts.remarks.append(
            f"{name}: it does not say how many tokens the vocabulary has: simctl takes "
            f"{shape.vocabulary}"
        )
    # A setup of its own: the usual one is chosen by tensors whose names the catalogue knows.
    return Entry(shape, min(shape.positions or 4096, 4096), setup=Setup(), name=name)


def _is_like(known: TransformerShape, shape: TransformerShape) -> bool:
    """Whether shapes are alike but for the vocabulary, which frameworks pad, the number of learned
    positions, and dropout, which a plan has."""
    positions = known.positions if known.positions and shape.positions else shape.positions
    same: dict[str, Any] = {
        "vocabulary": known.vocabulary,
        "dropout": known.dropout,
        "positions": positions,
    }
    return replace(shape, **same) == known


def _shape(facts: JobFacts) -> TransformerShape:
    """A shape with the defaults of Megatron (megatron/training/arguments.py and
    TransformerConfig)."""
    for key in sorted(SIZES & facts.known.keys()):
        facts.whole(key, 1, 1, MOST.get(key, 2**24))
    width, heads = facts.whole("width", 0), facts.whole("heads", 1)
    gated = facts.yes("gated") or facts.yes("quick_geglu")
    # Megatron's gated MLPs have two thirds of the usual size, in multiples of 64.
    usual = int(4 * width * 2 / 3) // 64 * 64 if gated else 4 * width
    hidden = facts.whole("hidden", usual)
    rotary = facts.yes("is_rotary") or facts.word("position_kind") in ("rope", "yarn", "mrope")
    learned = not rotary and facts.word("position_kind", "learned_absolute") == "learned_absolute"
    kv_heads: int | None = facts.whole("kv_heads", heads, 1)
    if facts.is_arguments and "grouped_queries" not in facts:
        kv_heads = heads
    more: dict[str, Any] = {
        "kv_heads": kv_heads,
        "head_size": facts.whole("head_size", 0) or None,
        "hidden": hidden,
        "vocabulary": facts.whole("vocabulary", USUAL_VOCABULARY),
        "tied": facts.yes("tied", True) and not facts.yes("untied"),
        "positions": facts.whole("positions", facts.whole("seq", 1024)) if learned else 0,
        "norm": facts.word("norm", "layer"),
        "biases": facts.yes("biases", True) and not facts.yes("no_biases"),
        "gated": gated,
        "rotary": rotary,
        "head_norms": facts.yes("head_norms") and not facts.yes("is_latent"),
        "experts": _experts(facts, hidden),
    }
    more |= _windows(facts) | _hybrid(facts, width)
    if facts.yes("is_latent", "key_rank" in facts):
        usual_sizes = {"query_rank": 0, "key_rank": 512, "nope": 128, "rope": 64, "value": 128}
        more["latent"] = Latent(
            **{key: facts.whole(key, size) for key, size in usual_sizes.items()}
        )
        more["head_size"] = more["latent"].nope
    pattern = more.get("pattern", "")
    blocks = facts.whole("blocks", len(pattern))
    if pattern and len(pattern) != blocks:
        raise InputError(
            f"{facts.known['pattern']}: it has {len(pattern)} blocks, and the model {blocks}"
        )
    if "E" in pattern and not more["experts"]:
        raise InputError(f"{facts.known['pattern']}: it has experts: say how many")
    if "window" in more:
        # Without a period, every block has the window.
        more["period"] = facts.whole("period", blocks + 1)
    return multi_head(blocks, width, heads, **more)


def _windows(facts: JobFacts) -> dict[str, Any]:
    """Windowed attention: Megatron counts the tokens before a query."""
    sizes = re.findall(r"\d{1,8}", facts.word("window"))
    if not sizes:
        return {}
    sinks = facts.word("softmax") == "learnable"
    return {"window": int(sizes[0]) + 1, "sinks": sinks}


def _hybrid(facts: JobFacts, width: int) -> dict[str, Any]:
    """The blocks of a hybrid, and its Mamba-2 mixers."""
    if not (pattern := facts.word("pattern")):
        return {}
    if not re.fullmatch(r"[M*E-]{1,4096}", pattern):
        facts.say("pattern", "simctl knows the letters M, *, - and E")
        return {}
    size = facts.whole("mamba_head", 64, 1)
    mixer = Mamba(
        facts.whole("mamba_heads", max(1, 2 * width // size), 1),
        size,
        facts.whole("state", 128),
        facts.whole("groups", 8),
    )
    return {"pattern": pattern, "mamba": mixer if "M" in pattern else None}


def _experts(facts: JobFacts, hidden: int) -> Experts | None:
    if not (number := facts.whole("number", 0)):
        return None
    inside = facts.whole("inside", hidden)
    top, shared = facts.whole("top", 2, 1), facts.whole("shared", 0)
    return Experts(number, top, inside, shared, _dense_blocks(facts))


def _dense_blocks(facts: JobFacts) -> int:
    """The first blocks without experts: moe_layer_freq is 1, or a list like [0]*3+[1]*58."""
    word = facts.word("expert_pattern", "1").strip("()")
    parts = re.findall(r"\[(\d)\](?:\*(\d{1,4}))?", word)
    pattern = "".join(digit * int(times or 1) for digit, times in parts)
    pattern = pattern or word.strip("[]").replace(",", "").replace(" ", "")
    if match := re.fullmatch("(0*)1+", pattern):
        return len(match[1])
    facts.say("expert_pattern", "blocks with experts come last")
    return 0
