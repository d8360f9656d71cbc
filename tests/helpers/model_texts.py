"""A small model as text and as a value, what is made of any text, and config.json files of
transformers in the catalogue, as Hugging Face has them."""

from typing import Any

import refusals
from experiments.models.model_files import parse
from simulator.training.model import Layer, Model, Tensor
from topologies.errors import InputError

SMALL = """\
name: m
batch: 4
layers:
- {name: a, forward: 1ms, backward: 2ms, parameters: {weight: 4MB, bias: 4kB}}
- {name: b, forward: 100us, backward: 0s, parameters: 1MiB}
"""
TWO = Model(
    "m",
    4,
    (
        Layer("a", 1e-3, 2e-3, tensors=(Tensor("weight", 4e6), Tensor("bias", 4e3))),
        Layer("b", 1e-4, 0.0, tensors=(Tensor("weight", 2.0**20),)),
    ),
)


def outcome(text: str, name: str) -> Model | str:
    """The model in a text, or the line with which it is refused."""
    try:
        return parse(text, name)
    except InputError as error:
        return str(error)


def refusal(text: str, name: str = "m.yaml") -> str:
    """The one line with which a text is refused."""
    return refusals.refusal(parse, text, name)


PLAIN = {
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "bert_base": {
        "model_type": "bert",
        "num_hidden_layers": 12,
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "vocab_size": 30522,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
    },
    "gpt2": {
        "model_type": "gpt2",
        "n_layer": 12,
        "n_embd": 768,
        "n_head": 12,
        "n_inner": None,
        "vocab_size": 50257,
        "n_positions": 1024,
    },
    "llama3_8b": {"model_type": "llama", **PLAIN},
    "mixtral_8x7b": {
        "model_type": "mixtral",
        **PLAIN,
        "vocab_size": 32000,
        "max_position_embeddings": 32768,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    },
    "qwen3_30b_a3b": {
        "model_type": "qwen3_moe",
        "num_hidden_layers": 48,
        "hidden_size": 2048,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "intermediate_size": 6144,
        "vocab_size": 151936,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "max_position_embeddings": 40960,
    },
    "deepseek_v3": {
        "model_type": "deepseek_v3",
        "num_hidden_layers": 61,
        "hidden_size": 7168,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "intermediate_size": 18432,
        "vocab_size": 129280,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 2048,
        "first_k_dense_replace": 3,
        "max_position_embeddings": 163840,
        "num_nextn_predict_layers": 1,
    },
    "gpt_oss_20b": {
        "model_type": "gpt_oss",
        "num_hidden_layers": 24,
        "hidden_size": 2880,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "intermediate_size": 2880,
        "vocab_size": 201088,
        "num_local_experts": 32,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
        "attention_bias": True,
        "max_position_embeddings": 131072,
    },
    "nemotron3_nano": {
        "model_type": "nemotron_h",
        "num_hidden_layers": 52,
        "hidden_size": 2688,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "intermediate_size": 1856,
        "vocab_size": 131072,
        "hybrid_override_pattern": "MEMEM*" + "EMEMEM*" * 4 + "EMEMEMEM*EMEMEMEME",
        "mamba_num_heads": 64,
        "mamba_head_dim": 64,
        "ssm_state_size": 128,
        "n_groups": 8,
        "conv_kernel": 4,
        "chunk_size": 128,
        "n_routed_experts": 128,
        "n_shared_experts": 1,
        "num_experts_per_tok": 6,
        "moe_intermediate_size": 1856,
        "moe_shared_expert_intermediate_size": 3712,
    },
    "vit_l16": {
        "model_type": "vit",
        "num_hidden_layers": 24,
        "hidden_size": 1024,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "image_size": 224,
        "patch_size": 16,
        "id2label": {str(label): "" for label in range(1000)},
    },
    "mpt_1b": {
        "model_type": "mpt",
        "n_layers": 24,
        "d_model": 2048,
        "n_heads": 16,
        "expansion_ratio": 4,
        "vocab_size": 50368,
        "max_seq_len": 2048,
        "no_bias": False,
        "attn_config": {"alibi": False},
    },
}
"""The configurations of shapes in the catalogue."""
