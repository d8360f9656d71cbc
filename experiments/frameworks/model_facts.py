"""The model of a job: one of the catalogue, or a shape from the sizes that the file has."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from experiments.frameworks.facts import JobFacts, rows_by_name
from experiments.models.model_catalogue import MODELS, Entry, Setup, find_transformer
from experiments.models.model_shapes import TransformerShape, families, shape_of
from experiments.shipped_tables import rows_of
from topologies.errors import InputError, naming

_LONGEST = 10_000
"""Letters of the longest list of blocks with experts."""


@cache
def presets() -> dict[str, str]:
    """The models by the name in a file: name/flavor of torchtitan, or the class of NeMo or
    Megatron-Bridge that has the sizes."""
    rows = rows_of(Path(__file__).with_name("presets.csv"))
    return {name: row["model"] for row in rows for name in row["names"].split()}


def model_of(facts: JobFacts, name: str) -> Entry | None:
    """The model that a file `name` describes; None if it does not say, or names one that simctl
    does not know. Raises InputError for sizes that make no sense."""
    preset = presets().get(_preset(facts), "")
    if "width" in facts and ("blocks" in facts or "pattern" in facts):
        entry = _of_sizes(facts, name)
    elif preset.startswith("{"):
        entry = _like(shape_of({**families()["llama"], **yaml.safe_load(preset)}), name)
    elif preset:
        entry = find_transformer(preset)
    else:
        if "flavor" in facts:
            facts.say("flavor", "simctl knows no such model: give --model, like llama3_70b")
        return None
    seq = facts["seq"] or entry.size
    stated = "".join(f",{key}={value}" for key, value in entry.choices.items() if key != "seq")
    with naming(facts.settings.get("seq")):
        return entry if seq == entry.size else entry.with_options(f"seq={seq}{stated}")


def _preset(facts: JobFacts) -> str:
    if "flavor" in facts:
        return f"{facts['family']}/{facts['flavor']}"
    return str(facts["provider"]).rpartition(".")[2] if "provider" in facts else ""


def _of_sizes(facts: JobFacts, name: str) -> Entry:
    values = _sizes(facts)
    try:
        shape = shape_of(values, str(facts.settings.get("pattern")))
    except InputError as error:
        raise error if name in str(error) else InputError(f"{name}: {error}") from None
    entry = _like(shape, name)
    if "vocabulary" in facts:
        # Frameworks pad a vocabulary, so that ranks share it evenly.
        is_near = abs(entry.shape.vocabulary - shape.vocabulary) < 0.03 * shape.vocabulary
        return entry if is_near else entry.with_options(f"vocab={shape.vocabulary}")
    if entry.model is shape:
        facts.remarks.append(
            f"{name}: it does not say how many tokens the vocabulary has: simctl takes "
            f"{shape.vocabulary}"
        )
    return entry


def _like(shape: TransformerShape, name: str) -> Entry:
    """The transformer of the catalogue with this shape and the nearest vocabulary, else a new one
    with this name."""
    alike = [
        each
        for each in MODELS.values()
        if isinstance(each.model, TransformerShape) and _is_like(each.model, shape)
    ]
    # The usual setup is chosen by tensors whose names the catalogue knows.
    usual = Entry(shape, min(shape.positions or 4096, 4096), setup=Setup(), name=name)
    words = shape.vocabulary
    return min(alike, key=lambda each: abs(each.shape.vocabulary - words), default=usual)


def _is_like(model: TransformerShape, shape: TransformerShape) -> bool:
    """Whether shapes are alike but for the vocabulary, which frameworks pad, the number of learned
    positions, and dropout, which a plan has."""
    positions = model.positions if model.positions and shape.positions else shape.positions
    same: dict[str, Any] = {
        "vocabulary": model.vocabulary,
        "positions": positions,
        "dropout": model.dropout,
    }
    return replace(shape, **same) == model


def _sizes(facts: JobFacts) -> dict[str, Any]:
    """The values of a shape, with the defaults of Megatron (megatron/training/arguments.py and
    TransformerConfig)."""
    values = {key: facts[key] for key in rows_by_name(facts.framework, "size")}
    width, kind = values["width"], facts["position_kind"]
    # Megatron's gated MLPs have two thirds of the usual size, in multiples of 64.
    usual = int(4 * width * 2 / 3) // 64 * 64 if values["gated"] else 4 * width
    values["hidden"] = values["hidden"] or usual
    values["rotary"] = facts["is_rotary"] or kind == "rope"
    longest = values["positions"] or facts["seq"] or 1024
    values["positions"] = longest if kind == "learned_absolute" and not values["rotary"] else 0
    if facts.is_arguments and not facts["grouped_queries"]:
        values["kv_heads"] = None
    if values["number"]:
        values["dense"] = _dense_blocks(facts, values["blocks"])
    if facts["is_latent"] or (facts["is_latent"] is None and "key_rank" in facts):
        values["head_norms"] = False
    else:
        del values["nope"]
    pattern = values.pop("pattern")
    values["blocks"] = values["blocks"] or len(pattern)
    if re.fullmatch(r"[M*E-]{1,4096}", pattern):
        values["pattern"] = pattern
        values["mamba_heads"] = values["mamba_heads"] or max(1, 2 * width // values["mamba_head"])
    elif pattern:
        facts.say("pattern", "simctl knows the letters M, *, - and E")
    return {**values, **_windows(facts, values["blocks"])}


def _windows(facts: JobFacts, blocks: int) -> dict[str, Any]:
    """Windowed attention: Megatron counts the tokens before a query. Without a period, every block
    has the window."""
    if sizes := re.findall(r"\d{1,8}", facts["window"]):
        return {"window": int(sizes[0]) + 1, "period": facts["period"] or blocks + 1}
    return {"period": 1, "sinks": False}


def _dense_blocks(facts: JobFacts, blocks: int | None) -> int:
    """The first blocks without experts: moe_layer_freq is 1, or a list like [0]*3+[1]*58. Raises
    InputError for a list of more or fewer blocks than there are."""
    word = facts["expert_pattern"][:_LONGEST].replace(" ", "").strip("()")
    if word == "1":
        return 0
    word = f"[{word}]" if "," in word and "[" not in word else word
    part = r"\[([01,]+)\](?:\*(\d{1,4}))?"
    parts = re.findall(part, word) if re.fullmatch(rf"{part}(?:\+{part})*", word) else []
    pattern = "".join(digits.replace(",", "") * int(times or 1) for digits, times in parts)
    if parts and blocks and len(pattern) != blocks:
        wrong = f"{len(pattern)} layers, and the model has {blocks}"
        raise InputError(f"{facts.settings['expert_pattern']}: {wrong}")
    if match := re.fullmatch("(0*)1+", pattern):
        return len(match[1])
    facts.say("expert_pattern", "blocks with experts come last")
    return 0
