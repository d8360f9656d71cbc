"""Options that change a shape: layers, hidden, heads and so on."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import gcd

from experiments.models.model_shapes import Experts, Shape, share
from topologies.errors import InputError, unknown_option

OPTIONS: dict[str, str] = {
    "layers": "blocks of attention and MLP",
    "hidden": "elements of a token between blocks; the MLP changes in proportion",
    "heads": "heads of queries",
    "kv_heads": "heads of keys and values",
    "mlp": "elements of a token inside an MLP",
    "vocab": "tokens of the vocabulary",
    "seq": "tokens of a sequence",
}
"""The options and their meaning."""
MOST = {"layers": 4096, "hidden": 2**20, "heads": 2**14, "kv_heads": 2**14, "mlp": 2**22}
"""The largest value of an option; others: 2**24."""


def parse_options(
    name: str, text: str, others: Collection[str], longest: int
) -> tuple[dict[str, int], dict[str, str]]:
    """The options of the shape `name` in key=value,..., and those that `others` names as text.

    `longest` is the largest value of `seq`. Raises InputError.
    """
    values: dict[str, int] = {}
    texts: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key not in OPTIONS and key not in others:
            raise InputError(unknown_option(name, key, OPTIONS))
        if not equals:
            raise InputError(f"{name}: {key[:40]} has no value: write {key[:40]}=value")
        if key in values or key in texts:
            raise InputError(f"{name}: {key} is given twice")
        if key in others:
            texts[key] = value
        else:
            values[key] = _whole(name, key, value, longest if key == "seq" else None)
    return values, texts


def changed(name: str, shape: Shape, values: Mapping[str, int], positions: int) -> Shape:
    """The shape with other layers, hidden, heads, kv_heads, mlp and vocab, and with `positions`
    learned positions unless that is 0.

    An MLP and experts keep their ratio to the width, and heads keep the number of queries that
    share keys. Raises InputError for heads that do not divide.
    """
    try:
        return _changed(shape, values, positions)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _changed(shape: Shape, values: Mapping[str, int], positions: int) -> Shape:
    width, heads = values.get("hidden", shape.width), values.get("heads", shape.heads)
    shared = not shape.latent and shape.head_size * shape.heads == shape.width
    scale = width / shape.width
    return replace(
        shape,
        blocks=values.get("layers", shape.blocks),
        width=width,
        heads=heads,
        kv_heads=values.get("kv_heads") or _kv_heads(shape, heads),
        head_size=share(width, heads) if shared else shape.head_size,
        hidden=values.get("mlp", max(1, round(shape.hidden * scale))),
        vocabulary=values.get("vocab", shape.vocabulary),
        positions=positions if positions and shape.positions else shape.positions,
        experts=shape.experts and _scaled(shape.experts, scale),
    )


def _scaled(experts: Experts, scale: float) -> Experts:
    hidden, shared = (round(size * scale) for size in (experts.hidden, experts.shared))
    return replace(experts, hidden=max(1, hidden), shared=shared)


def _kv_heads(shape: Shape, heads: int) -> int:
    group = shape.heads // shape.kv_heads
    if heads % group:
        raise InputError(
            f"heads={heads} is no multiple of {group}, the heads that share keys: add "
            f"kv_heads={gcd(heads, shape.kv_heads)}"
        )
    return heads // group


def _whole(name: str, key: str, text: str, longest: int | None) -> int:
    most = longest or MOST.get(key, 2**24)
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise InputError(f"{name}:{key}: {text[:40]!r} is not a whole number: write it like 1")
    if not 1 <= int(text) <= most:
        raise InputError(f"{name}:{key}: {text} is out of range: it is 1 to {most}")
    return int(text)
