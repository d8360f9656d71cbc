"""What a plan computes again before the backward, as the user writes it: full, full:12, op or
core_attn+mlp; and the modules of which CUDA graphs launch the kernels."""

from __future__ import annotations

import re
from functools import lru_cache
from math import inf
from typing import NamedTuple

from experiments.models.model_shapes import TransformerShape
from topologies.errors import InputError

WHOLE = ("none", "selective", "full", "op")
"""Words that stand alone."""
MODULES = ("core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts")
"""The modules that Megatron-Core can compute again (`--recompute-modules`)."""
GRAPHS = ("attn", "mamba", "mlp", "moe_router", "moe_preprocess")
"""The modules of Megatron-Core that can have a CUDA graph (`--cuda-graph-scope`)."""
_MODULE = f"(?:{'|'.join(MODULES)})"
_TEXT = re.compile(
    rf"none|({'|'.join(WHOLE[1:])}|{_MODULE}(?:\+{_MODULE})*)(?::(\d{{1,5}})|/([1-9]\d{{0,4}}))?",
    re.ASCII,
)


def modules_of(shape: TransformerShape, kind: str) -> set[str]:
    """The modules of `MODULES` that a layer of a kind has, as a shape has the kinds."""
    attends, experts = kind[0] in "*w", shape.experts if "E" in kind else None
    has = {
        "core_attn": attends,
        "layernorm": True,
        "mla_up_proj": attends and shape.latent,
        "mlp": "-" in kind,
        "moe": experts,
        "moe_act": experts,
        "shared_experts": experts and experts.shared,
    }
    return {module for module in MODULES if has[module]}


class Recomputation(NamedTuple):
    """What is computed again, and in which layers of a stage."""

    words: tuple[str, ...]
    """A word of `WHOLE`, or words of `MODULES`."""
    first: float = inf
    """How many layers of each stage, from its first one on (Megatron's method block)."""
    every: int = 1
    """In every so many-th layer of a stage (torchtitan's selective option)."""

    @property
    def is_partial(self) -> bool:
        """Whether some layers do not compute again."""
        return self.first < inf or self.every > 1

    def layers(self, count: int) -> list[bool]:
        """Whether each of the `count` layers of a stage computes again.

        >>> parse_recomputation("full/2").layers(5)
        [False, True, False, True, False]
        """
        return [number < self.first and (number + 1) % self.every == 0 for number in range(count)]


@lru_cache(maxsize=64)
def parse_recomputation(text: str) -> Recomputation:
    """What WORDS, WORDS:N or WORDS/N says: N layers of each stage, or every N-th one. Raises
    InputError."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise InputError(
            f"{', '.join(WHOLE)}, or modules joined by + ({', '.join(MODULES)}); then :12 for "
            "the first 12 layers of each stage, or /2 for every second layer"
        )
    words, first, every = match.groups(default="")
    return Recomputation(
        tuple(dict.fromkeys((words or "none").split("+"))),
        int(first) if first else inf,
        int(every or 1),
    )


def parse_graphs(text: str) -> str:
    """What CUDA graphs launch, as the user writes it. Raises InputError for other texts."""
    words = text.split("+")
    if text in ("no", "yes") or (set(words) <= {*GRAPHS} and len({*words}) == len(words)):
        return text
    raise InputError(f"yes, no, or modules joined by + ({', '.join(GRAPHS)})")


def parse_text(text: str) -> str:
    """The text of a recomputation. Raises InputError unless it is one."""
    parse_recomputation(text)
    return text
