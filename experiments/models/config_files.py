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
from experiments.models.model_shapes import families, shape_of
from experiments.shipped_tables import rows_of
from topologies.errors import InputError, naming, nearest_name, shown
from topologies.readers.contents import check_text
from topologies.readers.mistakes import Mistakes
from topologies.readers.plain_files import load_json, place_in

USUAL_SEQUENCE = 4096
"""Tokens of a sequence, where positions are rotary and no option says otherwise."""
_RULES = ConfigDict(extra="ignore", strict=True)


class _MptAttention(BaseModel):
    """An MPT's attn_config."""

    model_config = _RULES
    alibi: bool = False
    rope: bool = False
    attn_type: str = "multihead_attention"
    kv_n_heads: Annotated[int, Field(ge=1, le=2**14)] | None = None


_KINDS: Mapping[str, Any] = {
    "pattern": Annotated[str, Field(pattern=r"^[M*E-]+$", max_length=4096)],
    "turns": list[Literal["sliding_attention", "full_attention"]],
    "labels": Annotated[dict[str, Any], Field(min_length=1)],
    "bool": bool,
    "attention": _MptAttention,
    # These are the only values that simctl can read.
    "false": Literal[False],
    "true": Literal[True],
    "one": Literal[1],
    "no layers": Annotated[list[int], Field(max_length=0)],
}
"""The kinds of values of keys that are no whole numbers."""


def _kind(text: str) -> Any:
    """The kind of a value in the table of keys, like 1..4096, or 1..4096 or none."""
    if text in _KINDS:
        return _KINDS[text]
    bounds, _, none = text.partition(" or ")
    least, most = map(int, bounds.split(".."))
    whole = Annotated[int, Field(ge=least, le=most)]
    return whole | None if none else whole


def _families() -> dict[str, dict[str, Any]]:
    families = defaultdict[str, dict[str, Any]](dict)
    for row in rows_of(Path(__file__).with_name("config_keys.csv")):
        default = json.loads(row["default"]) if row["default"] else ...
        field = Field(default, alias=row["key"], validate_default=True)
        for family in row["families"].split():
            families[family][row["field"]] = _kind(row["kind"]), field
    return dict(sorted(families.items()))


FAMILIES = _families()
"""The keys of each model_type, by the field of
:class:`experiments.models.model_shapes.TransformerShape` or of what it consists of that each is. A
value that is no such field has the name of its key."""


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
        fixed = families().get(f"{family}/config.json", families()["llama"])
        shape = shape_of({**dict(config), **fixed})
    longest = min(shape.longest or USUAL_SEQUENCE, USUAL_SEQUENCE)
    return Entry(shape, shape.positions or longest, name=name)
