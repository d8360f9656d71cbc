"""The shape of a transformer, its matrices and their parameters; and shapes from plain values, as
tables and files have them.

A shape knows nothing of time. A matrix of `inputs` x `outputs` elements costs 2 inputs x outputs
FLOPs for each token that passes it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal

from experiments.models.mixer_shapes import Experts, Latent, Mamba, WeightMatrix, window_keys
from experiments.shipped_tables import rows_of
from simulator.parallel.degrees import divisor
from topologies.errors import InputError


@dataclass(frozen=True)
class TransformerShape:
    """A transformer."""

    blocks: int
    """Blocks of attention and MLP. The usual name is layers."""
    width: int
    """Elements of a token between blocks. The usual name is hidden size."""
    heads: int
    kv_heads: int
    """Heads of keys and values. Each serves heads / kv_heads heads of queries."""
    head_size: int
    """Elements of a head's query, key and value. Those of latent attention are in `latent`."""
    hidden: int
    """Elements of a token inside an MLP."""
    vocabulary: int
    """Tokens that the model knows; classes of an image model."""
    kind: Literal["decoder", "encoder", "image"] = "decoder"
    """A decoder predicts tokens with causal attention. An encoder reads text in both directions and
    pools the first token. An image model reads patches and a class token."""
    gated: bool = False
    """Whether an MLP has a third matrix: activation(gate) x up, then down."""
    tied: bool = False
    """Whether the head is the table of tokens."""
    positions: int = 0
    """Learned positions; 0: rotary positions or ALiBi, which have no parameters."""
    longest: int = field(default=0, compare=False)
    """Tokens of a sequence for which rotary positions were trained; 0: not stated."""
    segments: int = 0
    """Learned kinds of segments in a text (BERT)."""
    norm: Literal["layer", "rms"] = "layer"
    """The kind of norm. An RMS norm never has a bias."""
    biases: bool = True
    """Whether the matrices of blocks and the layer norms have biases."""
    head_norms: bool = False
    """Whether an RMS norm precedes the scores: of each head's query and key (Qwen3)."""
    rotary: bool = False
    """Whether queries and keys are rotated by their positions."""
    dropout: bool = False
    """Whether dropout follows the embedding, attention and MLP."""
    patch: int = 0
    """Elements of an image's patch: channels x side²."""
    experts: Experts | None = None
    latent: Latent | None = None
    window: int = 0
    """Tokens that a query of windowed attention sees, itself and those before it; 0: all."""
    period: int = 1
    """With a window: every so many-th block sees all tokens."""
    sinks: bool = False
    """Whether each head has a learned logit that takes a share of the softmax (GPT-OSS)."""
    pattern: str = ""
    """The blocks of a hybrid, a letter each, as Nemotron-H writes them: M Mamba-2, * attention,
    - MLP, E experts; further blocks begin anew. Empty: each block has attention, and then an MLP
    or experts."""
    mamba: Mamba | None = None

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise InputError(
                f"heads={self.heads} is no multiple of kv_heads={self.kv_heads}: write "
                f"kv_heads={divisor(self.heads, self.kv_heads)}"
            )
        if self.experts and self.experts.top > self.experts.number:
            raise InputError(
                f"a token passes {self.experts.top} of {self.experts.number} experts: write at "
                f"most {self.experts.number}"
            )

    @property
    def kinds(self) -> list[str]:
        """What each block consists of: letters of `pattern`, and w for windowed attention."""
        if self.pattern:
            return [*islice(cycle(self.pattern), self.blocks)]
        dense = self.experts.dense if self.experts else self.blocks
        return [
            ("w" if self.window and (number + 1) % self.period else "*")
            + ("-" if number < dense else "E")
            for number in range(self.blocks)
        ]

    @property
    def parts(self) -> Counter[str]:
        """How many parts of each kind all blocks have."""
        return Counter("".join(self.kinds))

    @property
    def attention_blocks(self) -> int:
        """Blocks with attention."""
        return self.parts["*"] + self.parts["w"]

    def seen(self, seq: int) -> float:
        """Keys that a query sees on average in all blocks together, in both directions, if a
        sequence has `seq` tokens."""
        return self.parts["*"] * seq + self.parts["w"] * window_keys(self.window, seq)

    @property
    def key_size(self) -> int:
        """Elements of a head's query and key."""
        return self.latent.nope + self.latent.rope if self.latent else self.head_size

    @property
    def value_size(self) -> int:
        """Elements of a head's value."""
        return self.latent.value if self.latent else self.head_size

    @property
    def attention_matrices(self) -> tuple[WeightMatrix, ...]:
        """The matrices of attention in a block."""
        latent, queries = self.latent, self.heads * self.key_size
        keys = self.kv_heads * self.head_size
        sizes = {"query": (self.width, queries)}
        if not latent:
            sizes["key"] = sizes["value"] = (self.width, keys)
        else:
            if latent.query_rank:
                sizes = {
                    "query_narrow": (self.width, latent.query_rank),
                    "query_wide": (latent.query_rank, queries),
                }
            sizes["key_narrow"] = (self.width, latent.key_rank + latent.rope)
            sizes["key_wide"] = (latent.key_rank, self.heads * (latent.nope + latent.value))
        sizes["output"] = (self.heads * self.value_size, self.width)
        return tuple(WeightMatrix(name, *size, self.biases) for name, size in sizes.items())

    def mlp_matrices(self, hidden: int, width: int = 0) -> tuple[WeightMatrix, ...]:
        """The matrices of an MLP or a shared expert with `hidden` elements inside, for tokens of
        `width` elements; 0: the usual ones."""
        up, width = ("gate", "up") if self.gated else ("up",), width or self.width
        return (
            *(WeightMatrix(name, width, hidden, self.biases) for name in up),
            WeightMatrix("down", hidden, width, self.biases),
        )

    @property
    def expert_width(self) -> int:
        """Elements of a token at an expert."""
        return (self.experts.latent if self.experts else 0) or self.width

    @property
    def expert_matrices(self) -> tuple[WeightMatrix, ...]:
        """The matrices of an expert; none if there are no experts."""
        hidden = self.experts.hidden if self.experts else 0
        return self.mlp_matrices(hidden, self.expert_width) if hidden else ()

    @property
    def expert_parameters(self) -> int:
        """Elements of an expert; 0 if there are no experts."""
        return sum(matrix.parameters for matrix in self.expert_matrices)

    @property
    def head(self) -> WeightMatrix:
        """The matrix after the last block. An encoder pools one token with it, and an image model
        classifies one."""
        if self.kind == "encoder":
            return WeightMatrix("pooler", self.width, self.width, bias=True)
        return WeightMatrix("head", self.width, self.vocabulary, bias=self.kind == "image")

    @property
    def embedding(self) -> int:
        """Elements of the tables of tokens, positions and segments, and of the matrix of an image's
        patches."""
        rows = self.positions + self.segments + (0 if self.patch else self.vocabulary)
        patches = WeightMatrix("patches", self.patch, self.width, bias=True).parameters + self.width
        return rows * self.width + (patches if self.patch else 0)

    def part_matrices(self, letter: str) -> tuple[WeightMatrix, ...]:
        """The matrices that all tokens pass in a part of a block, by its letter in `kinds`: of
        experts those of the shared ones."""
        if letter in "*w":
            return self.attention_matrices
        if letter == "M" and self.mamba:
            return self.mamba.matrices(self.width)
        hidden = self.experts.shared if letter == "E" and self.experts else self.hidden
        return self.mlp_matrices(hidden) if hidden else ()

    def part_parameters(self, letter: str) -> int:
        """Elements of a part of a block, without the experts that a token may pass, their router
        and the matrices around them."""
        if letter == "M" and self.mamba:
            return self.mamba.parameters(self.width)
        matrices = sum(matrix.parameters for matrix in self.part_matrices(letter))
        return matrices + (self.heads * self.sinks if letter in "*w" else 0)

    @property
    def multiplied(self) -> int:
        """Elements of the matrices in blocks, without those of routers."""
        routers = self.parts["E"] * self.experts.number * self.width if self.experts else 0
        ends = self.embedding + self.norms + self.head_parameters
        return self.parameters - ends - routers

    @property
    def norms(self) -> int:
        """Elements of all norms: one of a token before each part of a block, and another before the
        first block (encoder) or after the last."""
        elements = (self.parts.total() + 1) * self.width
        elements *= 2 if self.biases and self.norm == "layer" else 1
        narrow = self.latent.query_rank + self.latent.key_rank if self.latent else 0
        narrow += 2 * self.head_size * self.head_norms
        return elements + self.attention_blocks * narrow

    @property
    def head_parameters(self) -> int:
        """Elements of the matrix after the last block; 0 if it is the table of tokens once more."""
        return 0 if self.tied else self.head.parameters

    @property
    def parameters(self) -> int:
        """Elements of all parameters."""
        return self._parameters(self.experts.number if self.experts else 0)

    @property
    def active_parameters(self) -> int:
        """Elements of the parameters that a token passes: all but the experts that the router did
        not choose. Embedding and head count."""
        return self._parameters(self.experts.top if self.experts else 0)

    def _parameters(self, number: int) -> int:
        """Elements of all parameters with `number` experts in a block."""
        parts = self.parts
        total = self.embedding + self.norms + self.head_parameters
        total += sum(count * self.part_parameters(letter) for letter, count in parts.items())
        dense = self.experts.dense_parameters(self.width) if self.experts else 0
        return total + parts["E"] * (number * self.expert_parameters + dense)


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
