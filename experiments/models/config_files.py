"""Hugging Face's config.json of a transformer, as a model.

Each family has the keys that its configuration has in transformers; other keys are skipped.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from experiments.models.model_catalogue import Entry
from experiments.models.model_shapes import RMS_DECODER
from experiments.models.shape_values import shape_of
from experiments.shipped_tables import rows_of
from topologies.errors import InputError, naming, nearest_name, shown
from topologies.readers.contents import check_text
from topologies.readers.mistakes import Mistakes
from topologies.readers.plain_files import load_json, place_in

USUAL_SEQUENCE = 4096
"""Tokens of a sequence, where positions are rotary and no option says otherwise."""
_RULES = ConfigDict(extra="ignore", strict=True)


def _whole(least: int, most: int) -> Any:
    return Annotated[int, Field(ge=least, le=most)]


class _MptAttention(BaseModel):
    """An MPT's attn_config."""

    model_config = _RULES
    alibi: bool = False
    rope: bool = False
    attn_type: str = "multihead_attention"
    kv_n_heads: Annotated[int, Field(ge=1, le=2**14)] | None = None


_KINDS: Mapping[str, Any] = {
    "blocks": _whole(1, 4096),
    "heads": _whole(1, 2**14),
    "heads or none": _whole(1, 2**14) | None,
    "width": _whole(1, 2**24),
    "width or none": _whole(1, 2**24) | None,
    "experts": _whole(0, 2**14),
    "size": _whole(0, 2**24),
    "pattern": Annotated[str, Field(pattern=r"^[M*E-]+$", max_length=4096)],
    "turns": list[Literal["sliding_attention", "full_attention"]],
    "ratio": _whole(1, 64),
    "side": _whole(1, 2**14),
    "channels": _whole(1, 1024),
    "labels": Annotated[dict[str, Any], Field(min_length=1)],
    "bool": bool,
    "attention": _MptAttention,
    # These are the only values that simctl can read.
    "false": Literal[False],
    "true": Literal[True],
    "one": Literal[1],
    "no layers": Annotated[list[int], Field(max_length=0)],
}
"""The kinds of values of keys."""


def _families() -> dict[str, dict[str, Any]]:
    families = defaultdict[str, dict[str, Any]](dict)
    for row in rows_of(Path(__file__).with_name("config_keys.csv")):
        default = json.loads(row["default"]) if row["default"] else ...
        field = Field(default, alias=row["key"], validate_default=True)
        for family in row["families"].split():
            families[family][row["field"]] = _KINDS[row["kind"]], field
    return dict(sorted(families.items()))


FAMILIES = _families()
"""The keys of each model_type, by the field of
:class:`experiments.models.model_shapes.TransformerShape` or of what it consists of that each is. A
value that is no such field has the name of its key."""
_CONSTANTS: Mapping[str, dict[str, Any]] = {
    "bert": {"kind": "encoder", "dropout": True},
    "gpt_oss": {**RMS_DECODER, "biases": True, "sinks": True},
    "nemotron_h": {"norm": "rms", "biases": False},
    "gpt2": {"dropout": True},
    "mpt": {"tied": True},
    "qwen3": {**RMS_DECODER, "head_norms": True},
    "qwen3_moe": {**RMS_DECODER, "head_norms": True},
    "vit": {"kind": "image"},
}
"""Fields of a shape that no key changes; those of a Llama for other families."""


def parse(text: str, name: str) -> Entry:
    """The model in the text of the config.json `name`. Raises InputError, in one line with the
    name."""
    text = check_text(text, name)
    content, mistakes = load_json(text, name), Mistakes()
    family = content.get("model_type") if isinstance(content, dict) else None
    if not isinstance(family, str) or family not in FAMILIES:
        wrong = "is missing" if family is None else f"{shown(family)} is unknown"
        hint = nearest_name(shown(family), FAMILIES, f"simctl knows {', '.join(FAMILIES)}")
        raise InputError(f"{name}: model_type {wrong}: {hint}")
    config = mistakes.checked(create_model(family, __config__=_RULES, **FAMILIES[family]), content)
    mistakes.report(place_in(text, name))
    with naming(name):
        shape = shape_of({**dict(config), **_CONSTANTS.get(family, RMS_DECODER)})
    longest = min(shape.longest or USUAL_SEQUENCE, USUAL_SEQUENCE)
    return Entry(shape, shape.positions or longest, name=name)
