"""Hugging Face's config.json of a transformer, as a model.

Each family has the keys that its configuration has in transformers; other keys are skipped. The
fields of a family have the names of those of
:class:`experiments.models.model_shapes.TransformerShape`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from experiments.models.model_entry import LONGEST, Entry
from experiments.models.model_shapes import (
    RMS_DECODER,
    Experts,
    Latent,
    TransformerShape,
    multi_head,
)
from topologies.errors import InputError, nearest_name, shown
from topologies.readers.contents import check_text
from topologies.readers.mistakes import Mistakes
from topologies.readers.plain_files import load_json, place_in

USUAL_SEQUENCE = 4096
"""Tokens of a sequence, where positions are rotary and no option says otherwise."""
Blocks = Annotated[int, Field(ge=1, le=4096)]
Heads = Annotated[int, Field(ge=1, le=2**14)]
Width = Annotated[int, Field(ge=1, le=2**24)]
Side = Annotated[int, Field(ge=1, le=2**14)]


class _Keys(BaseModel):
    """Keys of a mapping."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class _Family(_Keys):
    """Keys of a family of models. Those with the name of a field of a shape are that field."""

    constants: ClassVar[Mapping[str, Any]] = {}
    """Fields of the shape that no key changes."""

    def more(self) -> Mapping[str, Any]:
        """Fields of the shape that several keys determine. Raises InputError."""
        return {}

    def shape(self) -> TransformerShape:
        """The shape that the keys describe. Raises InputError."""
        named = {key: value for key, value in self if key in TransformerShape.__dataclass_fields__}
        return multi_head(**{**named, **self.constants, **self.more()})


class _UsualFamily(_Family):
    """Keys of most families."""

    blocks: Blocks = Field(alias="num_hidden_layers")
    width: Width = Field(alias="hidden_size")
    heads: Heads = Field(alias="num_attention_heads")
    hidden: Width = Field(alias="intermediate_size")


class _Bert(_UsualFamily):
    """BertModel with its pooler."""

    constants = {"kind": "encoder", "dropout": True}
    vocabulary: Width = Field(alias="vocab_size")
    positions: Width = Field(alias="max_position_embeddings")
    segments: Width = Field(2, alias="type_vocab_size")


class _Gpt2(_Family):
    """GPT2LMHeadModel."""

    constants = {"dropout": True}
    blocks: Blocks = Field(alias="n_layer")
    width: Width = Field(alias="n_embd")
    heads: Heads = Field(alias="n_head")
    hidden: Width | None = Field(None, alias="n_inner")
    vocabulary: Width = Field(alias="vocab_size")
    positions: Width = Field(alias="n_positions")
    tied: bool = Field(True, alias="tie_word_embeddings")

    def more(self) -> Mapping[str, Any]:
        return {"hidden": self.hidden or 4 * self.width}


class _MptAttention(_Keys):
    """Keys of an MPT's attn_config."""

    alibi: bool = False
    rope: bool = False
    attn_type: str = "multihead_attention"
    kv_n_heads: Heads | None = None


class _Mpt(_Family):
    """Positions are learned if attention has neither ALiBi nor rotary ones."""

    constants = {"tied": True}
    blocks: Blocks = Field(alias="n_layers")
    width: Width = Field(alias="d_model")
    heads: Heads = Field(alias="n_heads")
    expansion_ratio: Annotated[int, Field(ge=1, le=64)] = 4
    vocabulary: Width = Field(alias="vocab_size")
    max_seq_len: Width
    no_bias: bool = True
    learned_pos_emb: bool = True
    attn_config: _MptAttention = _MptAttention()

    def more(self) -> Mapping[str, Any]:
        attention = self.attn_config
        usual_heads = 1 if attention.attn_type == "multiquery_attention" else self.heads
        learned = self.learned_pos_emb and not attention.alibi and not attention.rope
        return {
            "kv_heads": attention.kv_n_heads or usual_heads,
            "hidden": self.expansion_ratio * self.width,
            "positions": self.max_seq_len if learned else 0,
            "biases": not self.no_bias,
            "rotary": attention.rope,
        }


