"""Options that change a shape: layers, hidden, heads and so on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from experiments.models.model_shapes import Experts, Shape, divisor, share
from topologies.errors import InputError, unknown_option

OPTIONS: dict[str, str] = {
    "layers": "blocks of attention and MLP",
    "hidden": "elements of a token between blocks; the MLP changes in proportion",
    "heads": "heads of queries",
    "kv_heads": "heads of keys and values",
    "mlp": "elements of a token inside an MLP",
    "vocab": "tokens of the vocabulary",
}
"""The options and their meaning."""
MOST = {
    "layers": 4096,
    "hidden": 2**20,
    "heads": 2**14,
    "kv_heads": 2**14,
    "mlp": 2**22,
    "vocab": 2**24,
}
"""The largest value of each option."""

T = TypeVar("T")


def read_options(
    name: str,
    text: str,
    known: Mapping[str, str],
    parse: Callable[[str, str], T],
    begun: Mapping[str, T] | None = None,
) -> dict[str, T]:
    """The options of the model `name` in key=value,..., beside those in `begun`.

    `known` says what each option is for, and `parse` reads the text of an option. Raises InputError
    for an option that is unknown, has no value, or comes twice.
    """
    values = dict(begun or {})
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key not in known:
            raise InputError(unknown_option(name, key, known))
        if not equals:
            raise InputError(f"{name}: {key} has no value: write {key}=value, {known[key]}")
        if key in values:
            raise InputError(f"{name}: {key} is given twice")
        values[key] = parse(key, value)
    return values


def parse_size(name: str, key: str, text: str, least: int, most: int) -> int:
    """The whole number of an option. Raises InputError if it is out of range."""
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise InputError(
            f"{name}:{key}: {text[:40]!r} is not a whole number: write it like {least}"
        )
    if not least <= int(text) <= most:
        raise InputError(f"{name}:{key}: {text} is out of range: it is {least} to {most}")
    return int(text)


def describe(shape: Shape) -> dict[str, str]:
    """What each option is for, with its value in the shape."""
    values = {
        "layers": shape.blocks,
        "hidden": shape.width,
        "heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "mlp": shape.hidden,
        "vocab": shape.vocabulary,
    }
    return {key: f"{meaning}, 1 to {MOST[key]} [{values[key]}]" for key, meaning in OPTIONS.items()}


def changed(shape: Shape, values: Mapping[str, int], positions: int) -> Shape:
    """The shape with other layers, hidden, heads, kv_heads, mlp and vocab, and with `positions`
    learned positions unless that is 0.

    An MLP and experts keep their ratio to the width, and heads keep the number of queries that
    share keys. Raises InputError for heads that do not divide.
    """
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
            f"kv_heads={divisor(heads, shape.kv_heads)}"
        )
    return heads // group
