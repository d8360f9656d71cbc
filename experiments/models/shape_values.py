"""Shapes of transformers from plain values, as tables and files have them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from experiments.models.mixer_shapes import Experts, Latent, Mamba
from experiments.models.model_shapes import TransformerShape
from experiments.shipped_tables import rows_of
from simulator.parallel.degrees import divisor
from topologies.errors import InputError

WORDS = ("encoder", "image", "rms")
"""Values of `model_families.csv` that are no numbers and no truth values."""


@cache
def families() -> Mapping[str, Mapping[str, Any]]:
    """What the transformers of a family have in common, as values of a shape, by its name: those of
    the catalogue, and of a model_type with its config.json, unless that is as for `llama`."""
    values_of: dict[str, dict[str, Any]] = {"": {}}
    for row in rows_of(Path(__file__).with_name("model_families.csv")):
        pairs = (pair.split("=") for pair in row["values"].split())
        values = {key: json.loads(text) if text not in WORDS else text for key, text in pairs}
        values_of[row["family"]] = values_of[row["like"]] | values
    return values_of


def share(width: int, heads: int) -> int:
    """The elements of each of `heads` heads. Raises InputError if they do not divide the width."""
    if width % heads:
        above = -(-width // heads) * heads
        raise InputError(
            f"hidden={width} is no multiple of heads={heads}: write hidden={above} or "
            f"heads={divisor(width, heads)}"
        )
    return width // heads


def shape_of(
    values: Mapping[str, Any], pattern: str = "hybrid_override_pattern"
) -> TransformerShape:
    """The shape with these values of the fields of :class:`TransformerShape`, or of what it
    consists of. Unless they say otherwise, it has as many heads of keys as of queries, which share
    the width, and an MLP of 4 times the width.

    Raises InputError for values that do not go together; `pattern` is what the user calls the
    blocks of a hybrid.

    >>> shape_of({"blocks": 12, "width": 768, "heads": 12, "vocabulary": 50257}).head_size
    64
    """
    values = dict(values)
    values["hidden"] = values.get("hidden") or values.get("expansion_ratio", 4) * values["width"]
    if values.get("number"):
        inside = values.get("inside") or values["hidden"]
        shared = values.get("shared_size", values.get("shared", 0) * inside)
        dense, latent = values.get("dense", 0), values.get("latent_width") or 0
        experts = values["number"], values["top"], inside, shared, dense, latent
        values["experts"] = Experts(*experts)
    if "layer_types" in values:
        turns = [kind == "full_attention" for kind in values["layer_types"]]
        values["period"] = period = turns.index(True) + 1 if True in turns else len(turns) + 1
        if turns != [number % period == 0 for number in range(1, values["blocks"] + 1)]:
            raise InputError("layer_types: expected full attention in every so many-th layer")
    if "pattern" in values:
        keys = "mamba_heads", "mamba_head", "state", "groups", "kernel", "chunk"
        values["mamba"] = Mamba(*(values[key] for key in keys if key in values))
        if len(values["pattern"]) != values["blocks"]:
            count = len(values["pattern"])
            raise InputError(f"{pattern} has {count} layers, and the model {values['blocks']}")
        if "E" in values["pattern"] and "experts" not in values:
            raise InputError(f"{pattern} has E: say how many experts there are")
    if "nope" in values:
        of_queries = values["query_rank"] or 0
        sizes = [values[key] for key in ("key_rank", "nope", "rope", "value")]
        values |= {"latent": Latent(of_queries, *sizes), "head_size": values["nope"]}
    if "patch_size" in values:
        side, rest = divmod(values["image_size"], values["patch_size"])
        if rest:
            raise InputError(
                f"image_size {values['image_size']} is no multiple of patch_size "
                f"{values['patch_size']}"
            )
        patch = values["num_channels"] * values["patch_size"] ** 2
        values |= {"vocabulary": len(values["id2label"]), "positions": side**2 + 1, "patch": patch}
    if "attn_config" in values:
        attention = values["attn_config"]
        usual_heads = 1 if attention.attn_type == "multiquery_attention" else values["heads"]
        # Positions are learned if attention has neither ALiBi nor rotary ones.
        learned = values["learned_pos_emb"] and not attention.alibi and not attention.rope
        values |= {
            "kv_heads": attention.kv_n_heads or usual_heads,
            "positions": values["max_seq_len"] if learned else 0,
            "biases": not values["no_bias"],
            "rotary": attention.rope,
        }
    values["head_size"] = values.get("head_size") or share(values["width"], values["heads"])
    values["kv_heads"] = values.get("kv_heads") or values["heads"]
    names = values.keys() & TransformerShape.__dataclass_fields__.keys()
    return TransformerShape(**{name: values[name] for name in names})