class _Vit(_UsualFamily):
    """ViTForImageClassification."""

    constants = {"kind": "image"}
    image_size: Side
    patch_size: Side
    num_channels: Annotated[int, Field(ge=1, le=1024)] = 3
    id2label: dict[str, Any] = Field(default={"0": "", "1": ""}, min_length=1)

    def more(self) -> Mapping[str, Any]:
        side, rest = divmod(self.image_size, self.patch_size)
        if rest:
            raise InputError(
                f"image_size {self.image_size} is no multiple of patch_size {self.patch_size}"
            )
        patch = self.num_channels * self.patch_size**2
        return {"vocabulary": len(self.id2label), "positions": side**2 + 1, "patch": patch}


class _Llama(_UsualFamily):
    """LlamaForCausalLM."""

    constants = RMS_DECODER
    kv_heads: Heads | None = Field(None, alias="num_key_value_heads")
    head_size: Width | None = Field(None, alias="head_dim")
    vocabulary: Width = Field(alias="vocab_size")
    tied: bool = Field(False, alias="tie_word_embeddings")
    attention_bias: Literal[False] = False
    mlp_bias: Literal[False] = False
    max_position_embeddings: Width = LONGEST


class _Mixture(_Llama):
    """A mixture of experts."""

    number: Width
    top: Width = Field(alias="num_experts_per_tok")
    inner: Width = Field(alias="moe_intermediate_size")
    shared: Annotated[int, Field(ge=0, le=2**14)] = Field(0, alias="n_shared_experts")
    dense: Annotated[int, Field(ge=0, le=4096)] = Field(0, alias="first_k_dense_replace")

    def more(self) -> Mapping[str, Any]:
        shared = self.shared * self.inner
        return {"experts": Experts(self.number, self.top, self.inner, shared, self.dense)}


class _Mixtral(_Mixture):
    """MixtralForCausalLM."""

    number: Width = Field(alias="num_local_experts")
    inner: Width = Field(alias="intermediate_size")


class _Qwen3(_Llama):
    """Qwen3ForCausalLM."""

    constants = {**RMS_DECODER, "head_norms": True}


class _Qwen3Moe(_Mixture):
    """Qwen3MoeForCausalLM with experts in all blocks."""

    constants = _Qwen3.constants
    number: Width = Field(alias="num_experts")
    decoder_sparse_step: Literal[1] = 1
    mlp_only_layers: Annotated[list[int], Field(max_length=0)] = []


class _DeepseekV3(_Mixture):
    """DeepseekV3ForCausalLM. Blocks that predict further tokens are left out."""

    number: Width = Field(alias="n_routed_experts")
    moe_layer_freq: Literal[1] = 1
    query: Width | None = Field(None, alias="q_lora_rank")
    key: Width = Field(alias="kv_lora_rank")
    nope: Width = Field(alias="qk_nope_head_dim")
    rope: Width = Field(alias="qk_rope_head_dim")
    value: Width = Field(alias="v_head_dim")

    def more(self) -> Mapping[str, Any]:
        latent = Latent(self.query or 0, self.key, self.nope, self.rope, self.value)
        return {**super().more(), "latent": latent, "head_size": latent.nope}


FAMILIES: dict[str, type[_Family]] = {
    "bert": _Bert,
    "deepseek_v3": _DeepseekV3,
    "gpt2": _Gpt2,
    "llama": _Llama,
    "mixtral": _Mixtral,
    "mpt": _Mpt,
    "qwen3": _Qwen3,
    "qwen3_moe": _Qwen3Moe,
    "vit": _Vit,
}
"""The families by model_type."""


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
    config: _Family = mistakes.checked(FAMILIES[family], content)
    mistakes.report(place_in(text, name))
    try:
        shape = config.shape()
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    longest = config.max_position_embeddings if isinstance(config, _Llama) else USUAL_SEQUENCE
    return Entry(shape, shape.positions or min(longest, USUAL_SEQUENCE), name=name)
